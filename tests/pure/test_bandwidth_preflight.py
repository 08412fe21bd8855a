"""The preflight's own decisions: what is measured anew, what is judged anew, and what a failure says and keeps."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pure.test_transport import transport
from workload import bandwidth
from workload.bandwidth import BandwidthOutcome
from workload.bandwidth_preflight import DECIDING, IDENTITY, BandwidthPreflightProvider
from workload.errors import ReportedError
from workload.job_following import JobRequest
from workload.run_folder import is_settled
from workload.verdict import RULES


def inputs(**changes: Any) -> dict[str, Any]:
    return {
        "head": {
            "kind": "local",
            "namespace": "",
            "cluster_name": "local",
            "ray_version": "2.58.0",
            "spec_digest": "c",
            "nodes": 2.0,
            "accelerators_per_node": 2.0,
            "worker_resource": "trainer",
            "address": "http://127.0.0.1:1",
        },
        "sizes": ["1M", "8M"],
        "min_busbw_gbs": None,
        "expect": "gloo",
        "nics": None,
        "gdr": False,
        "rules": RULES,
        "backend": "auto",
        "num_workers": 0,
        "pip": [],
        "pip_digests": {},
        "env": {"A": "1"},
        "secret_env": {"HF_TOKEN": "one"},
        "secret_env_names": ["HF_TOKEN"],
        "image": "image:1",
        "cluster_spec_digest": "c",
        "run_id": "",
        "storage": "runs",
        "deadline_seconds": 60,
        **changes,
    }


def row(size: int, busbw_gbs: float, wrong: int = 0) -> dict[str, Any]:
    return {"bytes": size, "count": size // 4, "busbw_gbs": busbw_gbs, "wrong": wrong}


class Measured:
    """In place of a job: counts the measurements, and hands out what it was made with."""

    def __init__(self, folder: Path, *, wrong: int = 0) -> None:
        self.requests: list[JobRequest] = []
        self.folder = folder / "runs" / "bandwidth-1"
        self.rows = [row(1 << 20, 9.0), row(8 << 20, 4.0, wrong)]

    def __call__(self, request: JobRequest, **options: Any) -> BandwidthOutcome:
        self.requests.append(request)
        self.sizes = options["sizes"]
        self.folder.mkdir(parents=True, exist_ok=True)
        record = self.folder / "record.json"
        record.write_text(json.dumps({"verdict": {}, "quality": {"passed": None, "reasons": []}, "rows": self.rows}))
        return BandwidthOutcome(
            submission_id="bandwidth-1",
            world_size=4,
            rows=self.rows,
            ranks=[],
            transport=transport(),
            versions={},
            log=self.folder / "job.log",
            record=record,
        )

    def record(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "record.json").read_text())
        return content


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measured:
    stand_in = Measured(tmp_path)
    monkeypatch.setattr(bandwidth, "measure", stand_in)
    return stand_in


def created(**changes: Any) -> dict[str, Any]:
    outs = BandwidthPreflightProvider().create(inputs(**changes)).outs
    assert outs is not None
    return outs


def refused(**changes: Any) -> str:
    with pytest.raises(ReportedError) as refusal:
        created(**changes)
    return str(refusal.value)


def test_a_measurement_as_wanted_is_stored_with_its_rows_and_evidence(measured: Measured) -> None:
    outs = created(min_busbw_gbs=3.5, backend="gloo", num_workers=4)
    assert (outs["verdict"], outs["busbw_gbs"], outs["submission_id"]) == ("proven", 4.0, "bandwidth-1")
    assert outs["rows"] == measured.rows and outs["transport"] == transport()
    (request,) = measured.requests
    assert request.spec.arguments == {"backend": "gloo", "num_workers": 4}
    assert measured.sizes == ["1M", "8M"]
    assert (measured.record()["verdict"]["value"], measured.record()["quality"]["passed"]) == ("proven", True)


def test_another_transport_than_expected_fails_with_its_verdict_and_the_log(measured: Measured) -> None:
    told = refused(expect="efa")
    assert "the job is not started: run bandwidth-1\ntransport refuted: expected efa\n" in told
    assert told.endswith(f"full log: {measured.folder / 'job.log'}")
    assert measured.record()["verdict"]["value"] == "refuted"


def test_a_bandwidth_below_the_least_fails_with_both_values(measured: Measured) -> None:
    told = refused(min_busbw_gbs=5)
    assert "bus bandwidth 4 GB/s at 8 MiB is below preflightMinBusBandwidth 5" in told
    assert "transport" not in told
    assert measured.record()["quality"]["passed"] is False


def test_a_wrong_sum_fails_at_any_bandwidth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "measure", Measured(tmp_path, wrong=3))
    assert "3 elements of the sums of 8 MiB are wrong" in refused()


@pytest.mark.parametrize("least", [None, 5])
def test_a_record_is_copied_with_its_judgement_and_a_copy_that_failed_is_made_up_for(
    least: float | None, measured: Measured, tmp_path: Path
) -> None:
    records = {"path": str(tmp_path / "team")}
    if least is not None:
        refused(min_busbw_gbs=least, records=records)
    else:
        state = created(records=records)
        assert not BandwidthPreflightProvider().diff("id", state, inputs(records=records)).changes
        state = created(records={"path": "/dev/null/team"})
        diff = BandwidthPreflightProvider().diff("id", state, inputs(records=records))
        assert diff.changes and not diff.replaces, "copied, and not measured"
        state = dict(BandwidthPreflightProvider().update("id", state, inputs(records=records)).outs or {})
        assert state["copy"] == str(tmp_path / "team" / "bandwidth-1")
    copy = json.loads((tmp_path / "team" / "bandwidth-1" / "record.json").read_text())
    assert copy["quality"]["passed"] is (least is None)


def test_a_measurement_that_failed_is_not_collected_again(measured: Measured) -> None:
    refused(min_busbw_gbs=5)
    assert is_settled(measured.folder)


@pytest.mark.parametrize("key", IDENTITY)
def test_each_input_of_the_measurement_measures_anew(measured: Measured, key: str) -> None:
    result = BandwidthPreflightProvider().diff("id", created(), inputs(**{key: "other"}))
    assert (result.changes, result.replaces) == (True, [key])


@pytest.mark.parametrize("key", DECIDING)
def test_each_demand_is_judged_anew_without_a_measurement(measured: Measured, key: str) -> None:
    result = BandwidthPreflightProvider().diff("id", created(), inputs(**{key: 7}))
    assert result.changes is True
    assert not result.replaces


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"head": {"address": "http://127.0.0.1:2", "token": "two"}},
        {"secret_env": {"HF_TOKEN": "two"}},
        {"deadline_seconds": 90},
        {"storage": "/elsewhere"},
        {"placement": [{"name": "pod-1"}]},
    ],
)
def test_what_a_measurement_does_not_depend_on_is_no_change(measured: Measured, change: dict[str, Any]) -> None:
    stored = {**created(), "sizes": ["1M", "8M"], "num_workers": 0.0, "rules": float(RULES)}
    stored.pop("nics")  # the engine keeps no None
    result = BandwidthPreflightProvider().diff("id", stored, inputs(**change))
    assert result.changes is False


def test_a_changed_demand_is_judged_by_what_was_measured(measured: Measured) -> None:
    stored = created()
    provider = BandwidthPreflightProvider()
    outs = provider.update("id", stored, inputs(min_busbw_gbs=3)).outs
    assert outs is not None
    assert (outs["min_busbw_gbs"], outs["busbw_gbs"], outs["verdict"]) == (3, 4.0, "proven")
    with pytest.raises(ReportedError, match="was measured before; a new `jobRunId` measures anew"):
        provider.update("id", stored, inputs(min_busbw_gbs=5))
    assert len(measured.requests) == 1


def test_going_back_after_a_failed_judgement_judges_again(measured: Measured) -> None:
    """The engine keeps the old inputs of a failed update, to which the new ones are then equal."""
    stored = created()
    provider = BandwidthPreflightProvider()
    with pytest.raises(ReportedError):
        provider.update("id", stored, inputs(min_busbw_gbs=5))
    assert provider.diff("id", stored, inputs()).changes is True
    provider.update("id", stored, inputs())
    assert provider.diff("id", stored, inputs()).changes is False
