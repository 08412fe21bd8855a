"""The few answers of the `aws` command that a stack needs, from the stand-in account in $RAY_TRAIN_EFA_STANDIN.

Standard library only, started with `python -I -S`: a kubeconfig asks it for every token.
"""

import datetime
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = "aws-cli/2.31.0 Python/3.13.7 Linux/6.12 exe/x86_64.stand-in"
VARIABLE = "RAY_TRAIN_EFA_STANDIN"
# EKS's tokens are presigned URLs good for a quarter of an hour; the real command says 14 minutes.
TOKEN_MINUTES = 14
WITHOUT_BED = "k8s-aws-v1.stand-in-without-a-cluster"
_WITH_VALUE = ("region", "output", "profile", "query", "endpoint-url", "cluster-name", "cluster-id", "role", "role-arn")


class UsageError(Exception):
    """What was asked that is not answered here."""


def parse(arguments: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words (service, operation) and the options by name. Raises UsageError."""
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            words.append(argument)
            continue
        name, equals, value = argument.partition("=")
        if name.removeprefix("--") in _WITH_VALUE:
            if not equals:
                value = next(rest, "")
            if not value:
                raise UsageError(f"argument {name}: expected one argument")
        options[name] = value
    return tuple(words), options


def answer(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], now: datetime.datetime) -> str:
    """What `aws ARGUMENTS` prints. Raises UsageError."""
    words, options = parse(arguments)
    if "--version" in options:
        return VERSION
    if options.get("--output", "json") != "json":
        raise UsageError(f"the stand-in prints JSON alone, not --output {options['--output']}")
    if words == ("eks", "get-token"):
        if not options.get("--cluster-name") and not options.get("--cluster-id"):
            raise UsageError("Either parameter --cluster-name or --cluster-id must be specified.")
        return json.dumps(credential(folder, environment, now))
    if words == ("sts", "get-caller-identity"):
        return json.dumps(identity(folder), indent=4)
    raise UsageError(
        f"the stand-in for the aws command does not answer `aws {' '.join(words) or ' '.join(arguments)}`; it knows "
        "--version, eks get-token and sts get-caller-identity"
    )


def credential(folder: Path, environment: Mapping[str, str], now: datetime.datetime) -> dict[str, object]:
    """An ExecCredential with the bed's token; like the real command it does not look whether a cluster is there."""
    asked = json.loads(environment.get("KUBERNETES_EXEC_INFO") or "{}").get("apiVersion", "")
    version = asked if asked.startswith("client.authentication.k8s.io/") else "client.authentication.k8s.io/v1beta1"
    expires = (now + datetime.timedelta(minutes=TOKEN_MINUTES)).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = _read(folder / "bed.json").get("token") or WITHOUT_BED
    return {
        "kind": "ExecCredential",
        "apiVersion": version,
        "spec": {},
        "status": {"expirationTimestamp": expires, "token": token},
    }


def identity(folder: Path) -> dict[str, str]:
    """As scenario.json names the account and its user."""
    scenario = _read(folder / "scenario.json")
    account, principal = scenario.get("account", "123456789012"), scenario.get("principal", "user/standin")
    return {"UserId": "AIDASTANDIN", "Account": account, "Arn": f"arn:aws:iam::{account}:{principal}"}


def _read(file: Path) -> dict[str, str]:
    try:
        content: dict[str, str] = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    return content


def main() -> int:
    folder = os.environ.get(VARIABLE, "")
    try:
        if not folder:
            raise UsageError(f"${VARIABLE} names no stand-in account")  # noqa: TRY301
        print(answer(sys.argv[1:], Path(folder), os.environ, datetime.datetime.now(datetime.UTC)))
    except UsageError as error:
        print(f"aws: [stand-in] {error}", file=sys.stderr)
        return 252
    return 0


if __name__ == "__main__":
    sys.exit(main())
