"""Which runs have had their judgement and are not collected again."""

from pathlib import Path

import pytest

from workload.errors import ReportedError
from workload.run_folder import create, is_settled, meant, settle


@pytest.mark.parametrize(
    ("record", "settled"),
    [
        (None, False),
        ("", False),
        ('{"quality": {"pas', False),
        ('{"quality": {"passed": null}}', False),
        ('{"quality": {"passed": true}}', True),
        ('{"quality": {"passed": false}}', True),
    ],
)
def test_a_record_counts_once_a_gate_has_judged_it(tmp_path: Path, record: str | None, settled: bool) -> None:
    if record is not None:
        (tmp_path / "record.json").write_text(record)
    assert is_settled(tmp_path) is settled


def test_a_run_with_an_error_is_settled(tmp_path: Path) -> None:
    settle(tmp_path, "job x ended as FAILED")
    assert is_settled(tmp_path)
    assert (tmp_path / "error.txt").read_text() == "job x ended as FAILED\n"


def test_a_place_for_runs_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ReportedError, match="runs for the runs' logs and records cannot be made"):
        create(tmp_path / "runs")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("aa1", ["ray-train-fsdp-llm-aa1"]),
        ("aa", ["ray-train-fsdp-llm-aa1", "ray-train-fsdp-llm-aa12"]),
        ("ray-train-fsdp-llm-aa1", ["ray-train-fsdp-llm-aa1"]),
        ("ray-train-b", ["ray-train-bandwidth-c1"]),
        ("c", ["copied", "ray-train-bandwidth-c1"]),
        ("", []),
        ("x", []),
    ],
)
def test_a_run_is_meant_by_its_id_or_by_the_beginning_of_it(asked: str, found: list[str]) -> None:
    ids = ["ray-train-fsdp-llm-aa12", "ray-train-fsdp-llm-aa1", "ray-train-bandwidth-c1", "copied"]
    assert meant(asked, ids) == found
