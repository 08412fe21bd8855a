"""What the stand-in provider makes of inputs before it asks the account."""

from typing import Any

from tools.standin import planning, schema, tokens
from tools.standin.catalogue import KINDS
from tools.standin.wire import UNKNOWN, pick

GROUP, TEMPLATE, CLUSTER = (KINDS[token] for token in (tokens.NODE_GROUP, tokens.LAUNCH_TEMPLATE, tokens.CLUSTER))


def replacing(token: str, old: dict[str, Any], new: dict[str, Any]) -> dict[str, bool]:
    found = planning.changes(old, new, KINDS[token].fixed)
    return {path: replaces for path, (_, replaces) in found.items()}


def test_a_name_that_nobody_gave_is_made_once_and_kept() -> None:
    first = planning.with_names(TEMPLATE, {}, {}, "gpu", b"seed")
    assert first["name"].startswith("gpu-")
    assert planning.with_names(TEMPLATE, {}, first, "gpu", b"another")["name"] == first["name"]
    assert planning.with_names(TEMPLATE, {}, {}, "gpu", b"another")["name"] != first["name"], (
        "a replacement has its own"
    )


def test_only_a_name_that_the_program_gave_makes_the_old_one_go_first() -> None:
    given = planning.with_names(TEMPLATE, {"name": "gpu"}, {}, "gpu", b"seed")
    assert planning.deletes_first(TEMPLATE, given)
    assert not planning.deletes_first(TEMPLATE, planning.with_names(TEMPLATE, {}, {}, "gpu", b"seed"))
    assert not planning.deletes_first(TEMPLATE, planning.with_names(TEMPLATE, {"namePrefix": "g"}, {}, "gpu", b""))


def test_another_template_version_updates_and_another_template_replaces() -> None:
    old = {"launchTemplate": {"id": "lt-1", "version": "1"}}
    assert replacing(tokens.NODE_GROUP, old, {"launchTemplate": {"id": "lt-1", "version": "2"}}) == {
        "launchTemplate.version": False
    }
    assert replacing(tokens.NODE_GROUP, old, {"launchTemplate": {"id": "lt-2", "version": "1"}}) == {
        "launchTemplate.id": True
    }
    assert replacing(tokens.NODE_GROUP, old, {"launchTemplate": {"id": UNKNOWN, "version": "1"}}) == {
        "launchTemplate.id": True
    }


def test_part_of_a_clusters_network_settings_changes_in_place() -> None:
    old = {"name": "c", "vpcConfig": {"subnetIds": ["a", "b"], "publicAccessCidrs": ["1.2.3.4/32"]}}
    new = {"name": "c", "vpcConfig": {"subnetIds": ["b", "a"], "publicAccessCidrs": ["1.2.3.5/32"]}}
    assert replacing(tokens.CLUSTER, old, new) == {"vpcConfig.publicAccessCidrs[0]": False}
    assert replacing(tokens.CLUSTER, old, {**old, "name": "d"}) == {"name": True}


def test_a_key_for_secrets_is_compared_with_the_one_that_eks_has_and_cannot_be_taken_out() -> None:
    given, other = ({"encryptionConfig": {"provider": {"keyArn": key}}} for key in ("one", "two"))
    path = "encryptionConfig.provider.keyArn"
    assert planning.changes_of(CLUSTER, given, given, other) == {path: ("update", False)}
    assert planning.changes_of(CLUSTER, given, other, other) == {path: ("update", False)}, "EKS was never told"
    assert planning.changes_of(CLUSTER, given, given, given) == {}
    assert planning.changes_of(CLUSTER, {}, {}, given) == {"encryptionConfig": ("add", False)}
    assert planning.changes_of(CLUSTER, given, given, {}) == {"encryptionConfig": ("delete", True)}


def test_changes_are_those_from_what_there_is_whatever_the_inputs_were() -> None:
    old, new = ({"launchTemplate": {"id": "lt-1", "version": version}} for version in "12")
    assert planning.changes_of(GROUP, {**new, "status": "ACTIVE"}, old, new) == {}
    assert planning.changes_of(GROUP, old, old, new) == {"launchTemplate.version": ("update", False)}
    assert planning.changes_of(GROUP, old, new, new) == {"launchTemplate.version": ("update", False)}
    network = {"vpcConfig": {"subnetIds": ["a", "b"]}}
    known = {"vpcConfig": {"subnetIds": ["b", "a"], "vpcId": "vpc-1"}}
    assert planning.changes_of(CLUSTER, known, {"vpcConfig": {"subnetIds": ["c", "a"]}}, network) == {}
    assert planning.changes_of(CLUSTER, known, network, {"vpcConfig": {"subnetIds": ["a", "c"]}})


def test_the_order_means_something_where_it_does() -> None:
    assert replacing(tokens.NODE_GROUP, {"instanceTypes": ["a", "b"]}, {"instanceTypes": ["b", "a"]})
    assert not replacing(tokens.NODE_GROUP, {"subnetIds": ["a", "b"]}, {"subnetIds": ["b", "a"]})


def test_a_policy_written_otherwise_is_the_same_policy() -> None:
    old, new = {"assumeRolePolicy": '{"a": 1, "b": 2}'}, {"assumeRolePolicy": '{"b":2,"a":1}'}
    assert not replacing(tokens.ROLE, old, new)
    assert replacing(tokens.ROLE, old, {"assumeRolePolicy": '{"b":3,"a":1}'}) == {"assumeRolePolicy": False}


def test_a_preview_knows_what_the_program_says_and_nothing_that_aws_decides() -> None:
    shape = schema.resource(tokens.CLUSTER)
    assert shape is not None
    config = {"subnetIds": ["a", "b"]}
    outputs = planning.previewed(CLUSTER, shape, {"name": "ray", "roleArn": "r", "vpcConfig": config})
    assert outputs["name"] == "ray"
    assert pick(outputs, "vpcConfig.subnetIds[]") == ["a", "b"]
    for unknown in ("endpoint", "certificateAuthority", "identities", "arn"):
        assert outputs[unknown] == UNKNOWN
    assert outputs["vpcConfig"]["clusterSecurityGroupId"] == UNKNOWN


def test_a_templates_next_version_is_unknown_unless_only_tags_change() -> None:
    old = {"name": "t", "instanceType": "g6.12xlarge", "latestVersion": 1}
    inputs = {"name": "t", "instanceType": "g6.12xlarge"}
    tagged = planning.preview_update(TEMPLATE, old, inputs, {**inputs, "tags": {"a": "b"}})
    assert tagged["latestVersion"] == 1
    changed = planning.preview_update(TEMPLATE, old, inputs, {**inputs, "instanceType": "g6.24xlarge"})
    assert changed["latestVersion"] == UNKNOWN


def test_an_input_that_is_no_longer_given_goes_back_to_its_default() -> None:
    vpc = KINDS[tokens.VPC]
    kept = planning.kept(vpc, {"id": "v", "enableDnsHostnames": True}, {"enableDnsHostnames": True}, {})
    assert kept == {"id": "v", "enableDnsHostnames": False}


def test_the_resources_own_tags_go_over_the_providers() -> None:
    shape = schema.resource(tokens.VPC)
    assert shape is not None
    assert planning.tags_all(shape, {"tags": {"a": "mine"}}, {"a": "theirs", "b": "theirs"}) == {
        "tagsAll": {"a": "mine", "b": "theirs"}
    }
    route = schema.resource(tokens.ROUTE)
    assert route is not None
    assert planning.tags_all(route, {}, {"a": "theirs"}) == {}
