"""`efactl down` on eks: whose account it is is asked first, what is left is asked last, and the exit code says it."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from capacity.audit import NAME_TAG
from capacity.pulumi_cli import PulumiCli
from efactl import down, down_env, leftovers, region_stacks, teardown
from efactl import stack as stacks
from efactl.__main__ import main
from efactl.environment import Environment
from efactl.exit_codes import ExitCode
from efactl.stack import NoSuchStackError, Stack
from infra import local_nodes
from tests.capacity.test_audit import bucket, tagged
from tests.support.aws_server import AwsServer, Fault
from workload.errors import BadInputError, ReportedError

MINE, OTHER = "123456789012", "999999999999"
OURS = [{"Key": NAME_TAG, "Value": "ray-local"}]


def guard(account: str = MINE, region: str = "us-west-2", name: str = "ray-local", **more: str) -> dict[str, Any]:
    fixed = {"aws account": account, "aws:region": region, "eksName": name, "eksExistingCluster": "", **more}
    return {"type": "pulumi-python:dynamic/infra:EksGuard", "outputs": {"fixed": fixed}}


def resource(token: str, arn: str, **more: Any) -> dict[str, Any]:
    return {"type": token, "id": arn.rpartition("/")[2], "outputs": {"arn": arn}, **more}


class EksStack(Stack):
    """A stack whose state and settings are given; `ran` is what it would have had pulumi do, each with `status`."""

    status = 0
    existing: Mapping[str, Sequence[Mapping[str, Any]]] = {}

    def __init__(self, name: str = "local", resources: Sequence[Mapping[str, Any]] = (), **settings: Any) -> None:
        super().__init__(name)
        self._resources = resources
        self._settings = {"platform": "eks", **settings}
        self.ran: list[str] = []

    def resources(self) -> list[Mapping[str, Any]]:
        return list(self._resources)

    def config(self, key: str) -> Any:
        return self._settings[key] if key in self._settings else super().config(key)

    def foreign_config(self, name: str) -> Any:
        return self._settings.get(name)

    def release_dead_locks(self) -> list[str]:
        return []

    def settle(self, say: Callable[[str], None], **_where: Any) -> list[Mapping[str, Any]]:
        return self.resources()

    def run(self, command: Sequence[str], *, aside: bool) -> int:
        self.ran.append(command[0])
        return self.status


def address(aws: AwsServer, region: str = "us-west-2", name: str = "ray-local") -> str:
    tags = [{"Key": NAME_TAG, "Value": name}]
    made = aws.client("ec2", region).allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip", tags))
    return str(made["AllocationId"])


def test_a_stack_whose_account_is_empty_is_down(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    stack = EksStack(resources=[guard()])
    assert down.down(stack, as_json=False) == ExitCode.OK
    said = capsys.readouterr()
    assert stack.ran == ["destroy"]
    assert "nothing of stack local is left" in said.out
    assert f"looking in account {MINE}, us-west-2, for what has the tag" in said.err


def test_credentials_of_another_account_are_refused_before_anything_is_destroyed(aws: AwsServer) -> None:
    stack = EksStack(resources=[guard(OTHER)])
    with pytest.raises(ReportedError, match=f"made in account {OTHER}, and these credentials are of account {MINE}"):
        down.down(stack, as_json=False)
    assert stack.ran == []


@pytest.mark.parametrize("given", [[OTHER], f'["{OTHER}"]', [int(OTHER)]])
@pytest.mark.parametrize("resources", [[], [guard()]])
def test_an_account_that_the_settings_do_not_allow_is_refused_whatever_the_state_says(
    aws: AwsServer, resources: list[dict[str, Any]], given: Any
) -> None:
    stack = EksStack(resources=resources, **{"aws:region": "us-west-2", "aws:allowedAccountIds": given})
    with pytest.raises(ReportedError, match=f"account {MINE}, and aws:allowedAccountIds has {OTHER}"):
        down.down(stack, as_json=False)
    assert stack.ran == []


def test_an_account_that_the_settings_allow_is_taken_and_what_is_no_list_refused(aws: AwsServer) -> None:
    settings: dict[str, Any] = {"aws:region": "us-west-2", "aws:allowedAccountIds": [OTHER, MINE]}
    assert down.down(EksStack(**settings), as_json=False) == ExitCode.OK
    settings["aws:allowedAccountIds"] = {"id": MINE}
    with pytest.raises(BadInputError, match=r"aws:allowedAccountIds: '.*' is no list of accounts"):
        down.down(EksStack(**settings), as_json=False)


def test_the_account_that_was_looked_in_is_said_where_no_state_names_one(
    aws: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    region: dict[str, Any] = {"aws:region": "us-west-2"}
    assert down.down(EksStack(**region), as_json=False) == ExitCode.OK
    assert f"looking in account {MINE}, us-west-2" in capsys.readouterr().err


def test_the_account_is_known_by_arns_too_where_the_guard_is_gone(aws: AwsServer) -> None:
    made = [resource("aws:ec2/vpc:Vpc", f"arn:aws:ec2:us-west-2:{OTHER}:vpc/vpc-1")]
    with pytest.raises(ReportedError, match=f"made in account {OTHER}"):
        down.down(EksStack(resources=made), as_json=False)


def test_what_others_share_or_aws_owns_says_nothing_of_the_account() -> None:
    state = [
        resource(
            "aws:ec2/capacityReservation:CapacityReservation", f"arn:aws:ec2:us-east-1:{OTHER}:cr/cr-1", external=True
        ),
        resource("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"),
        resource("aws:iam/role:Role", f"arn:aws:iam::{MINE}:role/ray"),
        resource("aws:ec2/vpc:Vpc", f"arn:aws:ec2:us-west-2:{MINE}:vpc/vpc-1"),
    ]
    assert leftovers.account(state) == MINE
    assert leftovers.regions(state) == ["us-west-2"]
    assert (leftovers.account([]), leftovers.regions([])) == ("", [])


@pytest.mark.parametrize("resources", [[], [guard()]])
def test_without_working_credentials_nothing_is_destroyed(aws: AwsServer, resources: list[dict[str, Any]]) -> None:
    aws.faults = [Fault("GetCallerIdentity", "ExpiredToken", "The security token is expired", status=403)]
    region: dict[str, Any] = {"aws:region": "us-west-2"}
    stack = EksStack(resources=resources, **region)
    with pytest.raises(ReportedError, match="sign in again"):
        down.down(stack, as_json=False)
    assert stack.ran == []


def test_credentials_that_run_out_during_the_destroy_are_one_line(
    aws: AwsServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = EksStack(resources=[guard()])

    def run(_command: Sequence[str], *, aside: bool) -> int:
        aws.faults = [Fault("*", "ExpiredToken", "The security token is expired", status=403, times=99)]
        return 1

    monkeypatch.setattr(stack, "run", run)
    assert down.down(stack, as_json=False) == ExitCode.FAILED
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("not looked at: anything in us-west-2: ExpiredToken: ")


def test_what_still_bills_after_the_destroy_fails_it_and_is_named_with_the_command(
    aws: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    id = address(aws)
    assert down.down(EksStack(resources=[guard()]), as_json=False) == ExitCode.FAILED
    said = capsys.readouterr().out
    assert f"still billing: public address {id} in us-west-2, $0.0050 an hour" in said
    assert f"aws ec2 release-address --region us-west-2 --allocation-id {id}" in said
    assert "nothing of stack" not in said


def test_a_kind_that_may_not_be_looked_at_fails_it(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    aws.faults = [Fault("ListKeys", "AccessDeniedException", "no identity-based policy allows kms:ListKeys", times=9)]
    assert down.down(EksStack(resources=[guard()]), as_json=False) == ExitCode.FAILED
    assert "not looked at: KMS key in us-west-2" in capsys.readouterr().out


def test_what_is_free_is_named_and_fails_nothing(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    aws.client("ec2").create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=tagged("vpc", OURS))
    assert down.down(EksStack(resources=[guard()]), as_json=False) == ExitCode.OK
    assert "left, and free of charge: VPC vpc-" in capsys.readouterr().out


def test_a_bucket_that_a_setting_keeps_fails_nothing(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    bucket(aws, "ray-local-abc", OURS)
    assert down.down(EksStack(resources=[guard()]), as_json=False) == ExitCode.FAILED
    assert down.down(EksStack(resources=[guard()], storageKeep="true"), as_json=False) == ExitCode.OK
    assert "kept by storageKeep: bucket ray-local-abc" in capsys.readouterr().out


def test_the_facts_are_told_as_json(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    id = address(aws)
    assert down.down(EksStack(resources=[guard()]), as_json=True) == ExitCode.FAILED
    facts = json.loads(capsys.readouterr().out)
    assert facts["destroyed"]
    assert [(one["kind"], one["id"], one["bills"]) for one in facts["left"]] == [("public address", id, True)]


def test_a_destroy_that_failed_is_told_by_what_its_state_still_has(
    aws: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    nat = {"type": "aws:ec2/natGateway:NatGateway", "id": "nat-1", "outputs": {}}
    stack = EksStack(resources=[guard(), nat])
    stack.status = 1
    assert down.down(stack, as_json=False) == ExitCode.FAILED
    assert "still there, and billing: NAT gateway nat-1" in capsys.readouterr().err


def test_what_bills_after_a_destroy_that_failed_is_looked_for_as_well(
    aws: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its state says nothing of what controllers made, nor of what the provider lost track of."""
    id = address(aws)
    aws.client("ec2").create_vpc(CidrBlock="10.9.0.0/16", TagSpecifications=tagged("vpc", OURS))
    stack = EksStack(resources=[guard()])
    stack.status = 1
    assert down.down(stack, as_json=False) == ExitCode.FAILED
    said = capsys.readouterr().out
    assert f"still billing: public address {id}" in said
    assert "VPC" not in said, "what is free goes with the next destroy"
    assert down.down(stack, as_json=True) == ExitCode.FAILED
    facts = json.loads(capsys.readouterr().out)
    assert not facts["destroyed"]
    assert {"public address", "VPC"} <= {one["kind"] for one in facts["left"]}


