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


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m tools.pull_request",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    which = commands.add_parser("stacks", help="which stacks a change touches, as JSON; needs nothing but Python")
    _between(which)
    which.add_argument("--output", type=Path, help="append GitHub's `previewed=[...]` and `skipped={...}` to this file")
    show = commands.add_parser("preview", help="preview one stack at the head and at the base; exit 1 where it fails")
    show.add_argument("-s", "--stack", required=True)
    _between(show)
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
    tell.add_argument("--print", action="store_true", help="to standard output, and nowhere else")
    return top


def _between(command: argparse.ArgumentParser) -> None:
    command.add_argument("--base", required=True, help="the commit or branch that it is to be merged into")
    command.add_argument("--head", default="HEAD", help="the commit that changes it (default: HEAD)")


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    action = {"stacks": stacks, "preview": preview, "comment": tell}[asked.command]
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


def preview(asked: argparse.Namespace) -> int:
    from tools.pull_request import pair, summary

    with tempfile.TemporaryDirectory(prefix="ray-train-efa-pull-request-") as name:
        base = checkout.checked_out(asked.base, Path(name) / "base")
        try:
            told = pair.summary_of(asked.stack, base, Path(name), standin=asked.standin)
        finally:
            checkout.removed(base)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / f"{asked.stack}.json").write_text(json.dumps(told, indent=2) + "\n")
    return 0 if summary.passed(told) else 1


def tell(asked: argparse.Namespace) -> int:
    from tools.pull_request.comment import comment
    from tools.pull_request.github import PullRequest

    summaries = [json.loads(file.read_text()) for file in sorted(asked.folder.rglob("*.json"))]
    expected = [one["stack"] for one in json.loads(asked.previewed)]
    text = comment(summaries, commit=asked.commit, expected=expected, skipped=json.loads(asked.skipped))
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
