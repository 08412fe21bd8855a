"""Which places an environment's files can be written for, and why not the others."""

from typing import Any

import pytest

from capacity.kept_files import KeptFiles
from capacity.place import Place

WEST_A, WEST_B, EAST = (Place(region=zone[:-1], zone=zone, zone_id="") for zone in ("w-1a", "w-1b", "e-1a"))


def named(**settings: Any) -> dict[str, Any]:
    own = {f"ray-train-efa:{key}": value for key, value in {"platform": "eks", **settings}.items()}
    return {"aws:region": "w-1", **own}


def test_nothing_speaks_against_a_plain_base() -> None:
    assert [KeptFiles(env="dev", base=named()).why_not(place) for place in (WEST_A, WEST_B, EAST)] == ["", "", ""]


@pytest.mark.parametrize("settings", [{"vpcId": "vpc-1"}, {"eksExistingCluster": "theirs"}])
def test_what_only_the_bases_region_has_keeps_it_there_unless_the_other_has_a_file(settings: dict[str, Any]) -> None:
    [name] = settings
    files = KeptFiles(env="dev", base=named(**settings))
    assert files.why_not(WEST_A) == ""
    assert files.why_not(EAST) == f"Pulumi.dev.yaml names {name}, which e-1 does not have"
    assert KeptFiles(env="dev", base=named(**settings), files={"e-1": named()}).why_not(EAST) == ""


def test_zones_outside_of_the_network_are_no_place_and_another_region_has_zones_of_its_own() -> None:
    files = KeptFiles(env="dev", base=named(vpcZones=["w-1a"]))
    assert files.why_not(WEST_A) == files.why_not(EAST) == ""
    assert files.why_not(WEST_B) == "it is none of vpcZones (w-1a)"


def test_a_stack_that_holds_capacity_stays_in_its_zone() -> None:
    files = KeptFiles(env="dev", base=named(), files={"w-1": named()}, held={"w-1": {"w-1a"}})
    assert files.why_not(WEST_A) == ""
    assert files.why_not(WEST_B).startswith("stack dev-w-1 holds GPU capacity in w-1a: `efactl down -s dev-w-1`")


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"platform": "local"}, "platform local"), ({"gpuMarket": "capacity-block"}, "a capacity block")],
)
def test_a_regions_file_of_another_kind_is_no_place(settings: dict[str, Any], what: str) -> None:
    files = KeptFiles(env="dev", base=named(), files={"w-1": named(**settings)})
    assert files.why_not(WEST_A) == f"Pulumi.dev-w-1.yaml is for {what}"
