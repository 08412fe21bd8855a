"""What is changed in a stack's settings so that it runs without an account: no more than needed, all of it said."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from tests.support.project import ROOT
from tools.standin import overrides
from workload.errors import BadInputError

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
DEV: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]


def config(**settings: Any) -> dict[str, Any]:
    return {"ray-train-efa:platform": "eks", **{f"ray-train-efa:{key}": value for key, value in settings.items()}}


def changed(found: list[overrides.Override]) -> dict[str, Any]:
    return {one.key.removeprefix("ray-train-efa:"): one.value for one in found}


def test_a_preview_of_the_example_stack_changes_only_what_everybody_must() -> None:
    overrides.check_platform(DEV, "dev")
    [endpoint] = overrides.for_any(DEV, now=NOW)
    assert endpoint.key == "ray-train-efa:eksEndpointCidrs"
    assert "203.0.113.7/32" in endpoint.line(), "the one for documentation, which EKS refuses"


def test_a_reservation_that_has_ended_gets_an_end_in_the_future_and_one_that_is_not_made_gets_none() -> None:
    over = config(capacityUntil="2026-11-01T00:00:00Z", eksEndpointCidrs=["8.8.8.8/32"])
    assert changed(overrides.for_any(over, now=NOW)) == {"capacityUntil": "2026-12-06T12:00:00Z"}
    assert overrides.for_any({**over, "ray-train-efa:capacity": "none"}, now=NOW) == []


def test_secrets_are_left_out_and_not_shown() -> None:
    given = config(
        hfToken={"secure": "v1:abc"},
        jobSecretEnv={"KEY": {"secure": "v1:abc"}},
        eksEndpointCidrs=["8.8.8.8/32"],
        capacity="none",
    )
    found = overrides.for_any(given, now=NOW)
    assert changed(found) == {"hfToken": None, "jobSecretEnv": None}
    assert "v1:abc" not in "".join(one.line() for one in found)


def test_nobodys_credentials_are_used() -> None:
    given = {
        **DEV,
        "ray-train-efa:eksEndpointCidrs": ["none"],
        "aws:profile": "training",
        "aws:allowedAccountIds": ["1"],
    }
    assert changed(overrides.for_any(given, now=NOW)) == {"aws:profile": None, "aws:allowedAccountIds": None}


def test_an_up_trains_small_on_this_machine_and_says_of_each_change_why() -> None:
    found = overrides.for_bed(DEV, expect="gloo", charts="/charts")
    values = changed(found)
    assert values["expect"] == values["trainBackend"] == "gloo"
    assert values["trainModelId"] == "tiny-qwen2"
    assert values["eksStorage"] == "claim"
    assert values["gpuInstanceType"] == "g6.8xlarge", "one rank a node"
    assert values["addonKubeRayRepository"] == "/charts"
    assert all(one.reason and one.reason in one.line() for one in found)
    assert "expect: gloo (was efa)" in found[0].line()


def test_left_at_efa_the_expectation_stays_and_all_else_changes_as_it_must() -> None:
    left = changed(overrides.for_bed(DEV, expect="efa", charts="/charts"))
    assert {**left, "expect": "gloo"} == changed(overrides.for_bed(DEV, expect="gloo", charts="/charts"))


def test_what_is_so_already_is_not_listed() -> None:
    once = overrides.for_bed(DEV, expect="gloo", charts="/charts")
    applied = overrides.apply(DEV, once)
    assert overrides.for_bed(applied, expect="gloo", charts="/charts") == []
    assert applied["ray-train-efa:trainSteps"] == "4"


def test_a_setting_that_is_taken_out_is_gone() -> None:
    given = config(gateMaxEvalLoss="2.0", gpuInstanceType="g6.8xlarge")
    found = overrides.for_bed(given, expect="gloo", charts="/charts")
    assert "ray-train-efa:gateMaxEvalLoss" not in overrides.apply(given, found)
    assert "gpuInstanceType" not in changed(found), "it has one GPU already"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ray-train-efa:platform": "kubernetes"}, "platform kubernetes"),
        ({}, "platform local"),
        (config(eksExistingCluster="prod"), "eksExistingCluster prod"),
        (config(vpcId="vpc-1"), "vpcId vpc-1"),
        (config(capacity="cr-0123456789abcdef0"), "reservation cr-"),
    ],
)
def test_a_stack_that_no_stand_in_can_show_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        overrides.check_platform(settings, "dev")
