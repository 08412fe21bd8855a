"""EventBridge Scheduler: one-time schedules that change a managed node group, and what they do in their time."""

import fnmatch
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import botocore.session  # type: ignore[import-untyped]

from tools.standin import tokens
from tools.standin.account import Account, Entry, Records
from tools.standin.errors import AwsError
from tools.standin.iam_policy import allowing
from tools.standin.kinds import Call, Kind, Refers

_BAD = "ValidationException"
_AT = re.compile(r"at\((\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\)")
_TARGET = re.compile(r"arn:aws:scheduler:::aws-sdk:([a-z0-9]+):([a-zA-Z]+)")
_NAME = re.compile(r"[0-9a-zA-Z_.-]{1,64}")


def _refuse(call: Call) -> None:
    if not _NAME.fullmatch(call.inputs["name"]):
        raise AwsError(_BAD, f"{call.inputs['name']} is no name of a schedule")
    if not _AT.fullmatch(call.inputs["scheduleExpression"]):
        raise AwsError(_BAD, f"Invalid Schedule Expression {call.inputs['scheduleExpression']}.")
    target = call.inputs["target"]
    found = _TARGET.fullmatch(target["arn"])
    if found is None:
        raise AwsError(_BAD, f"{target['arn']} is not a supported target")
    _check_input(target.get("input", ""), *found.groups())
    for role in call.records.all(tokens.ROLE):
        if (
            role.outputs["arn"] == target["roleArn"]
            and "scheduler.amazonaws.com" not in role.inputs["assumeRolePolicy"]
        ):
            message = "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
            raise AwsError(_BAD, message)


def _check_input(text: str, service: str, action: str) -> None:
    """What an API's request must have, under the SDK's names in PascalCase: it is found out at the creation already."""
    try:
        given = json.loads(text)
    except ValueError:
        raise AwsError(_BAD, f"Input is no JSON: {text}") from None
    model = botocore.session.get_session().get_service_model(service)
    shape = model.operation_model(_pascal(action)).input_shape
    missing = [_pascal(name) for name in shape.required_members if _pascal(name) not in given]
    if missing:
        raise AwsError(_BAD, f"Input is missing the following field(s): {', '.join(sorted(missing))}.")
    known = {_pascal(name) for name in shape.members}
    if strange := sorted(set(given) - known):
        raise AwsError(_BAD, f"Input has unknown field(s): {', '.join(strange)}.")


def _pascal(name: str) -> str:
    return name[:1].upper() + name[1:]


def fire(account: Account, date: datetime) -> list[Entry]:
    """The node groups that schedules have changed by now, as they are since. A refused one changes nothing."""
    with account.open() as records:
        due = [one for one in records.all(tokens.SCHEDULE) if not one.hidden.get("fired") and _time(one) <= date]
        changed = []
        for schedule in due:
            records.put(replace(schedule, hidden={**schedule.hidden, "fired": True}))
            asked = json.loads(schedule.inputs["target"]["input"])
            group = records.get(tokens.NODE_GROUP, f"{asked['ClusterName']}:{asked['NodegroupName']}")
            if group and _allowed(records, schedule.inputs["target"]["roleArn"], group):
                changed.append(_scaled(records, group, asked["ScalingConfig"]))
    return changed


def _time(schedule: Entry) -> datetime:
    found = _AT.fullmatch(schedule.inputs["scheduleExpression"])
    assert found is not None, "checked when it was made"
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC)


def _allowed(records: Records, role_arn: str, group: Entry) -> bool:
    role = next((one for one in records.all(tokens.ROLE) if one.outputs["arn"] == role_arn), None)
    policies = [
        one.inputs["policy"] for one in records.all(tokens.ROLE_POLICY) if role and one.inputs["role"] == role.id
    ]
    statements = [
        statement for policy in policies for statement in allowing(json.loads(policy), "eks:UpdateNodegroupConfig")
    ]
    return any(fnmatch.fnmatchcase(group.outputs["arn"], statement["Resource"]) for statement in statements)


def _scaled(records: Records, group: Entry, scaling: Mapping[str, int]) -> Entry:
    sizes = {key[:1].lower() + key[1:]: value for key, value in scaling.items()}
    sizes = {**group.inputs["scalingConfig"], **sizes}
    running = {**group.hidden.get("running", {}), "count": sizes["desiredSize"]}
    changed = replace(
        group,
        inputs={**group.inputs, "scalingConfig": sizes},
        outputs={**group.outputs, "scalingConfig": sizes},
        hidden={**group.hidden, "running": running},
    )
    records.put(changed)
    for interface in records.all(tokens.INTERFACE):
        if interface.outputs["owner"] == group.id and not sizes["desiredSize"]:
            records.remove(tokens.INTERFACE, interface.id)
    return changed


def _changed_time(call: Call) -> dict[str, Any]:
    if call.changed("scheduleExpression"):
        call.hidden["fired"] = False
    return {}


KINDS = (
    Kind(
        token=tokens.SCHEDULE,
        service="Scheduler",
        new_id=lambda call: f"{call.inputs.get('groupName', 'default')}/{call.inputs['name']}",
        outputs=lambda call: {"arn": call.arn("scheduler", f"schedule/{call.id}")},
        updated=_changed_time,
        refuse=_refuse,
        defaults={
            "groupName": "default",
            "scheduleExpressionTimezone": "UTC",
            "state": "ENABLED",
            "actionAfterCompletion": "NONE",
        },
        fixed=("name", "namePrefix", "groupName"),
        named="name",
        exists="ConflictException",
        refers=(Refers(path="target.roleArn", token=tokens.ROLE, by="arn", missing=_BAD, patient=True),),
    ),
)
