"""The stand-in's check of properties against the installed SDK, on the wire's names."""

from typing import Any

import pytest

from tools.standin import schema, tokens
from tools.standin.catalogue import KINDS
from tools.standin.wire import UNKNOWN


def said(token: str, **inputs: Any) -> dict[str, str]:
    return {problem.path: problem.reason for problem in schema.problems(token, inputs)}


def test_what_the_sdk_allows_passes() -> None:
    interface = {"deviceIndex": 0, "interfaceType": "efa", "securityGroups": ["sg-1"]}
    assert said(tokens.LAUNCH_TEMPLATE, networkInterfaces=[interface], tags={"a": "b"}) == {}


def test_a_name_that_the_sdk_does_not_know_is_named_with_those_it_does() -> None:
    found = said(tokens.VPC, cidr="10.0.0.0/16")
    assert "cidrBlock" in found["cidr"]


def test_a_python_name_is_no_name_on_the_wire() -> None:
    assert list(said(tokens.VPC, cidr_block="10.0.0.0/16")) == ["cidr_block"]


def test_wrong_names_and_types_are_found_inside_lists_and_objects() -> None:
    found = said(
        tokens.LAUNCH_TEMPLATE,
        networkInterfaces=[{"deviceIndex": 0}, {"deviceIndx": 1, "networkCardIndex": "2"}],
        metadataOptions={"httpTokens": True},
        tags={"a": 3},
    )
    assert set(found) == {
        "networkInterfaces[1].deviceIndx",
        "networkInterfaces[1].networkCardIndex",
        "metadataOptions.httpTokens",
        "tags.a",
    }


def test_what_is_required_and_missing_is_named_at_every_depth() -> None:
    assert set(said(tokens.CLUSTER, vpcConfig={})) == {"roleArn", "vpcConfig.subnetIds"}


def test_text_where_a_list_belongs_is_refused() -> None:
    assert "list" in said(tokens.CLUSTER, roleArn="r", vpcConfig={"subnetIds": "subnet-1"})["vpcConfig.subnetIds"]


def test_what_is_not_known_yet_passes_as_any_type() -> None:
    assert said(tokens.CLUSTER, roleArn=UNKNOWN, vpcConfig={"subnetIds": [UNKNOWN]}) == {}
    assert said(tokens.CLUSTER, roleArn=UNKNOWN, vpcConfig=UNKNOWN) == {}


def test_a_policy_may_be_text_or_an_object() -> None:
    assert said(tokens.ROLE, assumeRolePolicy="{}") == {}
    assert said(tokens.ROLE, assumeRolePolicy={"Version": "2012-10-17", "Statement": []}) == {}
    assert said(tokens.ROLE, assumeRolePolicy=7) != {}


def test_a_class_whose_arguments_go_by_another_name_is_found() -> None:
    assert said(tokens.BUCKET_VERSIONING, bucket="b", versioningConfiguration={"status": "Enabled"}) == {}


def test_a_type_that_the_sdk_does_not_have_is_refused() -> None:
    assert "no resource type" in said("aws:ec2/vpd:Vpd")[""]


@pytest.mark.parametrize("token", KINDS)
def test_what_the_stand_in_says_of_a_type_are_names_of_the_sdk(token: str) -> None:
    shape, kind = schema.resource(token), KINDS[token]
    assert shape is not None
    known = set(shape.types)
    tops = {path.partition(".")[0].partition("[")[0] for path in kind.fixed}
    tops |= {refers.path.partition(".")[0].partition("[")[0] for refers in kind.refers}
    names = {*kind.computed, *kind.defaults, *kind.within, *([kind.named] if kind.named else [])}
    assert (tops | names) - known == set()
    assert set(kind.changing) - shape.outputs == set()
