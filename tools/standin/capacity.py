"""What EC2 has and grants: instance types by zone, quotas, reservations, placement groups."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from infra import instances
from tools.standin import tokens
from tools.standin.account import Entry, Records
from tools.standin.errors import AwsError
from tools.standin.kinds import Call
from tools.standin.scenario import Scenario
from tools.standin.zones import zones
from workload.errors import BadInputError

# (type, vCPUs, memory in GiB) of what no GPU node is made of: DescribeInstanceTypes, as moto 5.2.5 keeps it.
_PLAIN = {"m7i.large": (2, 8), "m7i.xlarge": (4, 16), "m7i.2xlarge": (8, 32), "m7i.4xlarge": (16, 64)}
# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
_QUOTAS = {"g": ("L-DB2E81BA", 192.0), "p": ("L-417A185B", 192.0), "m": ("L-1216C47A", 256.0)}


def type_names() -> list[str]:
    return [*instances.names(), *_PLAIN]


def facts(name: str) -> dict[str, Any]:
    """vCPUs, memory (GiB), GPUs and EFA interfaces of a type. Raises AwsError for a type that is not known."""
    if name in _PLAIN:
        vcpus, memory = _PLAIN[name]
        return {"vcpus": vcpus, "memory": memory, "gpus": 0, "gpu": "", "efa": 0}
    try:
        known = instances.known(name)
    except BadInputError:
        raise unknown_type(name) from None
    return {
        "vcpus": known.vcpus,
        "memory": known.memory_gib,
        "gpus": known.gpus,
        "gpu": known.gpu_name,
        "efa": known.efa_interfaces,
    }


def unknown_type(name: str) -> AwsError:
    return AwsError("InvalidInstanceType", f"The following supplied instance types do not exist: [{name}]")


def offered(scenario: Scenario, region: str, name: str) -> list[str]:
    """The zones that have the type: the scenario's word; else all of them, and for GPUs all but the last."""
    given = scenario.offerings.get(region, {})
    if name in given:
        return list(given[name])
    there = list(zones(region))
    return there if name in _PLAIN else there[:-1] if name in type_names() else []


def quota_of(scenario: Scenario, name: str) -> tuple[str, float]:
    """The quota's code and its vCPUs, for on-demand instances of that type."""
    code, default = _QUOTAS.get(name[:1], _QUOTAS["m"])
    return code, scenario.quotas.get(code, default)


def launched(records: Records) -> list[dict[str, Any]]:
    """What runs: {type, zone, count, reservation, capacity, group} of every node group."""
    return [entry.hidden["running"] for entry in records.all(tokens.NODE_GROUP) if entry.hidden.get("running")]


def free_in(records: Records, reservation: Entry, *, but: str = "") -> int:
    """Instances of a reservation that nothing runs in; those of the node group `but` count as free."""
    groups = [entry for entry in records.all(tokens.NODE_GROUP) if entry.id != but]
    running = [entry.hidden["running"] for entry in groups if entry.hidden.get("running")]
    used = sum(item["count"] for item in running if item["reservation"] == reservation.id)
    return int(reservation.inputs["instanceCount"]) - int(used)


def state_of(reservation: Entry, date: datetime) -> str:
    """active, or expired where its end has passed."""
    limited = reservation.inputs.get("endDateType") == "limited"
    if limited and datetime.fromisoformat(reservation.inputs["endDate"]) <= date:
        return "expired"
    return str(reservation.hidden.get("state", "active"))


def ended(reservation: Entry, date: datetime) -> bool:
    """The provider takes an expired reservation for one that is not there."""
    return state_of(reservation, date) != "active"


def keep_reservation(call: Call) -> None:
    """CancelCapacityReservation is for active ones, and the provider passes on what it says of others.

    Which code it has for them AWS does not publish; this is EC2's general one.
    """
    if call.old and ended(call.old, call.moment.date):
        state = state_of(call.old, call.moment.date)
        message = f"The capacity reservation '{call.id}' is in the '{state}' state and cannot be cancelled."
        raise AwsError("IncorrectState", message)


