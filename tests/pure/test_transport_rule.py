"""The rule beside the corpus: what it refuses, and how it says much."""

import pytest

from tests.support.nccl_run import Run
from workload.nccl import log as nccl_log
from workload.nccl.report import Place, TransportReport
from workload.nccl.rule import judge_report
from workload.verdict import Wanted


def report(run: Run) -> TransportReport:
    return nccl_log.read([("job.log", ["\n".join(run.text()) + "\n"])])


def test_an_unknown_expectation_is_refused() -> None:
    with pytest.raises(ValueError, match="'infiniband' is none of efa, socket, gloo"):
        judge_report(report(Run()), Wanted(expect="infiniband"))


def test_of_many_reasons_of_a_rule_the_first_are_told_and_the_rest_counted() -> None:
    verdict = judge_report(report(Run(gpus=16, network="missing")), Wanted(expect="efa"))
    chosen = [reason for reason in verdict.reasons if reason.startswith("network: rank")]
    assert len(chosen) == 12
    assert verdict.reasons[-1] == "network: and 20 more"


def test_a_reason_names_rule_rank_host_pid_and_place() -> None:
    lines = Run(network="missing", gpus=1).text()
    number = next(i for i, line in enumerate(lines, 1) if line.endswith("Using network Socket") and "node-b" in line)
    verdict = judge_report(report(Run(network="missing", gpus=1)), Wanted(expect="efa"))
    assert (
        "network: rank 1 on node-b (pid 71) chose Socket for communicator 0xfc6023afed4eb833, expected efa "
        f"(job.log:{number})"
    ) in verdict.reasons


def test_only_proven_passes_and_lost_lines_are_told_where_the_first_is() -> None:
    log = nccl_log.NcclLog()
    lines = Run().text()
    log.read("a.log", ["\n".join([*lines, "node-a:70:70 [0] NCCL INFO Using netw", *lines[:1]]) + "\n"])
    verdict = judge_report(log.report(), Wanted(expect="efa"))
    assert not verdict.passes
    assert verdict.reasons == (
        f"input: 1 pieces of NCCL's lines whose rest was not found (first at a.log:{len(lines) + 1})",
    )


def test_the_facts_of_a_run_are_in_the_report() -> None:
    run = Run(nccl=(2, 26), ofi=(1, 16), fabric="efa-direct", nics=4, gdr="(1)/GDRDMA(PCI)/Shared")
    attempt = report(run).attempts[0]
    process = attempt.processes[3]
    assert (process.host, process.pid, process.nccl, process.ofi) == ("node-b", 73, "2.26.3+cuda12.4", "1.16.0")
    assert process.plugins == ("Libfabric",)
    assert [(one.name, one.fabric, one.nics) for one in process.providers] == [("efa", "efa-direct", 4)]
    assert process.first == Place("job.log", 4)
    communicator = attempt.communicators[0]
    assert (communicator.id, communicator.ranks, communicator.hosts) == (run.comm_id, 4, ("node-a", "node-b"))
    assert (communicator.complete, communicator.one_host, communicator.nodes) == (True, False, (2,))
    across = [edge for edge in attempt.edges if edge.between_hosts]
    assert len(across) == 8
    assert {(edge.kind, edge.network, edge.device, edge.proxy_rank, edge.gdr) for edge in across} == {
        ("NET", "Libfabric", 0, 1, True)
    }
