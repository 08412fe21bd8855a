"""`efactl completion`: a script for a shell that asks `efactl __complete` what could stand where the cursor is."""

import argparse
import sys
from collections.abc import Sequence

from efactl.completion_words import words
from efactl.exit_codes import ExitCode

COMPLETE = "__complete"
# Each hands over the words up to the cursor, the unfinished one last, and gets one candidate a line.
_SCRIPTS = {
    "bash": r"""_efactl() {
  local word=${COMP_WORDS[COMP_CWORD]} candidate
  COMPREPLY=()
  # bash takes KEY=VALUE apart at the "=": what is put in is what comes after it.
  local line=${COMP_LINE:0:COMP_POINT}
  local -a given
  read -r -a given <<<"$line"
  [[ $line == *[[:space:]] ]] && given+=("")
  local last=${given[${#given[@]}-1]}
  local before=${last%"$word"}
  [[ $word == "=" ]] && before=$last word=
  while IFS= read -r candidate; do
    [[ -n $candidate ]] && COMPREPLY+=("${candidate#"$before"}")
  done < <("${given[0]}" __complete "${given[@]:1}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _efactl efactl
""",
    "zsh": r"""#compdef efactl
_efactl() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${candidates[*]}" ]]; then
    compadd -S '' -- ${(M)candidates:#*=}
    compadd -- ${candidates:#*=}
  else
    _files
  fi
}
if [[ "${funcstack[1]}" == _efactl ]]; then _efactl "$@"; else compdef _efactl efactl; fi
""",
    "fish": r"""function __efactl_complete
    set -l given (commandline -opc) (commandline -ct)
    command $given[1] __complete $given[2..-1] 2>/dev/null
end
complete -c efactl -f -a '(__efactl_complete)'
complete -c efactl -n 'not __efactl_complete | string length -q' -F
""",
}


def completion(asked: argparse.Namespace) -> ExitCode:
    print(_SCRIPTS[asked.shell], end="")
    return ExitCode.OK


def complete(parser: argparse.ArgumentParser, given: Sequence[str]) -> ExitCode:
    """Prints the candidates for the last of the words, one a line; none where the shell does better (files)."""
    for word in words(parser, given):
        sys.stdout.write(f"{word}\n")
    return ExitCode.OK
