"""The dynamic providers' own decisions: what is a change, and what a failed gate says."""

from pathlib import Path
from typing import Any

import pytest

from tests.pure.test_transport import transport
from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.errors import ReportedError
from workload.ray_train_job import IDENTITY, OUTPUTS, RayTrainJobProvider
from workload.run_gate import RunGateProvider
from workload.verdict import RULES


def job_inputs(**changes: Any) -> dict[str, Any]:
    return {
        "head": {"address": "http://127.0.0.1:1", "token": "one"},
        "training_digest": "a" * 64,
        "arguments": {"steps": 4, "lr": 0.003},
        "pip": [],
        "pip_digests": {},
        "env": {},
        "secret_env": {"HF_TOKEN": "one"},
        "secret_env_names": ["HF_TOKEN"],
        "image": "image:1",
        "cluster_spec_digest": "c",
        "run_id": "",
        "storage": "runs",
        "deadline_seconds": 60,
        "expect": "gloo",
        "nics": None,
        "gdr": False,
        "settings": {"expect": "gloo"},
        **changes,
    }


def in_state(inputs: dict[str, Any]) -> dict[str, Any]:
    """As the engine hands outputs back: whole numbers as floats, computed values beside the inputs."""
    stored = {**inputs, "arguments": {"steps": 4.0, "lr": 0.003}, "deadline_seconds": 60.0}
    return {**stored, **dict.fromkeys(OUTPUTS, "computed")}


@pytest.mark.parametrize(
    "change",
    [
        {"head": {"address": "http://127.0.0.1:2", "token": "two"}},
        {"secret_env": {"HF_TOKEN": "two"}},
        {"expect": "efa", "settings": {"expect": "efa"}},
        {"nics": 4, "gdr": True},
        {"deadline_seconds": 90},
        {"storage": "/elsewhere"},
        {},
    ],
)
def test_what_a_run_does_not_depend_on_is_no_change(change: dict[str, Any]) -> None:
    result = RayTrainJobProvider().diff("id", in_state(job_inputs()), job_inputs(**change))
    assert result.changes is False
    assert not result.replaces


@pytest.mark.parametrize("key", IDENTITY)
def test_each_deciding_input_replaces_the_run(key: str) -> None:
    result = RayTrainJobProvider().diff("id", in_state(job_inputs()), job_inputs(**{key: "other"}))
    assert result.changes is True
    assert result.replaces == [key]


def gate_inputs(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    return {
        "submission_id": "run-1",
        "record": str(tmp_path / "record.json"),
        "transport": transport(),
        "eval_loss_after": 2.0,
        "expect": "gloo",
        "nics": None,
        "gdr": False,
        "rules": RULES,
        "max_eval_loss": None,
        **changes,
    }


def test_a_proven_run_passes(tmp_path: Path) -> None:
    result = RunGateProvider().create(gate_inputs(tmp_path))
    assert result.outs is not None
    assert result.outs["verdict"] == "proven"


def test_a_refuted_run_fails_on_create_and_on_a_changed_expectation(tmp_path: Path) -> None:
    with pytest.raises(ReportedError, match="transport refuted: expected efa, run run-1"):
        RunGateProvider().create(gate_inputs(tmp_path, expect="efa"))
    with pytest.raises(ReportedError, match="transport refuted"):
        RunGateProvider().update("gate", gate_inputs(tmp_path), gate_inputs(tmp_path, expect="efa"))


def test_a_gate_asks_for_the_interfaces_and_the_gpudirect_of_the_instance_type(tmp_path: Path) -> None:
    over_efa = MarkedRun(run=Run(nics=4)).collected(tmp_path)
    gate = gate_inputs(tmp_path, transport=over_efa, expect="efa", nics=4.0)
    assert (RunGateProvider().create(gate).outs or {})["verdict"] == "proven"
    with pytest.raises(ReportedError, match="found 4 interfaces, wanted 32"):
        RunGateProvider().create({**gate, "nics": 32.0})
    with pytest.raises(ReportedError, match="without GPUDirect RDMA"):
        RunGateProvider().create({**gate, "gdr": True})


def test_a_state_from_before_interfaces_and_nccl_lines_is_judged_again(tmp_path: Path) -> None:
    old = {key: value for key, value in gate_inputs(tmp_path, rules=1.0).items() if key not in ("nics", "gdr")}
    assert RunGateProvider().diff("gate", old, gate_inputs(tmp_path)).changes is True
    result = RunGateProvider().update("gate", old, gate_inputs(tmp_path))
    assert (result.outs or {})["verdict"] == "proven"


def test_a_model_that_is_not_good_enough_fails_although_the_transport_is_proven(tmp_path: Path) -> None:
    with pytest.raises(ReportedError, match=r"held-out loss 2\.0000 is above gateMaxEvalLoss 1\.5"):
        RunGateProvider().create(gate_inputs(tmp_path, max_eval_loss=1.5))


def test_an_unchanged_gate_is_no_change(tmp_path: Path) -> None:
    stored = {**gate_inputs(tmp_path), "verdict": "proven"}
    assert RunGateProvider().diff("gate", stored, gate_inputs(tmp_path)).changes is False
    assert RunGateProvider().diff("gate", stored, gate_inputs(tmp_path, expect="efa")).changes is True
    assert RunGateProvider().diff("gate", stored, gate_inputs(tmp_path, nics=4)).changes is True
    assert RunGateProvider().diff("gate", stored, gate_inputs(tmp_path, gdr=True)).changes is True
    assert RunGateProvider().diff("gate", stored, gate_inputs(tmp_path, submission_id="run-2")).changes is True
