"""What a pull request would do to the stacks it touches: for the workflows, and by hand.

example:
  python -m tools.pull_request stacks --base origin/main
  python -m tools.pull_request preview -s dev --base origin/main --standin --out previews
  python -m tools.pull_request comment --from previews --commit "$(git rev-parse HEAD)" --print
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.pull_request import checkout, touched
from tools.pull_request.clean import cleaner
from tools.setup.console import SetupError
from workload.errors import BadInputError, ReportedError

_BASE = "the commit or branch that it is to be merged into"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m tools.pull_request",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    which = commands.add_parser("stacks", help="which stacks a change touches, as JSON; needs nothing but Python")
    which.add_argument("--base", required=True, help=_BASE)
    which.add_argument("--head", default="HEAD", help="the commit that changes it (default: HEAD)")
    which.add_argument("--output", type=Path, help="append GitHub's `previewed=[...]` and `skipped={...}` to this file")
    make = commands.add_parser("base", help="check the base out with its packages, for previews that have credentials")
    make.add_argument("--base", required=True, help=_BASE)
    make.add_argument("--at", type=Path, required=True, help="the folder to make")
    show = commands.add_parser("preview", help="preview one stack at the head and at the base; exit 1 where it fails")
    show.add_argument("-s", "--stack", required=True)
    against = show.add_mutually_exclusive_group(required=True)
    against.add_argument("--base", help=f"{_BASE}; its packages are installed here and now, where they are others")
    against.add_argument("--base-at", type=Path, help="the folder that `base` made")
    show.add_argument(
        "--standin", nargs="?", const="", metavar="WHY", help="an eks stack without an account; WHY is told with it"
    )
    show.add_argument("--out", type=Path, required=True, help="the folder for STACK.json")
    tell = commands.add_parser("comment", help="the previews of a folder as one comment on the pull request")
    tell.add_argument("--from", dest="folder", type=Path, required=True)
    tell.add_argument("--commit", required=True)
    tell.add_argument("--previewed", default="[]", help="the stacks that were to be, as `stacks` writes them")
    tell.add_argument("--skipped", default="{}", help="stacks that were not previewed and why, as JSON")
    tell.add_argument("--pull", type=int, help="its number; GITHUB_REPOSITORY and GITHUB_TOKEN say the rest")
    tell.add_argument("--print", action="store_true", help="to standard output alone, and with all details")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    action = {"stacks": stacks, "base": base, "preview": preview, "comment": tell}[asked.command]
    try:
        return action(asked)
    except (ReportedError, SetupError) as error:
        print(f"pull request: {cleaner(os.environ)(str(error))}", file=sys.stderr)
        return 1


def stacks(asked: argparse.Namespace) -> int:
    platforms = {}
    declared = touched.default_platform(checkout.text_at(asked.head, "Pulumi.yaml"))
    for path in checkout.files_at(asked.head):
        if stack := touched.stack_of(path):
            platforms[stack] = touched.platform_of(checkout.text_at(asked.head, path), declared)
    changed = checkout.changed_paths(asked.base, asked.head)
    found = touched.touched(changed, platforms)
    previewed = [{"stack": one.stack, "platform": one.platform} for one in found if one.previewed]
    skipped = {
        one.stack: f"a preview asks its own cluster (platform {one.platform}); run `pulumi preview -s {one.stack}`"
        for one in found
        if not one.previewed
    }
    skipped |= dict.fromkeys(
        touched.removed(changed, platforms), "its settings file goes away; `efactl down` first, if anything of it is up"
    )
    print(json.dumps({"touched": [vars(one) for one in found], "skipped": skipped}, indent=2))
    if asked.output is not None:
        with asked.output.open("a") as file:
            file.write(f"previewed={json.dumps(previewed)}\nskipped={json.dumps(skipped)}\n")
    return 0


def base(asked: argparse.Namespace) -> int:
    checkout.checked_out(asked.base, asked.at.resolve())
    return 0


def preview(asked: argparse.Namespace) -> int:
    from tools.pull_request import pair, summary

    with tempfile.TemporaryDirectory(prefix="ray-train-efa-pull-request-") as name:
        scratch = Path(name)
        if asked.base_at is not None:
            told = pair.summary_of(asked.stack, asked.base_at.resolve(), scratch, standin=asked.standin)
        else:
            with checkout.for_a_while(asked.base, scratch / "base") as folder:
                told = pair.summary_of(asked.stack, folder, scratch, standin=asked.standin)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"{asked.stack}.json").write_text(json.dumps(told, indent=2) + "\n")
    return 0 if summary.passed(told) else 1


def tell(asked: argparse.Namespace) -> int:
    from tools.pull_request.comment import comment
    from tools.pull_request.github import PullRequest

    summaries = [json.loads(file.read_text()) for file in sorted(asked.folder.rglob("*.json"))]
    expected = [one["stack"] for one in json.loads(asked.previewed)]
    skipped = json.loads(asked.skipped)
    text = comment(summaries, commit=asked.commit, expected=expected, skipped=skipped, whole=asked.print)
    if asked.print:
        print(text, end="")
        return 0
    env: Mapping[str, str] = os.environ
    if not (asked.pull and env.get("GITHUB_TOKEN") and env.get("GITHUB_REPOSITORY")):
        raise BadInputError("a comment needs --pull, GITHUB_TOKEN and GITHUB_REPOSITORY; --print needs none of them")
    api = env.get("GITHUB_API_URL", "https://api.github.com")
    pull = PullRequest(api=api, repository=env["GITHUB_REPOSITORY"], number=asked.pull, token=env["GITHUB_TOKEN"])
    print(pull.tell(text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
