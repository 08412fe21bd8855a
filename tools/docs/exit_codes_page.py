"""docs/exit-codes.md from efactl/exit_codes.py."""

from efactl.exit_codes import MEANINGS

_HEAD = """# Exit codes

<!-- written by `make docs` from efactl/exit_codes.py, not by hand -->

What the exit status of `efactl` says; the same in every command.

| code | name | meaning |
|---|---|---|
"""
_TAIL = """
- `efactl up` and `efactl run` end with 3, 4, 5 or 6 where a gate failed the run: it stays on record, and the next `up`
  judges it again. So they do on a machine that does not have the run's record: the state says what is judged.
- `efactl up --env` ends with 7 where no place had the nodes and nothing that it had begun bills any more; with 1 where
  something still does, or where that could not be looked at.
- A stack that is not there is 2 in every command, with those that there are; `efactl runs` still finds the runs of one
  whose file is gone.
- `efactl doctor` ends with 1 where anything fails, and with 0 where it only warns.
- `efactl ui` ends with 0 when you close it.
- `efactl transport` and `efactl image check` ask a question: 0 is yes, and 3 or 4 how far it is from that.
- Plain `pulumi up` knows one code for every failure; `make` shows ours as `Error 3`.
"""


def page() -> str:
    """The page's Markdown."""
    rows = [f"| {int(code)} | `{code.name}` | {meaning} |\n" for code, meaning in MEANINGS.items()]
    return _HEAD + "".join(rows) + _TAIL
