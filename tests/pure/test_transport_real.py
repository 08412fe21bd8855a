"""The verdict of a run on what real NCCL wrote: 2.28.9 between two H200s that have a host name each, FSDP over sockets.

The lines came through training/nccl_lines.py; only Ray's prefix was put before them.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from workload.nccl.log import read
from workload.nccl.rule import judge_report
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Wanted

CORPUS = Path(__file__).parents[1] / "corpus" / "marked"
RANKS: list[dict[str, Any]] = json.loads((CORPUS / "real-socket.json").read_text())
LOG = CORPUS / "real-socket.log"


def evidence(log: Path = LOG) -> dict[str, Any]:
    return collect({"world_size": 2, "attempts": [{"attempt": 1, "ranks": RANKS}]}, log)


def test_sockets_between_two_hosts_are_proven_to_be_sockets() -> None:
    transport = evidence()
    verdict = judge(transport, Wanted(expect="socket"))
    assert verdict.value == "proven", verdict.reasons
    assert "delivery: all 103 lines that NCCL wrote on 2 ranks are in the log" in verdict.reasons
    assert transport["matrix"] == [
        {"from": "node-a", "to": "node-b", "via": {"NET/Socket": 2}},
        {"from": "node-b", "to": "node-a", "via": {"NET/Socket": 2}},
    ]


def test_the_same_run_is_refuted_where_efa_was_expected() -> None:
    verdict = judge(evidence(), Wanted(expect="efa"))
    assert verdict.value == "refuted"
    assert any("rank 1 on node-b -> rank 0 on node-a via NET/Socket/0" in reason for reason in verdict.reasons)
    assert any("chose Socket" in reason and "real-socket.log:25" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("number", range(0, 103, 6))
def test_any_line_less_leaves_it_unproven(tmp_path: Path, number: int) -> None:
    lines = LOG.read_text().splitlines()
    marked = [index for index, line in enumerate(lines) if "[nccl rank" in line]
    del lines[marked[number]]
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines) + "\n")
    verdict = judge(evidence(log), Wanted(expect="socket"))
    assert verdict.value == "unproven"
    assert any("handed back" in reason for reason in verdict.reasons)


def test_a_network_that_was_forced_and_is_not_there_is_said_and_proves_nothing() -> None:
    """NCCL_NET=Libfabric without the plugin: NCCL fails, and its lines up to the failure are in the log."""
    report = read([("job.log", [(CORPUS / "real-no-plugin.log").read_bytes()])])
    assert [one.text for one in report.warnings] == ["Failed to initialize any NET plugin"]
    verdict = judge_report(report, Wanted(expect="efa"))
    assert verdict.value == "unproven"
    assert any(reason.startswith("communicator: none") for reason in verdict.reasons)
