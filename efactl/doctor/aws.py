"""The AWS account: as whom it is reached, whether that is the right one, and what that user may do.

Nothing is changed: questions alone, and EC2's own dry runs, which check the rights and stop there.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from efactl.doctor.finding import Finding, fail, ok, warn
from efactl.doctor.subject import Answer, Subject, answer

_POLICY = "docs/iam/deployer.json holds what is needed: docs/iam/README.md"
_AT_ONCE = 4
_QUICK = ("--output", "json", "--cli-connect-timeout", "5", "--cli-read-timeout", "10")
_ENVIRONMENT = {"AWS_MAX_ATTEMPTS": "2"}
_DENIED = re.compile(
    r"\((UnauthorizedOperation|AccessDenied|AccessDeniedException|AuthorizationError)\)|not authorized"
)
# What answers a question about something that is not there, or a dry run that would have gone through.
_GRANTED = re.compile(r"\((DryRunOperation|NoSuchEntity)\)")

Right = Literal["granted", "denied", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """An `aws` command that shows whether an action is allowed."""

    action: str
    words: tuple[str, ...]


def right_of(told: Answer) -> Right:
    if told.status == 0 or _GRANTED.search(told.error):
        return "granted"
    return "denied" if _DENIED.search(told.error) else "unknown"


def questions(subject: Subject) -> list[Question]:
    """Of docs/iam/deployer.json what can be asked without making anything; the rest shows at a first `up`."""
    name = str(subject.setting("eksName") or f"ray-{subject.stack}")
    kind, zone = str(subject.setting("gpuInstanceType")), str(subject.setting("gpuZone"))
    asked = [
        ("ec2:DescribeInstanceTypes", "ec2 describe-instance-types --dry-run --instance-types", kind),
        ("eks:ListClusters", "eks list-clusters --max-items 1"),
        ("iam:GetRole", "iam get-role --role-name", f"{name}-node"),
        ("kms:ListAliases", "kms list-aliases --max-items 1"),
        ("logs:DescribeLogGroups", "logs describe-log-groups --max-items 1"),
        ("autoscaling:DescribeScalingActivities", "autoscaling describe-scaling-activities --max-items 1"),
        ("servicequotas:ListServiceQuotas", "service-quotas list-service-quotas --service-code ec2 --max-items 1"),
    ]
    if subject.setting("eksStorage") == "fsx":
        asked.append(("fsx:DescribeFileSystems", "fsx describe-file-systems --max-items 1"))
    tags = f"Tags=[{{Key=ray-train-efa/name,Value={name}}}]"
    if not subject.setting("eksExistingCluster") and not subject.setting("vpcId"):
        asked.append(
            (
                "ec2:CreateVpc",
                "ec2 create-vpc --dry-run --cidr-block",
                str(subject.setting("vpcCidr")),
                "--tag-specifications",
                f"ResourceType=vpc,{tags}",
            )
        )
    if subject.setting("capacity") == "reserve":
        asked.append(
            (
                "ec2:CreateCapacityReservation",
                "ec2 create-capacity-reservation --dry-run --instance-platform Linux/UNIX --instance-type",
                *(kind, "--availability-zone", zone, "--instance-count", str(subject.setting("gpuNodes"))),
                *("--tag-specifications", f"ResourceType=capacity-reservation,{tags}"),
            )
        )
    return [Question(action=action, words=(*words.split(), *values)) for action, words, *values in asked]


def account(subject: Subject) -> Iterator[Finding]:
    """Who, and what they may do; nothing is asked where nobody is."""
    if subject.platform != "eks" or shutil.which("aws") is None:
        return
    told = _aws(subject, ("sts", "get-caller-identity"))
    who = told.document
    if not isinstance(who, dict):
        yield fail("credentials", told.last_line, "aws sso login, AWS_PROFILE, or aws:profile in the stack's file")
        return
    shown = f"{who['Arn']}, account {who['Account']}, {_place(subject)}"
    allowed = _list(subject.file.get("aws:allowedAccountIds"))
    if allowed and str(who["Account"]) not in allowed:
        yield fail("credentials", f"{shown}: aws:allowedAccountIds has {', '.join(allowed)}", "use the other account's")
        return
    yield ok("credentials", shown)
    if subject.file.get("aws:assumeRoles"):
        yield warn("permissions", "not looked at: the stack takes another role (aws:assumeRoles)", _POLICY)
        return
    yield from permissions(subject)


def permissions(subject: Subject) -> Iterator[Finding]:
    asked = questions(subject)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda question: _aws(subject, question.words), asked))
    rights = [(question.action, right_of(told), told) for question, told in zip(asked, answers, strict=True)]
    denied = [action for action, right, _ in rights if right == "denied"]
    granted = [action for action, right, _ in rights if right == "granted"]
    if denied:
        yield fail("permissions", f"not allowed: {', '.join(denied)}", _POLICY)
    for action, right, told in rights:
        if right == "unknown":
            yield warn("permissions", f"{action} could not be asked: {told.last_line}", _POLICY)
    if granted:
        yield ok("permissions", f"{len(granted)} of {len(asked)} asked are allowed; the rest of {_POLICY}")


def _aws(subject: Subject, words: Sequence[str]) -> Answer:
    options = [f"--region={region}"] if (region := subject.file.get("aws:region")) else []
    options += [f"--profile={profile}"] if (profile := subject.file.get("aws:profile")) else []
    return answer(["aws", *words, *options, *_QUICK], seconds=30, variables=_ENVIRONMENT)


def _place(subject: Subject) -> str:
    return str(subject.file.get("aws:region") or "no aws:region")


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        value = json.loads(value or "[]")
    return [str(one) for one in value or [] if not isinstance(one, Mapping)]
