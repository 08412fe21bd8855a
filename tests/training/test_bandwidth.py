"""What the bandwidth job refuses, what fits into memory, and what its record says of a run that got nowhere."""

import json
from pathlib import Path

import pytest

from tests.training.arguments import arguments
from training.bandwidth import sizes_within
from training.bandwidth_config import BandwidthConfig, parse_arguments
from training.bandwidth_job import BANDWIDTH
from training.driver import EXIT_BAD_ARGUMENT, EXIT_FAILED, main
from training.errors import TrainingError
from training.free_memory import free_of_host
from training.record import MARK

MIB = 1 << 20


def config(**changes: object) -> BandwidthConfig:
    return parse_arguments(arguments(**changes))


@pytest.mark.parametrize(
    ("name", "value"),
    [("sizes", "64X"), ("sizes", "6"), ("iterations", 0), ("warm_up", -1), ("run_id", "../other"), ("deadline_s", 0)],
)
def test_a_value_out_of_range_is_refused_by_the_argument_s_name_and_the_value(name: str, value: object) -> None:
    with pytest.raises(TrainingError) as refusal:
        config(**{name: value})
    assert f"--{name} {value}" in str(refusal.value).replace(".0:", ":")


def test_training_s_own_arguments_are_not_the_measurement_s() -> None:
    with pytest.raises(TrainingError, match="--steps"):
        config(steps=3)


def test_a_refusal_is_one_error_line_and_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(BANDWIDTH, arguments(sizes=["1M", "many"])) == EXIT_BAD_ARGUMENT
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[error] --sizes 1M many: must be sizes such as 64M or 1G, multiples of 4 bytes"
    record = json.loads(lines[-1].removeprefix(MARK))
    assert (record["schema"], record["status"], record["rows"]) == ("ray-train-efa/bandwidth-record/1", "failed", [])


def test_storage_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(BANDWIDTH, arguments(storage_path=tmp_path / "file" / "runs")) == EXIT_FAILED
    assert "cannot be written: " in capsys.readouterr().out


def test_default_sizes_are_the_backend_s_and_those_that_do_not_fit_are_left_out() -> None:
    on_cpu = config(worker_resource="trainer")
    assert sizes_within(8 << 30, on_cpu) == ([MIB, 8 * MIB, 64 * MIB], [])
    assert sizes_within(200 * MIB, on_cpu) == ([MIB, 8 * MIB], ["64M"])
    assert sizes_within(80 << 30, config(worker_resource="GPU")) == ([256 * MIB, 1024 * MIB], [])


def test_a_size_that_was_asked_for_and_does_not_fit_is_refused_with_both_numbers() -> None:
    with pytest.raises(TrainingError, match=r"--sizes 1G: each rank needs 2176 MiB of memory for it, and has 1024 MiB"):
        sizes_within(1 << 30, config(worker_resource="trainer", sizes=["1M", "1G"]))
    with pytest.raises(TrainingError, match=r"--sizes 1M: "):
        sizes_within(1 * MIB, config(worker_resource="trainer"))


def test_the_memory_of_a_container_ends_at_its_limit_and_its_page_cache_is_free(tmp_path: Path) -> None:
    meminfo = "MemTotal:       64000000 kB\nMemAvailable:   32000000 kB\n"
    assert free_of_host(meminfo, tmp_path) == 32_000_000 * 1024, "no cgroup v2"
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 1000\ninactive_file 500\nactive_file 200\nfile 900\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert free_of_host(meminfo, tmp_path) == 32_000_000 * 1024
    (tmp_path / "memory.max").write_text("4000\n")
    assert free_of_host(meminfo, tmp_path) == 4000 - 3000 + 700