def _active(call: Call) -> list[Mapping[str, Any]]:
    there = call.records.all(tokens.CAPACITY_RESERVATION)
    return [entry.inputs for entry in there if not ended(entry, call.moment.date)]


def _vcpus_in_use(call: Call, name: str) -> int:
    """On-demand vCPUs under the same quota: reservations, and what runs outside them."""
    reserved = [(item["instanceType"], int(item["instanceCount"])) for item in _active(call)]
    outside = [
        (item["type"], item["count"])
        for item in launched(call.records)
        if not item["reservation"] and item["capacity"] == "ON_DEMAND"
    ]
    return int(sum(facts(other)["vcpus"] * count for other, count in reserved + outside if other[:1] == name[:1]))


def grant(call: Call, name: str, zone: str, count: int, *, freed: int = 0) -> None:
    """On-demand instances from the zone's common pool. `freed` of them are running already."""
    if zone not in offered(call.scenario, call.region, name):
        others = ", ".join(offered(call.scenario, call.region, name))
        message = (
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone})."
        )
        raise AwsError("Unsupported", f"{message} Please retry your request by choosing {others}.")
    code, limit = quota_of(call.scenario, name)
    wanted = facts(name)["vcpus"] * (count - freed)
    if _vcpus_in_use(call, name) + wanted > limit:
        message = f"You have requested more vCPU capacity than your current vCPU limit of {limit:.0f} allows ({code})"
        raise AwsError("VcpuLimitExceeded", f"{message} for the instance bucket that the specified type belongs to.")
    pool: Mapping[str, int] = call.scenario.capacity.get(zone, {})
    if name in pool:
        taken = sum(int(item["instanceCount"]) for item in _active(call) if _is(item, zone, name))
        taken += sum(
            item["count"]
            for item in launched(call.records)
            if item["zone"] == zone and item["type"] == name and not item["reservation"]
        )
        if taken + count - freed > pool[name]:
            message = (
                f"We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone})."
            )
            raise AwsError("InsufficientInstanceCapacity", message)


def _is(reservation: Mapping[str, Any], zone: str, name: str) -> bool:
    return bool(reservation["availabilityZone"] == zone and reservation["instanceType"] == name)


def reservation(call: Call) -> None:
    inputs = call.inputs
    if call.old and ended(call.old, call.moment.date):
        message = f"The capacity reservation '{call.id}' has expired or was cancelled and cannot be modified."
        raise AwsError("IncorrectState", message)
    if inputs["availabilityZone"] not in zones(call.region):
        message = f"The availability zone '{inputs['availabilityZone']}' is not in {call.region}"
        raise AwsError("InvalidParameterValue", message)
    if (inputs.get("endDateType") == "limited") != ("endDate" in inputs):
        raise AwsError("InvalidParameterCombination", "EndDate goes with EndDateType limited, and only with it")
    if "endDate" in inputs and datetime.fromisoformat(inputs["endDate"]) <= call.moment.date:
        raise AwsError("InvalidParameterValue", f"The end date {inputs['endDate']} must be in the future")
    before = int(call.old.inputs["instanceCount"]) if call.old else 0
    grant(call, inputs["instanceType"], inputs["availabilityZone"], int(inputs["instanceCount"]), freed=before)


def reservation_steps(call: Call) -> list[Mapping[str, Any]]:
    """EC2 moves no reservation into another group, and the provider does not ask it to."""
    assert call.old is not None, "an update has something to update"
    name = "placementGroupArn"
    others = {key: value for key, value in call.inputs.items() if key != name}
    return [{**others, name: call.old.inputs[name]} if name in call.old.inputs else others]


def keep_placement_group(call: Call) -> None:
    """A group with instances in it stays. Reservations in it are references, refused elsewhere."""
    if any(item["group"] == call.id for item in launched(call.records)):
        raise AwsError(
            "InvalidPlacementGroup.InUse", f"The placement group {call.id} is in use and may not be deleted."
        )
