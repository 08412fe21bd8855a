"""What a scenario has go wrong in a stand-in account."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.standin_account import StandinAccount
from tools.standin import invokes, scenario, tokens
from tools.standin.errors import AwsError, PartialError
from workload.errors import BadInputError


def fault(type: str, code: str, operation: str = "create", **more: Any) -> dict[str, Any]:
    return {"type": type, "operation": operation, "code": code, **more}


def test_a_setting_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(BadInputError, match="scale"):
        scenario.parse({"scael": 1})
    with pytest.raises(BadInputError, match="silence"):
        scenario.parse({"faults": [{"type": "Vpc", "operation": "create", "code": "X", "silense": 3}]})
    with pytest.raises(BadInputError, match="destroy"):
        scenario.parse({"faults": [fault("Vpc", "X", "destroy")]})


def test_no_capacity_for_the_reservation_costs_a_call_and_leaves_nothing(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, faults=[fault("CapacityReservation", "InsufficientInstanceCapacity")])
    with pytest.raises(AwsError) as refused:
        account.reservation()
    assert refused.value.code == "InsufficientInstanceCapacity"
    assert account.remaining() == []
    account.reservation()
    errors = [call["error"] for call in account.calls(token=tokens.CAPACITY_RESERVATION)]
    assert errors == ["InsufficientInstanceCapacity", ""], "the second try meets no fault"


def test_a_node_group_fails_after_long_silence_and_is_there_all_the_same(tmp_path: Path) -> None:
    silent = fault("NodeGroup", "AsgInstanceLaunchFailures", silence=1500, partial="CREATE_FAILED")
    account = StandinAccount(tmp_path, faults=[silent])
    cluster, template = account.cluster(), account.template()
    with pytest.raises(PartialError) as failed:
        account.nodes(cluster, template)
    assert failed.value.entry.outputs["status"] == "CREATE_FAILED"
    assert account.calls(token=tokens.NODE_GROUP)[0]["seconds"] == 1500
    assert tokens.NODE_GROUP in account.remaining()
    account.delete(failed.value.entry)


def test_the_provider_stops_waiting_before_a_longer_silence_ends(tmp_path: Path) -> None:
    silent = fault("NodeGroup", "AsgInstanceLaunchFailures", silence=36_000, partial="CREATE_FAILED")
    account = StandinAccount(tmp_path, faults=[silent])
    cluster, template = account.cluster(), account.template()
    with pytest.raises(PartialError, match="timeout while waiting"):
        account.nodes(cluster, template)
    assert account.calls(token=tokens.NODE_GROUP)[0]["seconds"] == 3600


def test_throttling_costs_time_and_only_a_very_long_one_fails(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, faults=[fault("Vpc", "ThrottlingException", times=3)])
    account.vpc()
    assert account.calls()[0]["seconds"] > 12
    account.scenario(faults=[fault("Vpc", "ThrottlingException", times=0)])
    with pytest.raises(AwsError, match="ThrottlingException"):
        account.vpc()


def test_a_role_not_seen_yet_is_waited_for_where_the_provider_does(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, faults=[fault("Role", "NotFound", "use", times=2, match="Cluster")])
    account.cluster()
    assert account.calls(token=tokens.CLUSTER)[0]["seconds"] == 620, "two looks of ten seconds before the creation"


def test_a_subnet_not_seen_yet_fails_where_the_provider_does_not_wait(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, faults=[fault("Vpc", "NotFound", "use", match="Subnet")])
    with pytest.raises(AwsError, match=r"InvalidVpcID.NotFound"):
        account.subnet(account.vpc(), "10.0.0.0/24")


def test_credentials_expire_after_so_many_calls_for_every_call(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, expire_after=1)
    account.vpc()
    with pytest.raises(AwsError, match="ExpiredToken"):
        account.vpc()
    with pytest.raises(AwsError, match="ExpiredToken"):
        invokes.answer(account.cloud, "aws:index/getCallerIdentity:getCallerIdentity", {})
    account.scenario()
    account.vpc()


def test_interfaces_that_linger_keep_what_they_are_in_until_they_go(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, linger=400)
    cluster = account.cluster()
    account.delete(cluster)
    with account.cloud.account.open() as records:
        subnets = records.all(tokens.SUBNET)
        associations = records.all(tokens.ROUTE_TABLE_ASSOCIATION)
    for entry in (*associations, subnets[0]):
        account.delete(entry)
    deleted = account.calls(token=tokens.SUBNET, operation="delete")[0]
    assert 390 < deleted["seconds"] <= 402, "the provider waits until the last interface is gone"
    account.delete(subnets[1])
    assert account.calls(token=tokens.SUBNET, operation="delete")[1]["seconds"] == 2


def test_interfaces_that_linger_too_long_end_the_deletion_with_what_aws_says(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, linger=5000)
    cluster = account.cluster()
    account.delete(cluster)
    with account.cloud.account.open() as records:
        subnet = records.all(tokens.SUBNET)[0]
    with pytest.raises(AwsError, match="DependencyViolation"):
        account.delete(subnet)


def test_late_lines_of_a_cluster_make_its_log_group_anew_after_it_was_deleted(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, late_logs=True)
    name = "/aws/eks/ray/cluster"
    group = account.make(tokens.LOG_GROUP, name=name, retentionInDays=30)
    cluster = account.cluster(enabledClusterLogTypes=["api"])
    account.delete(cluster)
    account.delete(group)
    again = account.there(tokens.LOG_GROUP, name)
    with pytest.raises(AwsError, match="ResourceAlreadyExistsException"):
        account.make(tokens.LOG_GROUP, name=name, retentionInDays=30)
    account.delete(again)
    account.make(tokens.LOG_GROUP, name=name, retentionInDays=30)


def test_a_cluster_without_logs_has_no_late_lines(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path, late_logs=True)
    cluster = account.cluster()
    account.delete(cluster)
    account.delete(account.make(tokens.LOG_GROUP, name="/aws/eks/ray/cluster"))
    assert tokens.LOG_GROUP not in account.remaining()


def test_a_cluster_deleted_outside_takes_what_is_in_it_along_once(tmp_path: Path) -> None:
    account = StandinAccount(tmp_path)
    cluster = account.cluster()
    account.make(tokens.ADDON, clusterName=cluster.id, addonName="vpc-cni")
    account.scenario(gone=["Cluster"])
    assert account.cloud.read(tokens.CLUSTER, "", cluster.id) is None
    assert not {tokens.CLUSTER, tokens.ADDON, tokens.SECURITY_GROUP} & set(account.remaining())
    account.delete(cluster)
    account.make(tokens.CLUSTER, **cluster.inputs)
    assert account.cloud.read(tokens.CLUSTER, "", cluster.id) is not None, "it is taken away once"
