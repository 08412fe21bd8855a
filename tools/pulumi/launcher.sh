#!/bin/sh
# ray-train-efa pulumi launcher: set-up writes it to .venv/bin/pulumi with the two paths filled in.
# It runs the real CLI with this environment first on PATH. Stacks of the local platform keep their state in the project's .state
# with an empty passphrase unless you chose otherwise; every other stack uses your own backend, untouched.
project=@PROJECT@
cli=@CLI@

PATH=$project/.venv/bin:${cli%/*}:$PATH
PULUMI_SKIP_UPDATE_CHECK=${PULUMI_SKIP_UPDATE_CHECK:-true}
# The CLI talks to its language host and providers on loopback, and gRPC would send that through a proxy.
no_proxy=${no_proxy:-${NO_PROXY:-}}
no_proxy=${no_proxy:+$no_proxy,}127.0.0.1,localhost
NO_PROXY=$no_proxy
export PATH PULUMI_SKIP_UPDATE_CHECK no_proxy NO_PROXY

if [ ! -x "$cli" ]; then
  echo "pulumi: the Pulumi CLI is no longer at $cli: run 'make setup' in $project" >&2
  exit 127
fi

stack=${PULUMI_STACK:-}
directory=.
command=
subcommand=
name=
next=
for argument in "$@"; do
  if [ -n "$next" ]; then
    case $next in
      stack) stack=$argument ;;
      directory) directory=$argument ;;
    esac
    next=
    continue
  fi
  case $argument in
    --) break ;;
    -h | --help) exec "$cli" "$@" ;;
    -s | --stack | -[fy]s | -[fy][fy]s) next=stack ;;
    --stack=*) stack=${argument#--stack=} ;;
    -s=*) stack=${argument#-s=} ;;
    -s*) stack=${argument#-s} ;;
    -C | --cwd) next=directory ;;
    --cwd=*) directory=${argument#--cwd=} ;;
    -C=*) directory=${argument#-C=} ;;
    -C*) directory=${argument#-C} ;;
    -v | --verbose | --color | --tracing | --otel-traces | --profiling) next=other ;;
    -*) ;;
    *)
      if [ -z "$command" ]; then
        command=$argument
      elif [ -z "$subcommand" ]; then
        subcommand=$argument
      elif [ -z "$name" ]; then
        name=$argument
      fi
      ;;
  esac
done

may_create=yes
case $command,$subcommand in
  , | login,* | logout,* | version,* | help,* | plugin,*) exec "$cli" "$@" ;;
  stack,select) stack=${name:-$stack} ;;
  stack,init | stack,new | stack,create | stack,rm | stack,remove) stack=${name:-$stack} may_create= ;;
esac
stack=${stack##*/}

# In another project's directory, with this environment active, nothing below applies.
here=$(CDPATH='' cd -- "$directory" 2>/dev/null && pwd -P) || exec "$cli" "$@"
case $here/ in
  "$project"/*) ;;
  *) exec "$cli" "$@" ;;
esac

is_local() { # $1: a stack's configuration file; where it names no platform, Pulumi.yaml's default counts
  [ -f "$1" ] || return 1
  platform=
  while read -r key value _ || [ -n "$key" ]; do
    [ "$key" != ray-train-efa:platform: ] || platform=$value
  done <"$1"
  if [ -z "$platform" ] && [ -f "$project/Pulumi.yaml" ]; then
    setting=
    while read -r key value _ || [ -n "$key" ]; do
      case $setting,$key in
        ,platform:) setting=platform ;;
        platform,default:) platform=$value setting=done ;;
      esac
    done <"$project/Pulumi.yaml"
  fi
  case $platform in
    local | \'local\' | \"local\") return 0 ;;
  esac
  return 1
}

backend_chosen() {
  [ -z "${PULUMI_BACKEND_URL:-}${PULUMI_ACCESS_TOKEN:-}" ] || return 0
  if [ -f "$project/Pulumi.yaml" ]; then
    while read -r key _ || [ -n "$key" ]; do
      [ "$key" != backend: ] || return 0
    done <"$project/Pulumi.yaml"
  fi
  credentials=${PULUMI_CREDENTIALS_PATH:-${PULUMI_HOME:-$HOME/.pulumi}}/credentials.json
  [ -f "$credentials" ] || return 1
  while read -r key value || [ -n "$key" ]; do
    case $key$value in
      '"current":""'*) ;;
      '"current":"'*) return 0 ;;
    esac
  done <"$credentials"
  return 1
}

if [ -n "$stack" ]; then
  # A stack that is in the project's state stays there, whatever its settings say.
  [ -f "$project/.state/.pulumi/stacks/ray-train-efa/$stack.json" ] || is_local "$project/Pulumi.$stack.yaml" ||
    exec "$cli" "$@"
elif backend_chosen; then
  exec "$cli" "$@"
fi

if [ -n "$stack" ] && is_local "$project/Pulumi.$stack.yaml"; then
  # The engine would fetch the plugin of every installed provider package; a stack of the local platform uses none.
  PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=${PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION:-true}
  export PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION
fi
if [ -z "${PULUMI_CONFIG_PASSPHRASE+set}" ] && [ -z "${PULUMI_CONFIG_PASSPHRASE_FILE:-}" ]; then
  PULUMI_CONFIG_PASSPHRASE=
  export PULUMI_CONFIG_PASSPHRASE
fi
[ -z "${PULUMI_BACKEND_URL:-}" ] || exec "$cli" "$@"

# Without attributes beside each file, which are torn while they are written (capacity/file_backend.py).
PULUMI_BACKEND_URL=file://$project/.state?metadata=skip
export PULUMI_BACKEND_URL
# It holds secrets under an empty passphrase: nobody else's to read.
[ -d "$project/.state" ] || mkdir -p -m 700 "$project/.state" || exit 1

state=$project/.state/.pulumi/stacks/ray-train-efa/$stack.json
if [ -n "$may_create" ] && [ -n "$stack" ] && [ ! -f "$state" ] && [ ! -f "$state.gz" ]; then
  # Another `up` may create it in the same moment: what counts is that it exists afterwards.
  answer=$("$cli" stack init "$stack" --no-select --non-interactive -C "$project" 2>&1) || [ -f "$state" ] || {
    printf '%s\n' "$answer" >&2
    exit 255
  }
fi
exec "$cli" "$@"
