"""The rule beside the corpus: what it refuses, and how it says much."""

from itertools import zip_longest

import pytest

from tests.pure.test_transport_corpus import CORPUS
from tests.support.nccl_run import Run
from workload.nccl import log as nccl_log
from workload.nccl.report import Place, TransportReport
from workload.nccl.rule import judge_report
from workload.verdict import Verdict, Wanted


def report(run: Run) -> TransportReport:
    return read(run.text())


def read(lines: list[str]) -> TransportReport:
    return nccl_log.read([("job.log", ["\n".join(lines) + "\n"])])


def judged(lines: list[str], hosts: int | None = None, ranks: int | None = None, nics: int | None = None) -> Verdict:
    return judge_report(read(lines), Wanted(expect="efa", hosts=hosts, ranks=ranks, nics=nics))


def place_of(lines: list[str], *words: str) -> str:
    return f"(job.log:{next(i for i, line in enumerate(lines, 1) if all(word in line for word in words))})"


def test_an_unknown_expectation_is_refused() -> None:
    with pytest.raises(ValueError, match="'infiniband' is none of efa, socket, gloo"):
        judge_report(report(Run()), Wanted(expect="infiniband"))


def test_of_many_reasons_of_a_rule_the_first_are_told_and_the_rest_counted() -> None:
    verdict = judge_report(report(Run(gpus=16, network="missing")), Wanted(expect="efa"))
    chosen = [reason for reason in verdict.reasons if reason.startswith("network: rank")]
    assert len(chosen) == 12
    assert verdict.reasons[-1] == "network: and 20 more"
    few = judge_report(report(Run(gpus=6, network="missing")), Wanted(expect="efa"))
    assert len([reason for reason in few.reasons if reason.startswith("network: ")]) == 12, "none is left to count"


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


def test_what_is_missing_is_told_with_the_line_nearest_to_it() -> None:
    lines = Run(gpus=1).text()
    silent = [line for line in lines if "Using network" not in line]
    assert (
        f"network: rank 0 on node-a (pid 70) named none for communicator {Run.comm_id} "
        + place_of(silent, "node-a", "Init START")
        in judged(silent).reasons
    )
    cut = [line for line in lines if "Init START" not in line]
    assert (
        f"communicator: {Run.comm_id}: the beginning of rank 1 on node-b (pid 71) is cut off "
        + place_of(cut, "node-b", "Init COMPLETE")
        in judged(cut).reasons
    )
    both = [line for line in cut if "Using network" not in line]
    assert (
        f"network: rank 0 on node-a (pid 70) named none for communicator {Run.comm_id} "
        + place_of(both, "node-a", "Init COMPLETE")
        in judged(both).reasons
    )


def test_a_process_is_named_by_its_rank_in_the_largest_communicator_or_without_one() -> None:
    lines = (CORPUS / "hybrid-split-2.29.log").read_text().splitlines()
    silent = [line for line in lines if not ("node-b:76" in line and "Selected provider" in line)]
    assert judged(silent).reasons[0].startswith("provider: rank 6 on node-b (pid 76) named none (job.log:")
    alone = ["node-a:9:9 [0] NCCL INFO Failed to initialize any NET plugin"]
    assert (
        judged(alone).reasons[1] == "provider: process 9 on node-a: 'Failed to initialize any NET plugin' (job.log:1)"
    )


@pytest.mark.parametrize(
    ("provider", "value"),
    [("efa", "proven"), ("efa-direct", "proven"), ("notefa", "refuted"), ("efa;ofi_rxm", "proven"), ("tcp", "refuted")],
)
def test_a_provider_is_efa_by_how_its_name_begins(provider: str, value: str) -> None:
    lines = [line.replace("provider is efa", f"provider is {provider}") for line in Run().text()]
    assert judged(lines).value == value


def test_that_a_network_of_nccls_own_finds_nothing_is_no_failure_of_the_plugin() -> None:
    lines = Run().text()
    for name, value in (("IB", "proven"), ("Socket", "proven"), ("Libfabric", "unproven")):
        failed = f"node-a:70:70 [0] NCCL INFO Failed to initialize NET plugin {name}"
        assert judged([*lines[:40], failed, *lines[40:]]).value == value