def test_what_could_not_be_looked_at_is_not_told_as_nothing(aws: AwsServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert down.down(EksStack(), as_json=True) == ExitCode.FAILED, "no region is named anywhere"
    said = capsys.readouterr()
    assert json.loads(said.out)["left"] is None
    assert "AWS was not looked at" in said.err


class Lost(EksStack):
    """A stack that this backend does not have."""

    status = 255

    def resources(self) -> list[Mapping[str, Any]]:
        raise NoSuchStackError(f"no stack named '{self.name}' found; `pulumi stack init {self.name}` makes it")


def test_a_stack_whose_state_is_lost_is_looked_for_by_its_settings(
    aws: AwsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    region: dict[str, Any] = {"aws:region": "us-west-2"}
    stack = Lost(**region)
    assert down.down(stack, as_json=False) == ExitCode.OK
    said = capsys.readouterr()
    assert "there is no stack local in this backend: nothing was destroyed" in said.out
    assert f"looking in account {MINE}, us-west-2" in said.err
    id = address(aws)
    assert down.down(stack, as_json=True) == ExitCode.FAILED
    facts = json.loads(capsys.readouterr().out)
    assert (facts["destroyed"], [one["id"] for one in facts["left"]]) == (False, [id])
    assert stack.ran == []


def test_a_lost_stack_is_not_looked_for_in_an_account_that_its_settings_do_not_allow(aws: AwsServer) -> None:
    settings: dict[str, Any] = {"aws:region": "us-west-2", "aws:allowedAccountIds": [OTHER]}
    with pytest.raises(ReportedError, match="aws:allowedAccountIds"):
        down.down(Lost(**settings), as_json=False)


def test_processes_of_a_local_stack_whose_state_is_lost_are_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_nodes, "stop", lambda _directory, *, say: (4711,))
    assert down.down(Lost(platform="local"), as_json=True) == ExitCode.OK
    facts = json.loads(capsys.readouterr().out)
    assert (facts["endedBesides"], facts["left"]) == ([4711], [])


def test_what_a_lost_stack_has_in_a_cluster_nobody_can_tell() -> None:
    with pytest.raises(NoSuchStackError, match="pulumi stack init"):
        down.down(Lost(platform="kubernetes"), as_json=False)


def test_every_region_that_the_state_names_is_looked_at(aws: AwsServer) -> None:
    moved = resource("aws:ec2/vpc:Vpc", f"arn:aws:ec2:us-east-1:{MINE}:vpc/vpc-1")
    address(aws, "us-east-1")
    assert down.down(EksStack(resources=[guard(), moved]), as_json=False) == ExitCode.FAILED
    assert set(aws.asked_for("DescribeInstances")) == {"us-west-2", "us-east-1"}


def test_a_second_down_of_an_empty_state_looks_by_the_settings(aws: AwsServer) -> None:
    address(aws, name="ray-mine")
    region: dict[str, Any] = {"aws:region": "us-west-2"}
    assert down.down(EksStack(eksName="ray-mine", **region), as_json=False) == ExitCode.FAILED
    assert down.down(EksStack(eksName="ray-other", **region), as_json=False) == ExitCode.OK


def test_the_stacks_profile_and_role_are_those_that_ask(aws: AwsServer) -> None:
    roles = [{"roleArn": "arn:aws:iam::123456789012:role/deployer"}]
    settings: dict[str, Any] = {"aws:profile": "mine", "aws:assumeRoles": roles}
    found = teardown.made(EksStack(**settings), [guard()])
    assert found is not None
    assert (found.access.profile, found.access.role_arn) == ("mine", roles[0]["roleArn"])


def test_an_existing_clusters_node_groups_are_asked_for_by_its_name(aws: AwsServer) -> None:
    found = teardown.made(EksStack(), [guard(eksExistingCluster="shared")])
    assert found is not None
    assert found.clusters == ("shared",)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Mapping[str, Any]] | None]:
    """Stacks of `env` by name, with their resources; None for one that was never made."""
    states: dict[str, list[Mapping[str, Any]] | None] = {}

    class Known(EksStack):
        def __init__(self, name: str) -> None:
            region = "us-east-1" if name == "env-us-east-1" else "us-west-2"
            regions = {} if name == "env" and states[name] is None else {"aws:region": region}
            super().__init__(name, states[name] or [], **regions)

        def resources(self) -> list[Mapping[str, Any]]:
            if states[self.name] is None:
                raise NoSuchStackError(f"no stack named '{self.name}' found")
            return super().resources()

    (tmp_path / "Pulumi.yaml").write_text((stacks.FOLDER / "Pulumi.yaml").read_text())
    for name in ("env", "env-us-east-1", "env-test", "env-test-us-west-2", "environment"):
        (tmp_path / f"Pulumi.{name}.yaml").write_text("config: {}\n")
        states[name] = [guard(region="us-east-1" if name == "env-us-east-1" else "us-west-2", name=f"ray-{name}")]
    for module in (stacks, down_env, down, region_stacks):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    for module in (down_env, region_stacks):
        monkeypatch.setattr(module, "Stack", Known)
    return states


