"""GPU nodes given back while their run's result stays: what is declared then, and what the next run needs."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pytest

from infra import last_run
from infra.eks_ray import EksRay, EksRayArgs
from infra.ray_head import RayHead
from infra.settings import Settings, load_settings
from infra.zones import choose_zones
from tests.mocks.recording import Recording, run
from tests.mocks.test_eks_ray import ANSWERS, INSIDE, facts
from tests.pure.test_eks_settings import ROOT, load

UNTIL = "2026-12-01T18:00:00Z"


@pytest.fixture(autouse=True)
def empty_config(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(ROOT)
    yield
    pulumi.runtime.set_all_config({}, [])


def declared(*, released: bool, **changes: Any) -> tuple[Recording, RayHead]:
    settings = load(ttlUntil=UNTIL, **changes)
    seen = facts(settings)
    zones = choose_zones(seen.zones, gpu_zone=settings.gpu.zone, gpu_type=settings.gpu.instance.name, given=())
    heads: list[RayHead | None] = []

    def program() -> None:
        args = EksRayArgs(
            settings=settings.without_gpu_nodes() if released else settings,
            facts=seen,
            zones=zones,
            subnets=None,
            reserve=not released,
            ended=False,
            targets=not released,
            existing=None,
            kept_nodes=settings.gpu.nodes if released else 0,
        )
        heads.append(EksRay("ray", args).head)

    recording = run(program, ANSWERS, inside=INSIDE)
    assert heads[0] is not None, "the run stays"
    return recording, heads[0]


def test_nodes_and_reservation_go_and_the_run_is_the_same_run() -> None:
    (before, ran_on), (after, kept) = declared(released=False), declared(released=True)
    assert before.of_type("aws:ec2/capacityReservation:CapacityReservation")
    assert not after.of_type("aws:ec2/capacityReservation:CapacityReservation")
    sizes = [
        group.inputs["scalingConfig"] for group in after.of_type("aws:eks/nodeGroup:NodeGroup") if "gpu" in group.name
    ]
    assert sizes == [{"desiredSize": 0, "minSize": 0, "maxSize": 1}]
    # Of the head a job's reruns are decided by this alone.
    assert kept.spec_digest == ran_on.spec_digest
    plain = [field.name for field in dataclasses.fields(RayHead) if field.name not in ("token", "kubeconfig")]
    assert {name: getattr(kept, name) for name in plain} == {name: getattr(ran_on, name) for name in plain}


def test_no_worker_is_wanted_and_none_is_waited_for_until_a_run_is_due() -> None:
    after, _ = declared(released=True)
    [cluster] = after.of_type("kubernetes:ray.io/v1:RayCluster")
    assert cluster.inputs["spec"]["workerGroupSpecs"][0]["replicas"] == 0
    for token in ("RayClusterReady", "GpuNodesReady"):
        assert not after.of_type(f"pulumi-python:dynamic/infra:{token}"), "the next run asks them anew"


def test_what_ended_the_nodes_stays_as_it_was() -> None:
    schedules = [
        declared(released=released)[0].one("aws:scheduler/schedule:Schedule").inputs for released in (False, True)
    ]
    assert schedules[0] == schedules[1]


def settings_with(**changes: Any) -> Settings:
    load(**changes)
    return load_settings(ROOT / "Pulumi.yaml")


def due(**changes: Any) -> str:
    settings = settings_with(**changes)
    assert settings.eks is not None
    return last_run.key_of(settings, settings.eks)


def test_a_run_is_known_by_what_makes_it_run_anew_and_by_nothing_else() -> None:
    same = due()
    for changes in (
        {"gpuScaleToZeroAfterJob": True, "ttlUntil": UNTIL, "maxHourlyUsd": "20"},
        {"jobDeadlineSeconds": 77, "gateMaxEvalLoss": "3"},
        {"gpuZone": "us-west-2a", "capacity": "none", "eksLogs": ["api"], "kubeReadySeconds": 77},
        {"compareSteps": 99},
    ):
        assert due(**changes) == same, changes
    others = [
        due(**changes)
        for changes in (
            {"trainSteps": 21},
            {"jobRunId": "again"},
            {"gpuNodes": 3},
            {"gpuInstanceType": "g6.24xlarge"},
            {"rayImage": "registry.example/ray:2"},
            {"jobEnv": {"A": "b"}},
            {"jobPip": ["einops==0.8.0"]},
            {"preflightBandwidth": True},
            {"compareRepeats": 3},
            {"compareRepeats": 3, "compareSteps": 99},
        )
    ]
    assert len({same, *others}) == len(others) + 1


def test_the_key_has_what_the_jobs_own_rule_has() -> None:
    """What `RayTrainJob` compares, `key_of` digests: an input added to one and not to the other would be seen here."""
    from workload.job_spec import JobSpec
    from workload.ray_train_job import IDENTITY

    fields = {field.name for field in dataclasses.fields(JobSpec)} - {"secret_env"} | {"secret_env_names"}
    assert fields == set(IDENTITY)


def test_what_was_done_is_read_from_the_stacks_own_outputs() -> None:
    asked: list[Mapping[str, Any]] = []

    def answer(args: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(args)
        return {"outputs": {"runDone": "abc"}} if len(asked) == 1 else {"outputs": {}}

    found: list[str] = []
    for _ in range(2):
        run(lambda: found.append(last_run.done()), calls={"pulumi:pulumi:readStackOutputs": answer})
    assert found == ["abc", ""]
    assert str(asked[0]["name"]).endswith("/ray-train-efa/test")
