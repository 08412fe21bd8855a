"""Which settings of Pulumi.yaml separate two runs: each is placed here on purpose, and a new one fails until it is."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.recorded import NEW, kept, read
from tools.setup import pins
from workload.recorded_run import RecordedRun
from workload.run_diff import alike, compared

DECLARED = yaml.safe_load((pins.PROJECT / "Pulumi.yaml").read_text())["config"]
# What decides what runs, on what, or how fast: each value of these may move a run's figures.
MOVES = frozenset(
    {
        *("platform", "storagePath", "localWorkerNodes", "localTrainersPerNode", "localObjectStoreMiB"),
        *("trainModelId", "trainDataset", "trainValidationDataset", "trainValidationShare", "trainDatasetFormat"),
        *("trainTextField", "trainAttention", "trainSteps", "trainSeqLen", "trainBatchSize", "trainAccumulate"),
        *("trainLr", "trainWarmUpSteps", "trainLrFloor", "trainWeightDecay", "trainDecayEmbeddings"),
        *("trainMaxGradientNorm", "trainSeed", "trainPrecision", "trainSharding", "trainActivationCheckpointing"),
        *("trainKeepGathered", "trainCompile", "trainCudaGraph", "trainEvalEvery", "trainEvalBatches"),
        *("trainCheckpointEvery", "trainCheckpointMode", "trainKeepCheckpoints", "trainResumeFrom", "trainExportTo"),
        *("trainExportDtype", "trainProfileSteps", "trainNumWorkers", "trainKillAtStep", "trainBackend"),
        *("jobPip", "jobEnv", "jobSecretEnv", "kubeContext", "kubeClusterId", "kubeNamespace"),
        # Device plugins that are there may share devices out otherwise; DCGM reads counters where the ranks run.
        *("addonNvidiaPlugin", "addonEfaPlugin", "addonKubeRay", "addonMetrics"),
        *("gpuInstanceType", "gpuEfa", "gpuNodes", "gpuZone", "gpuNodeSelector", "gpuMarket", "gpuPlacementGroup"),
        *("gpuExistingGroup", "gpuSecurityGroups", "gpuDiskGiB", "gpuDiskThroughput", "gpuDiskIops", "gpuAmiRelease"),
        *("rayImage", "rayVersion", "rayHeadCpu", "rayHeadMemory", "rayWorkerCpu", "rayWorkerMemory", "rayShmSize"),
        *("rayTmpSize", "rayTrainersPerNode", "rayEnv", "storageClaim", "storageClass", "storageSize"),
        *("eksName", "eksVersion", "eksExistingCluster", "eksStorage", "fsxGiB", "fsxThroughput", "capacity"),
        *("systemInstanceType", "systemNodes", "systemDiskGiB"),
        *("vpcZones", "vpcNat", "vpcEndpoints", "vpcId", "vpcPrivateSubnets"),
    }
)
# What stands around a run.
ASIDE = frozenset(
    {
        *("train", "expect", "recordsPath", "jobRunId", "jobDeadlineSeconds", "trainMaxFailures", "hfToken"),
        *("gateMaxEvalLoss", "preflightBandwidth", "preflightSizes", "preflightMinBusBandwidth"),
        *("compareRepeats", "compareSteps", "compareArms", "compareMinSpeedup"),
        *("tags", "maxHourlyUsd", "capacityUntil", "ttlUntil", "gpuScaleToZeroAfterJob", "gpuFallbackZones"),
        *("eksAdmins", "eksEndpointCidrs", "eksLogs", "eksSecretsKey", "eksEbsCsi", "vpcCidr"),
        *("kubeconfig", "kubeNamespaceMode", "kubeReadySeconds", "kubeUnschedulableSeconds", "localDashboardPort"),
        *("storageExpireDays", "storageKeep", "rayPullSecret", "rayPrePull", "addonImageMirror"),
        *("addonNvidiaPluginRepository", "addonEfaPluginRepository", "addonKubeRayRepository"),
        *("addonPrometheusRepository", "addonDcgmRepository", "addonPrometheusHost", "addonGrafanaHost"),
        *("addonMetricsNamespace", "addonMetricsLabels"),
    }
)


def with_settings(run: RecordedRun, **settings: Any) -> RecordedRun:
    record = json.loads(json.dumps(run.record))
    record["settings"] |= settings
    return RecordedRun(id=run.id, place=run.place, record=record)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RecordedRun:
    return read(kept(tmp_path_factory.mktemp("settings") / "runs", "aaaa-1"))


def test_every_setting_is_placed() -> None:
    assert not MOVES & ASIDE
    assert set(DECLARED) ^ (MOVES | ASIDE) == set(), "does it move a run's figures? workload/run_diff.py goes by it"


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_a_setting_separates_two_runs_if_it_can_move_one(name: str, first: RecordedRun) -> None:
    a, b = (with_settings(first, **{name: value}) for value in ("one", "two"))
    assert bool(compared(a, b).causes) == (name in MOVES)
    assert alike(a, b) == (name in ASIDE)


def test_an_end_that_is_set_anew_for_every_run_does_not_hide_what_an_image_did(tmp_path: Path) -> None:
    """As `efactl up --ttl 4h` sets it."""
    a = kept(tmp_path / "runs", "old-1", settings={"ttlUntil": "2026-12-01T18:00:00Z"})
    b = kept(tmp_path / "runs", "new-1", digest=NEW, settings={"ttlUntil": "2026-12-02T18:00:00Z"})
    diff = compared(read(a), read(b))
    assert diff.conclusion.startswith("one kind of change separates the runs: image (image.digest)")