def test_an_environment_is_all_its_stacks_and_no_other(
    aws: AwsServer, environment: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["down", "--env", "env", "--json"]) == ExitCode.OK
    facts = json.loads(capsys.readouterr().out)
    assert sorted(facts["stacks"]) == ["env", "env-us-east-1"]
    assert all(one["destroyed"] for one in facts["stacks"].values())
    assert set(aws.asked_for("DescribeInstances")) == {"us-west-2", "us-east-1"}


def test_a_down_of_one_stack_says_which_of_its_environment_are_still_up(
    aws: AwsServer, environment: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    vpc = {"type": "aws:ec2/vpc:Vpc", "urn": "urn::vpc", "id": "vpc-1"}
    monkeypatch.setattr(PulumiCli, "resources", lambda _, name: [vpc])
    assert down.down(EksStack("env", [guard()]), as_json=False) == ExitCode.OK
    assert "environment env is up as env-us-east-1: name it with -s" in capsys.readouterr().err


def test_what_one_stack_left_does_not_keep_the_next_from_its_end(
    aws: AwsServer, environment: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    environment["env"] = [guard(OTHER)]
    address(aws, "us-east-1", "ray-env-us-east-1")
    assert main(["down", "--env", "env"]) == ExitCode.FAILED
    said = capsys.readouterr()
    assert f"stack env: stack env was made in account {OTHER}" in said.err
    assert "still billing: public address" in said.out


def test_a_stack_that_this_backend_does_not_have_is_looked_for_in_the_account_all_the_same(
    aws: AwsServer, environment: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    environment["env-us-east-1"] = None
    assert main(["down", "--env", "env"]) == ExitCode.OK
    assert "no stack env-us-east-1 in this backend" in capsys.readouterr().out
    address(aws, "us-east-1", "ray-env-us-east-1")
    assert main(["down", "--env", "env"]) == ExitCode.FAILED


def test_settings_that_only_regions_stacks_are_made_from_have_no_region_to_look_in(
    aws: AwsServer, environment: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    environment["env"] = None
    assert main(["down", "--env", "env", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["stacks"]["env"]["left"] == []
    address(aws, "us-east-1", "ray-env-us-east-1")
    assert main(["down", "--env", "env"]) == ExitCode.FAILED


def test_an_environment_without_stacks_is_bad_input(
    environment: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["down", "--env", "nowhere"]) == ExitCode.BAD_INPUT
    assert "neither Pulumi.nowhere.yaml nor Pulumi.nowhere-<region>.yaml" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "*", "env*", "../env"])
def test_what_is_no_name_of_an_environment_destroys_nothing(
    environment: dict[str, Any], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["down", "--env", name]) == ExitCode.BAD_INPUT
    assert f"'{name}' is no name of an environment" in capsys.readouterr().err


def test_a_bring_up_asks_whose_account_its_stacks_are_before_anything_else(
    aws: AwsServer, environment: dict[str, Any]
) -> None:
    """Another account would say that the control plane is gone, and the state would forget it."""
    environment["env-us-east-1"] = [guard(OTHER, region="us-east-1")]

    class Cli:
        def resources(self, stack: str) -> list[Mapping[str, Any]]:
            return [] if stack == "env" else environment[stack]

    asked: Any = Environment(name="env", base=EksStack("env"), cli=Cli(), access=EksStack("env").access())  # type: ignore[arg-type]
    with pytest.raises(ReportedError, match=f"stack env-us-east-1 was made in account {OTHER}"):
        asked.look()


def test_a_bring_up_begins_nothing_in_an_account_that_its_settings_do_not_allow(
    aws: AwsServer, environment: dict[str, Any]
) -> None:
    """Before the first stack of a region is there to say so."""
    settings: dict[str, Any] = {"aws:allowedAccountIds": [OTHER]}
    base = EksStack("env", **settings)
    asked = Environment(name="env", base=base, cli=None, access=base.access())  # type: ignore[arg-type]
    with pytest.raises(ReportedError, match=f"aws:allowedAccountIds has {OTHER}"):
        asked.look()


def test_a_stack_and_an_environment_are_not_asked_for_together(
    environment: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["down", "-s", "local", "--env", "env"]) == ExitCode.BAD_INPUT
    assert "give one of them" in capsys.readouterr().err


def reserved(end: str) -> dict[str, Any]:
    one = resource(leftovers.RESERVATION, f"arn:aws:ec2:us-west-2:{MINE}:capacity-reservation/cr-1")
    urn = "urn:pulumi:local::ray-train-efa::aws:ec2/capacityReservation:CapacityReservation::gpu"
    return {**one, "urn": urn, "outputs": {**one["outputs"], "endDate": end}}


@pytest.mark.parametrize(("end", "ran"), [("2020-01-01T00:00:00Z", ["refresh", "destroy"]), ("", ["destroy"])])
def test_a_reservation_that_aws_has_ended_is_asked_for_where_no_cluster_answers(
    aws: AwsServer, end: str, ran: list[str]
) -> None:
    stack = EksStack(resources=[guard(), reserved(end)])
    down.down(stack, as_json=False)
    assert stack.ran == ran
