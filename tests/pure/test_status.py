"""`efactl status` over an API server and a Ray head that answer, hang or refuse: part by part, nothing secret."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from efactl.leftovers import RESERVATION
from efactl.stack import KUBERNETES_PROVIDER_TYPE, RAY_CLUSTER_READY_TYPE
from efactl.status import gather
from efactl.status.asking import Asked
from efactl.status.gather import document
from efactl.status.screen import lines
from efactl.status.state import NODES_TYPE, RAY_CLUSTER_TYPE
from tests.pure.test_ray_cluster_state import HEAD, WORKERS, cluster
from tests.pure.test_status_job import SIZES, step
from tests.pure.test_status_parts import node, ray_nodes
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_api_server import pod as head_pod
from tests.support.json_server import JsonServer
from tests.support.known_stack import KnownStack, custom, job, local_cluster, secret
from workload.errors import ReportedError

PODS, EVENTS = "/api/v1/namespaces/team/pods", "/api/v1/namespaces/team/events"
RAY_CLUSTER = "/apis/ray.io/v1/namespaces/team/rayclusters/ray"
RUNNING = "ray-train-fsdp-llm-0f3a-1"
JOBS, LOGS = "/api/jobs/", f"/api/jobs/{RUNNING}/logs"
TOKEN, PASSWORD = "the-token-of-the-head", "hf_of-the-job"


def rows(result: list[dict[str, Any]]) -> dict[str, Any]:
    return {"result": True, "data": {"result": {"result": result}}}


def head_answers() -> dict[str, Any]:
    return {
        "/api/version": {"ray_version": "2.58.0", "session_name": "it"},
        "/api/v0/nodes": rows(ray_nodes("ALIVE", "ALIVE")),
        "/api/v0/placement_groups": rows([{"state": "CREATED", "bundles": [{"unit_resources": {"trainer": 1.0}}] * 4}]),
        JOBS: [{"submission_id": RUNNING, "status": "RUNNING", "start_time": 1000 * (time.time() - 60), "message": ""}],
        LOGS: {"logs": "\n".join([SIZES, step(20, 8192), f"[train] data: token {PASSWORD} and {TOKEN}"])},
    }


def cluster_answers() -> dict[str, Any]:
    nodes = [node("node-of-ray-worker-a", pool="gpu"), node("node-of-ray-worker-bb", pool="gpu"), node("foreign")]
    return {
        "/api/v1/nodes": {"items": nodes},
        PODS: {"items": [HEAD, *WORKERS]},
        EVENTS: {"items": []},
        RAY_CLUSTER: cluster(),
    }


@dataclass(frozen=True)
class World:
    """A stack of the kubernetes platform with its job running; `cluster` is its API server, `head` its Ray head."""

    stack: KnownStack
    cluster: JsonServer
    head: JsonServer
    runs: Path

    def document(self) -> dict[str, Any]:
        return document(self.stack, runs=self.runs)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    # As long as a busy machine needs: what hangs is given up in a test of its own.
    monkeypatch.setattr(gather, "STATE_S", 60.0)
    monkeypatch.setattr(gather, "PART_S", 50.0)
    # The tunnel is that of another API server, which knows how to forward.
    tunnel = FakeApiServer()
    try:
        with (
            JsonServer(cluster_answers(), token="of-the-user") as api,
            JsonServer(head_answers(), token=TOKEN) as ray_head,
        ):
            tunnel.pods, tunnel.targets = [head_pod("ray-head")], {"ray-head": ray_head.port}
            head = {
                "kind": "kubernetes",
                "namespace": "team",
                "cluster_name": "ray",
                "ray_version": "2.58.0",
                "spec_digest": "",
                "nodes": 2.0,
                "accelerators_per_node": 2.0,
                "worker_resource": "trainer",
                "token": secret(TOKEN),
                "kubeconfig": secret(str(tunnel.kubeconfig(tmp_path / "tunnel"))),
            }
            resources = [
                custom(KUBERNETES_PROVIDER_TYPE, {}, inputs={"kubeconfig": str(api.kubeconfig(tmp_path / "kube"))}),
                custom(RAY_CLUSTER_TYPE, cluster()),
                custom(RAY_CLUSTER_READY_TYPE, {"head": head}),
                custom(NODES_TYPE, {"selector": {"pool": "gpu"}}),
                job("last-1", secret_env=secret({"HF_TOKEN": PASSWORD})),
            ]
            # `custom` gives every resource outputs; a provider has only inputs.
            resources[0].pop("outputs")
            yield World(KnownStack(resources, platform="kubernetes"), api, ray_head, tmp_path / "runs")
    finally:
        tunnel.close()


def test_all_parts_are_told(world: World) -> None:
    told = world.document()
    assert [node["name"] for node in told["nodes"]] == ["node-of-ray-worker-a", "node-of-ray-worker-bb"]
    assert [pod["ready"] for pod in told["pods"]] == [True, True, True]
    assert (told["rayCluster"]["workersReady"], told["rayCluster"]["problem"]) == (2, None)
    assert told["ray"]["resources"]["trainer"] == {"total": 4.0, "reserved": 4.0}
    running = told["job"]["running"]
    assert (running["submissionId"], running["step"], running["steps"]) == (RUNNING, 20, 60)
    assert running["etaSeconds"] == pytest.approx(20)
    assert told["lastRun"]["verdict"] == "proven"
    assert told["stack"]["namespace"] == "team"


def test_the_screen_holds_the_same_facts(world: World) -> None:
    screen = "\n".join(lines(world.document()))
    for fact in ("i-node-of-ray-worker-a", "p5.48xlarge", "us-east-1a", "ray-worker-bb", "KubeRay says ready"):
        assert fact in screen
    assert "step 20/60, loss 2.5000, 8,192 tokens/s, ETA 20 s" in screen
    assert "2 of 2 workers Ready" in screen
    assert "trainer 4 of 4 reserved" in screen
    assert "transport proven" in screen


@pytest.mark.parametrize(
    ("region", "end", "said"),
    [
        ("us-west-2", "2099-12-01T18:00:00Z", ["110.080 USD an hour at list prices of"]),
        (
            "us-west-2",
            "2026-01-01T18:00:00Z",
            ["nothing an hour", "the reservation's end has passed: it is not counted"],
        ),
        (
            "eu-north-1",
            "2099-12-01T18:00:00Z",
            ["not known", "without 2 x p5.48xlarge, reserved and idle, whose price"],
        ),
    ],
)
def test_while_an_up_runs_the_screen_has_the_price_of_what_is_there_by_then(
    tmp_path: Path, region: str, end: str, said: list[str]
) -> None:
    """The stack's outputs are of the last `up` that ended: without GPU nodes."""
    held = {"instanceType": "p5.48xlarge", "instanceCount": 2.0, "endDate": end}
    resources = [
        custom("pulumi:pulumi:Stack", {"hourlyCostUsd": 0.39, "hourlyCost": {"pricesOf": "2026-01-01", "lacks": []}}),
        custom(RESERVATION, held),
    ]
    stack = KnownStack(resources, platform="eks", **{"aws:region": region})
    screen = "\n".join(lines(document(stack, runs=tmp_path)))
    assert all(line in screen for line in said), screen
    assert "0.39" not in screen


