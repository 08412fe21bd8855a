"""efactl with a stack of the kubernetes platform: the head from its state, and a cluster that is gone."""

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from efactl import down
from efactl.exit_codes import ExitCode
from efactl.stack import JOB_TYPE, KUBERNETES_PROVIDER_TYPE, LOCAL_CLUSTER_TYPE, RAY_CLUSTER_READY_TYPE, Stack
from tests.support.fake_api_server import FakeApiServer
from workload import job
from workload.errors import ReportedError
from workload.head import Head

PROVIDER = {"type": KUBERNETES_PROVIDER_TYPE, "inputs": {"context": "it"}}
SECRET = "4dabf18193072939515e22adb298388d"


def secret(value: str) -> dict[str, str]:
    """As `pulumi stack export --show-secrets` writes it."""
    return {SECRET: "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(value)}


def head_in_state(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "kubernetes",
        "namespace": "team",
        "cluster_name": "ray",
        "ray_version": "2.58.0",
        "spec_digest": "digest",
        "nodes": 2.0,
        "accelerators_per_node": 4.0,
        "worker_resource": "GPU",
        "address": "",
        "token": secret("the token"),
        "kubeconfig": secret("kube/config"),
        "kube_context": "it",
        **changes,
    }


class StackWith(Stack):
    """A stack whose state and settings are given; what it would have pulumi do is in `ran`."""

    def __init__(self, resources: Sequence[Mapping[str, Any]], **settings: str) -> None:
        super().__init__("local")
        self._resources = resources
        self._settings = {"platform": "kubernetes", **settings}
        self.ran: list[Sequence[str]] = []

    def resources(self) -> list[Mapping[str, Any]]:
        return list(self._resources)

    def config(self, key: str) -> Any:
        return self._settings[key] if key in self._settings else super().config(key)

    def release_dead_locks(self) -> list[str]:
        return []

    def run(self, command: Sequence[str], *, aside: bool) -> int:
        self.ran.append(command)
        return 0


def test_the_head_is_known_from_the_cluster_while_its_job_still_runs() -> None:
    head = StackWith([{"type": RAY_CLUSTER_READY_TYPE, "outputs": {"head": head_in_state()}}]).head()
    assert head == Head(
        kind="kubernetes",
        namespace="team",
        cluster_name="ray",
        ray_version="2.58.0",
        spec_digest="digest",
        nodes=2,
        accelerators_per_node=4,
        worker_resource="GPU",
        token="the token",
        kubeconfig="kube/config",
        kube_context="it",
    )


def test_without_the_clusters_own_resource_the_jobs_head_is_taken() -> None:
    head = StackWith([{"type": JOB_TYPE, "outputs": {"head": head_in_state(namespace="jobs")}}]).head()
    assert head is not None
    assert head.namespace == "jobs"


def test_a_cluster_that_waits_for_its_deletion_is_not_the_stacks_head() -> None:
    stack = StackWith(
        [
            {"type": RAY_CLUSTER_READY_TYPE, "outputs": {"head": head_in_state(namespace="new")}},
            {"type": RAY_CLUSTER_READY_TYPE, "delete": True, "outputs": {"head": head_in_state(namespace="old")}},
        ]
    )
    head = stack.head()
    assert head is not None
    assert head.namespace == "new"


def test_a_job_of_a_local_cluster_that_is_gone_leaves_no_head() -> None:
    gone = head_in_state(kind="local")
    assert StackWith([{"type": JOB_TYPE, "outputs": {"head": gone}}]).head() is None
    assert StackWith([{"type": LOCAL_CLUSTER_TYPE}]).head() is None


def unreachable(tmp_path: Path, **settings: str) -> StackWith:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    api = FakeApiServer()
    kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
    api.close()
    kubeconfig.write_text(kubeconfig.read_text().replace(str(api.port), str(port)))
    provider = {
        "type": KUBERNETES_PROVIDER_TYPE,
        "urn": "urn:provider",
        "inputs": {"kubeconfig": secret(str(kubeconfig))},
    }
    return StackWith([provider], **settings)


def test_a_cluster_of_the_stacks_own_goes_with_what_it_holds_also_where_it_does_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = unreachable(tmp_path, platform="eks")
    down.down(stack, as_json=False)
    assert stack.ran == [["destroy", "--yes", "--skip-preview"]], "never `state delete`: AWS would go on billing"
    assert "what the cluster holds goes with it" in capsys.readouterr().err


def test_what_would_be_deleted_apart_from_a_cluster_of_the_stacks_own_is_said_where_it_does_not_answer(
    tmp_path: Path,
) -> None:
    """With a claim made here, whose volume lies outside the cluster: each object would fail by itself."""
    stack = unreachable(tmp_path, platform="eks")
    made = {"type": "kubernetes:core/v1:PersistentVolumeClaim", "provider": "urn:pulumi:p::of-the-stack::id"}
    stack = StackWith([*stack.resources(), made], platform="eks")
    with pytest.raises(ReportedError, match=r"pulumi state delete 'urn:pulumi:p::of-the-stack' --target-dependents"):
        down.down(stack, as_json=False)
    assert stack.ran == []
    with_cluster = StackWith([*stack.resources()[:-1], {**made, "deletedWith": "urn:cluster"}], platform="eks")
    down.down(with_cluster, as_json=False)
    assert with_cluster.ran == [["destroy", "--yes", "--skip-preview"]]


def test_an_existing_eks_cluster_that_does_not_answer_is_never_forgotten_with_what_bills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(down.FORGET, "true")
    stack = unreachable(tmp_path, platform="eks", eksExistingCluster="shared")
    with pytest.raises(ReportedError, match=r"pulumi state delete 'urn:provider' --target-dependents"):
        down.down(stack, as_json=False)
    assert stack.ran == []


def test_down_says_at_once_that_the_cluster_is_gone_and_touches_nothing(tmp_path: Path) -> None:
    stack = unreachable(tmp_path)
    with pytest.raises(ReportedError, match=r"the API server cannot be reached") as caught:
        down.down(stack, as_json=False)
    assert "PULUMI_K8S_DELETE_UNREACHABLE=true efactl down -s local" in str(caught.value)
    assert stack.ran == []


def test_down_forgets_a_cluster_that_is_gone_when_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
    stack = unreachable(tmp_path)
    assert down.down(stack, as_json=True) == ExitCode.OK
    assert [command[:3] for command in stack.ran] == [["state", "delete", "--all"]]
    assert "is forgotten" in capsys.readouterr().err


def test_down_stops_a_running_job_before_it_destroys_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(down, "_cluster_answers", lambda *_, **__: True)
    monkeypatch.setattr(job, "unfinished", lambda head: [head.cluster_name])
    monkeypatch.setattr(job, "stop", lambda head, say: order.append(f"stop in {head.namespace}"))
    stack = StackWith([PROVIDER, {"type": RAY_CLUSTER_READY_TYPE, "outputs": {"head": head_in_state()}}])

    def run(command: Sequence[str], *, aside: bool) -> int:
        order.append(command[0])
        return 0

    monkeypatch.setattr(stack, "run", run)
    assert down.down(stack, as_json=True) == ExitCode.OK
    assert order == ["stop in team", "destroy"]


def test_down_destroys_although_no_head_answers_any_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(_head: Head) -> list[str]:
        raise ReportedError("no Ray head answers at http://127.0.0.1:1: no head pod")

    monkeypatch.setattr(down, "_cluster_answers", lambda *_, **__: True)
    monkeypatch.setattr(job, "unfinished", silent)
    stack = StackWith([PROVIDER, {"type": RAY_CLUSTER_READY_TYPE, "outputs": {"head": head_in_state()}}])
    assert down.down(stack, as_json=True) == ExitCode.OK
    assert "no job could be stopped first: no Ray head answers" in capsys.readouterr().err