def test_a_provider_named_beside_efa_leaves_it_unproven_by_how_its_name_begins() -> None:
    lines = Run().text()
    at = next(i for i, line in enumerate(lines) if "Selected provider" in line)
    for name, value in (("notefa", "unproven"), ("efa-direct", "proven")):
        more = lines[at].replace("provider is efa", f"provider is {name}")
        assert judged([*lines[: at + 1], more, *lines[at + 1 :]]).value == value


def test_a_host_has_as_many_interfaces_as_the_larger_of_its_processes_lines_says() -> None:
    lines = [one for line in Run(nics=4).text() for one in (line, line.replace("found 4", "found 1"))]
    assert judged(lines, nics=4).value == "proven"
    assert (
        judged(lines, nics=5)
        .reasons[0]
        .startswith("interfaces: rank 0 on node-a (pid 70) found 4 interfaces, wanted 5")
    )
    few = Run(nics=2).text()
    assert judged(few, nics=4).reasons[0].endswith(f"found 2 interfaces, wanted 4 {place_of(few, 'Selected provider')}")
    none = [line for line in few if "Selected provider" not in line]
    last = max(i for i, line in enumerate(none, 1) if line.startswith("node-a:70"))
    assert (
        judged(none, nics=4)
        .reasons[-4]
        .endswith(f"did not say how many interfaces it found, wanted 4 (job.log:{last})")
    )


def test_ranks_may_be_more_than_processes() -> None:
    """Two processes of two ranks each in one communicator, and one rank each in another."""
    of_two = {"node-a:71:": "node-a:70:", "node-b:73:": "node-b:72:"}
    of_one = {"node-a:170:": "node-a:70:", "node-b:171:": "node-b:72:", "comm 0x55": "comm 0x66"}
    lines = []
    for run, names in ((Run(), of_two), (Run(gpus=1, first_pid=170, comm_id="0xb"), of_one)):
        for line in run.text():
            for old, new in names.items():
                line = line.replace(old, new)
            lines.append(line)
    assert judged(lines, ranks=4, hosts=2).value == "proven"
    assert judged(lines, ranks=8).value == "unproven"


def test_hosts_of_one_name_are_several_where_any_rank_counts_several() -> None:
    lines = [line.replace("node-b", "node-a") for line in Run(gpus=1, network="missing").text()]
    assert judged(lines).value == "refuted"
    differing = [line.replace("nNodes 2", "nNodes 1") if ":70:" in line else line for line in lines]
    verdict = judged(differing)
    assert verdict.value == "refuted", verdict.reasons
    assert verdict.reasons[0].startswith("network: rank 0 on node-a (pid 70) chose Socket")


def test_reasons_of_attempts_that_are_proven_are_none_against_the_others() -> None:
    good, bad = Run(gpus=1).text(), Run(gpus=1, network="missing", first_pid=170, comm_id="0xb").text()
    verdict = judged([one for pair in zip_longest(good, bad) for one in pair if one is not None])
    assert verdict.value == "refuted"
    assert verdict.reasons[0] == "attempts: 2 ran at the same time, so that all of them count, and they differ"
    assert len(verdict.reasons) > 1
    assert not any("no other transport" in reason for reason in verdict.reasons)


def test_a_log_without_any_of_nccls_lines_says_what_it_has_and_what_it_hides() -> None:
    assert judge_report(nccl_log.read([]), Wanted(expect="efa")).reasons == (
        "input: 0 lines of nothing and none of NCCL's among them: NCCL_DEBUG=INFO may not be set, or NCCL_DEBUG_FILE "
        "leads elsewhere",
    )
    long = judged(["x" * 70_000 + " NCCL INFO "])
    assert long.reasons[0].startswith("input: 1 lines of job.log and none of NCCL's among them")
    assert long.reasons[1:] == ("input: 1 lines too long to be read (first at job.log:1)",)
