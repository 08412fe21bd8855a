"""An eks stack keeps what AWS takes once: other values are refused with both of them and every way out."""

import dataclasses
from typing import Any

import pulumi
import pytest

from infra.aws_facts import AwsFacts, InstanceFacts
from infra.eks_guard import EksGuardProvider, fixed_settings
from infra.eks_settings import EksSettings
from infra.existing_network import ExistingNetwork
from infra.zones import ZonePlan
from tests.pure.test_eks_settings import load
from workload.errors import ReportedError

FACTS = AwsFacts(
    account="123456789012",
    caller="arn:aws:iam::123456789012:user/deployer",
    partition="aws",
    zones=(),
    instance=InstanceFacts(name="g6.12xlarge", gpus=4, vcpus=48, efa_interfaces=1),
    cli=True,
)
ZONES = ZonePlan(gpu="us-west-2b", control_plane=("us-west-2a", "us-west-2b"), all=("us-west-2b", "us-west-2a"))
SUBNETS = ExistingNetwork(
    vpc_id="vpc-00000001",
    private_subnets={},
    control_plane_subnets=["subnet-00000001", "subnet-00000002"],
    gpu_subnet="subnet-00000001",
)


@pytest.fixture(autouse=True)
def clean() -> Any:
    yield
    pulumi.runtime.set_all_config({}, [])


def fixed(
    settings: EksSettings | None = None, facts: AwsFacts = FACTS, *, zones: ZonePlan | None = ZONES, **changes: Any
) -> dict[str, str]:
    return fixed_settings(settings or load(**changes), facts, zones=zones, subnets=None)


def changed(was: dict[str, str], now: dict[str, str]) -> bool:
    """As the engine asks: what was created, against what is to be."""
    made = EksGuardProvider().create({"fixed": was})
    return bool(EksGuardProvider().diff(made.id, made.outs or {}, {"fixed": now}).changes)


def test_the_same_settings_are_no_change() -> None:
    assert not changed(fixed(), fixed())


def test_it_is_known_by_the_clusters_name() -> None:
    assert EksGuardProvider().create({"fixed": fixed(eksName="mine")}).id == "mine"


@pytest.mark.parametrize(
    ("setting", "changes", "was", "now"),
    [
        ("eksName", {"eksName": "other"}, None, "other"),
        ("aws:region", {"aws_region": "us-east-2", "gpuZone": "us-east-2a"}, "us-west-2", "us-east-2"),
        (
            "eksSecretsKey",
            {"eksSecretsKey": "arn:aws:kms:us-west-2:123456789012:key/1"},
            "",
            "arn:aws:kms:us-west-2:123456789012:key/1",
        ),
        ("vpcCidr", {"vpcCidr": "10.99.0.0/16"}, None, "10.99.0.0/16"),
    ],
)
def test_each_setting_that_aws_takes_once_is_refused_with_both_values(
    setting: str, changes: dict[str, Any], was: str | None, now: str
) -> None:
    before, after = fixed(), fixed(**changes)
    assert after[setting] == now
    old = before[setting] if was is None else was
    with pytest.raises(ReportedError) as caught:
        changed(before, after)
    assert f"{setting} was '{old}' and is '{now}'" in str(caught.value)


def test_another_account_is_refused() -> None:
    other = dataclasses.replace(FACTS, account="210987654321")
    with pytest.raises(ReportedError, match="aws account was '123456789012' and is '210987654321'"):
        changed(fixed(), fixed(facts=other))


def test_other_zones_of_the_control_plane_are_refused_and_other_gpu_zones_are_not() -> None:
    elsewhere = dataclasses.replace(ZONES, control_plane=("us-west-2a", "us-west-2c"))
    with pytest.raises(
        ReportedError, match=r"\(vpcZones\) was 'us-west-2a, us-west-2b' and is 'us-west-2a, us-west-2c'"
    ):
        changed(fixed(), fixed(zones=elsewhere))
    more = dataclasses.replace(ZONES, gpu="us-west-2c", all=("us-west-2c", *ZONES.all))
    assert not changed(fixed(), fixed(zones=more))


def test_other_subnets_of_the_control_plane_and_another_vpc_are_refused() -> None:
    settings = load(vpcId="vpc-00000001", vpcPrivateSubnets=["subnet-00000001", "subnet-00000002"])
    moved = dataclasses.replace(settings, network=dataclasses.replace(settings.network, vpc_id="vpc-00000002"))
    others = dataclasses.replace(SUBNETS, control_plane_subnets=["subnet-00000001", "subnet-00000003"])
    before = fixed_settings(settings, FACTS, zones=None, subnets=SUBNETS)
    assert before["vpcCidr"] == "", "the range of a network that is there is its owner's"
    with pytest.raises(
        ReportedError, match="was 'subnet-00000001, subnet-00000002' and is 'subnet-00000001, subnet-00000003'"
    ):
        changed(before, fixed_settings(settings, FACTS, zones=None, subnets=others))
    with pytest.raises(ReportedError, match="vpcId was 'vpc-00000001' and is 'vpc-00000002'"):
        changed(before, fixed_settings(moved, FACTS, zones=None, subnets=SUBNETS))


def test_an_existing_cluster_is_fixed_by_its_name_and_what_is_its_owners_is_not() -> None:
    one, other = (
        fixed_settings(load(eksExistingCluster=name), FACTS, zones=None, subnets=None) for name in ("prod", "stage")
    )
    assert not {"vpcId", "vpcCidr", "eksSecretsKey"} & one.keys()
    with pytest.raises(ReportedError, match="eksExistingCluster was 'prod' and is 'stage'"):
        changed(one, other)


def test_the_zone_of_the_gpu_nodes_is_fixed_by_a_file_system_in_it_alone() -> None:
    assert not changed(fixed(gpuZone="us-west-2a"), fixed(gpuZone="us-west-2b"))
    before, after = (fixed(eksStorage="fsx", gpuZone=zone) for zone in ("us-west-2a", "us-west-2b"))
    with pytest.raises(ReportedError, match=r"gpuZone \(of the file system\) was 'us-west-2a' and is 'us-west-2b'"):
        changed(before, after)


def test_everything_that_changed_is_named_at_once_with_every_way_out() -> None:
    with pytest.raises(ReportedError) as caught:
        changed(fixed(), fixed(eksName="other", vpcCidr="10.99.0.0/16"))
    said = str(caught.value)
    assert "eksName was" in said and "vpcCidr was" in said
    for way in ("Set it back", "another stack", "`efactl down` first", "storageKeep"):
        assert way in said


def test_what_a_newer_version_fixes_besides_is_taken_over_without_an_error() -> None:
    before = fixed()
    older = {key: value for key, value in before.items() if key != "eksSecretsKey"}
    assert changed(older, before)
    assert EksGuardProvider().update("ray", {"fixed": older}, {"fixed": before}).outs == {"fixed": before}
    assert changed(before, older), "and what one no longer fixes is let go"