def test_no_secret_is_told(world: World) -> None:
    told = world.document()
    assert told["job"]["running"]["says"] == "data: token *** and ***"
    for text in (json.dumps(told), "\n".join(lines(told))):
        assert TOKEN not in text
        assert PASSWORD not in text
        assert "of-the-user" not in text


def test_a_head_that_hangs_keeps_nothing_else_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked_of_the_head(question: Callable[[], Any], *, limit_s: float) -> Asked[Any]:
        return Asked(question, limit_s=2.0 if limit_s == gather.PART_S else limit_s)

    monkeypatch.setattr(gather, "Asked", asked_of_the_head)
    world.head.hanging = {"/api/version", JOBS}
    told = world.document()
    assert told["ray"] == told["job"] == {"unreachable": "no answer within 2 s"}
    assert len(told["nodes"]) == 2
    assert "Ray         unreachable: no answer within 2 s" in lines(told)


def test_an_api_server_that_is_gone_is_said_in_each_of_its_parts(world: World) -> None:
    world.cluster.refused = dict.fromkeys(("/api/v1/nodes", PODS, RAY_CLUSTER), 500)
    told = world.document()
    assert "list the nodes" in told["nodes"]["unreachable"]
    assert "HTTP 500" in told["pods"]["unreachable"]
    assert "HTTP 500" in told["rayCluster"]["unreachable"]
    assert told["job"]["running"]["step"] == 20


