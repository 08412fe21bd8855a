"""A place kept: the stack of one region, beside the environment's own, and ready for `pulumi preview` at once."""

import contextlib
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from capacity import stack_text
from capacity.choice import Choice
from capacity.place import Place
from capacity.pulumi_cli import PulumiCli
from capacity.stack_settings import answers, changes, held_zones, name_of, only_there
from workload.errors import BadInputError, ReportedError

_ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def write(
    env: str,
    place: Place,
    choice: Choice,
    *,
    folder: Path,
    base: str,
    until: str = "",
    move: bool = False,
    now: datetime | None = None,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
) -> Path:
    """Pulumi.ENV-REGION.yaml, made from Pulumi.BASE.yaml, or changed where it is there already, and its stack.

    Comments, order and everything else in the file stay; secrets of the base are encrypted anew for the new stack.
    `until` is when a reservation that is to be made ends (UTC, 2026-12-01T18:00:00Z), if not as the file has it.
    Raises BadInputError, with nothing changed, where the stack holds GPU nodes in another zone and `move` is not set;
    ReportedError where Pulumi refuses.
    """
    now = now or datetime.now(UTC)
    if not _ENVIRONMENT.fullmatch(env):
        raise BadInputError(f"'{env}' is no name of an environment: letters, digits, '-', '_' and '.'")
    source, file = folder / f"Pulumi.{base}.yaml", folder / f"Pulumi.{name_of(env, place)}.yaml"
    fresh = not file.exists()
    if not (source if fresh else file).exists():
        raise BadInputError(f"there is no {source.name} to make {file.name} from")
    text, ends = read(source if fresh else file)
    if fresh:
        text = _for_region(text, place, source, say)
    own = stack_text.settings_of(read(source)[0]) if source.exists() else {}
    wanted = changes(stack_text.settings_of(text), place, choice, until=until, now=now, base=own)
    cli, stack = PulumiCli(folder), name_of(env, place)
    there = cli.resources(stack)
    if not move and (elsewhere := held_zones(there or []) - {place.zone}):
        raise BadInputError(
            f"stack {stack} holds GPU capacity in {', '.join(sorted(elsewhere))}, and {place.zone} is another zone: "
            f"its next up would replace its nodes. Nothing was written. `efactl down -s {stack}` ends them first"
        )
    for change in wanted:
        text = stack_text.with_setting(text, change.key, change.value, after=change.below)
    text = stack_text.with_header(text, answers(place, choice, now=now))
    made = False
    try:
        if fresh:
            bare = stack_text.without(text, [*stack_text.secret_keys(text), *stack_text.ENCRYPTION])
            put(file, bare, ends)
        if there is None:
            _init(cli, stack, stack_text.encryption_of(source.read_text(encoding="utf-8")) if fresh else {})
            made = True
        if fresh:
            text = _encrypted_anew(cli, text, file, base=base, stack=stack)
        elif made:
            text = stack_text.with_encryption(text, stack_text.encryption_of(file.read_text(encoding="utf-8")))
        put(file, text, ends)
    except BaseException:
        if fresh:
            if made:
                with contextlib.suppress(ReportedError):
                    cli.run("stack", "rm", stack, "--yes")
            file.unlink(missing_ok=True)
        raise
    say(f"{file.name} {'made from ' + source.name if fresh else 'kept'}, stack {stack} is there")
    for change in wanted:
        say(f"  {change.line()}")
    if not wanted:
        say("  it stands where it stood; only the answers are new")
    return file


def _for_region(text: str, place: Place, source: Path, say: Callable[[str], None]) -> str:
    """Without what the new region chooses for itself. Raises BadInputError for what only the base's own has."""
    settings = stack_text.settings_of(text)
    if settings.get("aws:region") == place.region:
        return text
    dropped, refused = only_there(settings)
    if refused:
        raise BadInputError(
            f"{source.name} names {', '.join(refused)}, which {place.region} does not have: write the stack's file for "
            "that region yourself; this command keeps what stands in it"
        )
    for line in dropped:
        say(f"left out, as {place.region} has others: {line}")
    return stack_text.without(text, dropped)


def _init(cli: PulumiCli, stack: str, encryption: dict[str, str]) -> None:
    provider = encryption.get("secretsprovider") or ("passphrase" if "encryptionsalt" in encryption else "")
    cli.run("stack", "init", stack, "--no-select", *(["--secrets-provider", provider] if provider else []))


def _encrypted_anew(cli: PulumiCli, text: str, file: Path, *, base: str, stack: str) -> str:
    """The text with the base's secrets as the new stack has them. Pulumi hands them over within itself: no clear text
    is in an argument, an answer or a file."""
    secrets = stack_text.secret_keys(text)
    for key in secrets:
        cli.run("config", "cp", key, "--stack", base, "--dest", stack)
    given = file.read_text(encoding="utf-8")
    text = stack_text.with_secrets(text, stack_text.settings_of(given)) if secrets else text
    return stack_text.with_encryption(text, stack_text.encryption_of(given))


def read(file: Path) -> tuple[str, str]:
    """The text with plain line ends, and those it has."""
    content = file.read_bytes()
    return file.read_text(encoding="utf-8-sig"), "\r\n" if b"\r\n" in content else "\n"


def put(file: Path, text: str, ends: str) -> None:
    """Whole or not at all."""
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text, encoding="utf-8", newline=ends)
    beside.replace(file)