def test_who_may_not_see_nodes_sees_the_rest(world: World) -> None:
    world.cluster.refused = {"/api/v1/nodes": 403, EVENTS: 403}
    told = world.document()
    assert "not permitted" in told["nodes"]["unreachable"]
    assert len(told["pods"]) == 3


def test_a_log_that_the_head_does_not_give_is_read_as_far_as_it_was_followed_here(world: World) -> None:
    world.head.refused = {LOGS: 500}
    folder = world.runs / RUNNING
    folder.mkdir(parents=True)
    (folder / "job.log").write_text(f"{SIZES}\n{step(7, 4096)}\n")
    running = world.document()["job"]["running"]
    assert running["step"] == 7
    assert "answers 500" in running["logUnreachable"]


def test_a_token_that_the_head_does_not_take_is_said_without_it(world: World) -> None:
    world.head.token = "another"
    told = world.document()
    assert "refuses this stack's token" in told["ray"]["unreachable"]
    assert TOKEN not in json.dumps(told)


def test_a_kubeconfig_that_leads_to_another_cluster_is_said_and_shows_nothing_of_it(world: World) -> None:
    world.stack._resources = [
        *world.stack.resources(),
        custom("pulumi-python:dynamic/infra:ClusterGuard", {}) | {"id": "ca-0"},
    ]
    told = world.document()
    assert "leads to another cluster" in told["nodes"]["unreachable"]
    assert PODS not in world.cluster.calls


def test_a_stack_that_was_never_up_says_how_to_bring_it_up() -> None:
    told = document(KnownStack([]))
    assert (told["ray"], told["job"], told["rayCluster"]) == (None, None, None)
    screen = "\n".join(lines(told))
    assert "nothing of it is up; `efactl up -s local` brings it up" in screen
    assert "unreachable" not in screen


def test_a_state_that_cannot_be_read_is_said_once_and_in_each_part_of_the_document() -> None:
    class Unread(KnownStack):
        def resources(self) -> list[Mapping[str, Any]]:
            raise ReportedError("no stack named 'local' found")

    told = document(Unread([]))
    assert all("no stack named" in told[part]["unreachable"] for part in ("nodes", "ray", "job", "cost"))
    assert "\n".join(lines(told)).count("no stack named") == 1


def test_a_local_cluster_that_is_gone_is_told_part_by_part(tmp_path: Path) -> None:
    told = document(KnownStack([local_cluster(directory=str(tmp_path))]), runs=tmp_path)
    assert told["nodes"] == []
    assert told["pods"] is None
    assert "no cluster was started" in told["rayCluster"]["problem"]
    assert "no Ray head answers at http://127.0.0.1:9" in told["ray"]["unreachable"]
    assert told["cost"]["upSince"] == "2026-11-29T18:00:00+00:00"


def test_what_a_job_says_never_reaches_the_terminal_as_anything_but_text(world: World) -> None:
    world.head.answers[LOGS] = {"logs": "[train] \x1b]0;title\x07 evil"}
    screen = "\n".join(lines(world.document()))
    assert "\x1b" not in screen
    assert "\x07" not in screen
