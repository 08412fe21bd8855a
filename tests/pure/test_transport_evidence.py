"""What is collected of a job: which of its log's lines count, and what is kept of them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import reports
from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.errors import ReportedError
from workload.report_text import ReportUnreadableError, packed, unpacked
from workload.transport import judge
from workload.transport_evidence import collect
from workload.verdict import Wanted

EFA = Wanted(expect="efa")
MARKED = MarkedRun()


def digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_each_ranks_lines_are_counted_and_hashed_without_mark_and_prefix(tmp_path: Path) -> None:
    evidence = MARKED.collected(tmp_path)
    for rank in range(4):
        said = evidence["ranks"][rank]
        assert said["delivered"] == {"count": len(MARKED.lines(rank)), "sha256": digest(MARKED.lines(rank))}
        assert said["lines"] == {"id": MARKED.identity(rank), **said["delivered"]}


def test_the_evidence_is_plain_values_that_survive_json(tmp_path: Path) -> None:
    evidence = MARKED.collected(tmp_path)
    assert json.loads(json.dumps(evidence)) == evidence
    assert {key: evidence[key] for key in ("attempt", "worldSize")} == {"attempt": 1, "worldSize": 4}
    assert {key: value for key, value in evidence["ranks"][2].items() if key not in ("lines", "delivered")} == {
        "rank": 2,
        "node": "node-b-id",
        "host": "node-b.ec2.internal",
        "pid": 72,
        "backend": "nccl",
        "device": "cuda:0",
        "efaDevices": [{"name": "rdmap0s31", "sent": 1_500_000, "received": 2_500_000}],
        "mustMove": {"steps": 20, "sent": 1_000_000, "received": 2_000_000},
    }
    assert evidence["ranks"][3]["efaDevices"] is None


def test_places_are_the_lines_of_the_jobs_own_log(tmp_path: Path) -> None:
    report = unpacked(MARKED.collected(tmp_path)["report"])
    lines = (tmp_path / "job.log").read_text().splitlines()
    assert report.files == ("job.log",)
    assert report.lines == len(lines)
    edges = report.attempts[0].edges
    assert len(edges) == 12
    for edge in edges:
        assert edge.via in lines[edge.place.line - 1]
        assert f"pid={edge.pid}" in lines[edge.place.line - 1]


def test_a_reader_sees_transports_by_host_without_unpacking_anything(tmp_path: Path) -> None:
    evidence = MarkedRun(run=Run(lonely=("node-b",), gdr="/GDRDMA")).collected(tmp_path)
    assert evidence["matrix"] == [
        {"from": "node-a", "to": "node-a", "via": {"P2P": 2}},
        {"from": "node-a", "to": "node-b", "via": {"NET/Libfabric+GDR": 2, "NET/Socket+GDR": 2}},
        {"from": "node-b", "to": "node-a", "via": {"NET/Libfabric+GDR": 2, "NET/Socket+GDR": 2}},
        {"from": "node-b", "to": "node-b", "via": {"P2P": 2}},
    ]
    assert evidence["hosts"] == [
        {"host": "node-a", "networks": ["Libfabric"], "providers": ["efa"]},
        {"host": "node-b", "networks": ["Socket"], "providers": []},
    ]


def test_lines_of_an_earlier_attempt_do_not_count(tmp_path: Path) -> None:
    earlier = MarkedRun(run=Run(network="missing", first_pid=40, comm_id="0x11"))
    later = MarkedRun(attempt=2)
    attempts = [*earlier.record()["attempts"], *later.record()["attempts"]]
    evidence = later.collected(tmp_path, [*earlier.log(), *later.log()], attempts=attempts)
    assert evidence["attempt"] == 2
    assert judge(evidence, EFA).value == "proven"
    swapped = [attempts[1], attempts[0]]
    assert judge(later.collected(tmp_path, [*earlier.log(), *later.log()], attempts=swapped), EFA).value == "refuted"


def test_nccl_lines_outside_marks_are_another_process_s(tmp_path: Path) -> None:
    preflight = Run(network="missing", first_pid=500).text()
    evidence = MARKED.collected(tmp_path, [*preflight, *MARKED.log(), *preflight])
    assert judge(evidence, EFA).value == "proven"
    hidden = [*MARKED.log(), "a:1:1 [0] NCCL INFO Using network Socket [repeated 3x across cluster]"]
    assert judge(MARKED.collected(tmp_path, hidden), EFA).value == "proven"


def test_what_stands_before_a_mark_does_not_matter(tmp_path: Path) -> None:
    cyan = "\x1b[36m(RayTrainWorker pid=71, ip=10.0.1.9)\x1b[0m "
    unfinished = "(RayTrainWorker pid=70) [train] a step's line without its end"
    lines = [
        before + line[line.index("[nccl rank") :]
        for line, before in zip(MARKED.printed(), [cyan, unfinished, "", "stamp | "] * 25, strict=True)
    ]
    assert judge(MARKED.collected(tmp_path, lines), EFA).value == "proven"


@pytest.mark.parametrize("damage", ["{} [repeated 7x across cluster]", "\x1b[32m{}\x1b[0m", "{}\x1b[0m", "{} and more"])
def test_a_line_that_was_folded_coloured_or_changed_is_not_the_one_handed_back(tmp_path: Path, damage: str) -> None:
    lines = MARKED.log()
    at = next(i for i, line in enumerate(lines) if "Libfabric version" in line and "node-a:70" in line)
    prefix, _, text = lines[at].partition("] ")
    lines[at] = prefix + "] " + damage.format(text)
    verdict = judge(MARKED.collected(tmp_path, lines), EFA)
    assert verdict.value == "unproven"
    count = len(MARKED.lines(0))
    assert any(reason.startswith(f"delivery: the log's {count} lines of rank 0") for reason in verdict.reasons)


def test_a_line_in_two_pieces_is_missing_from_what_was_delivered(tmp_path: Path) -> None:
    lines = MARKED.log()
    at = next(i for i, line in enumerate(lines) if "[send] via" in line)
    prefix = lines[at].partition("[nccl")[0]
    lines[at : at + 1] = [lines[at][:-8], prefix + lines[at][-8:]]
    assert judge(MARKED.collected(tmp_path, lines), EFA).value == "unproven"


def test_line_ends_and_bytes_that_are_no_text_are_read_as_the_rank_hashed_them(tmp_path: Path) -> None:
    lines = [*MARKED.lines(0), "node-a:70:70 [0] NCCL INFO NCCL_COMMENT set by environment to \ufffd"]
    record = MARKED.record()
    handed = {"id": MARKED.identity(0), "count": len(lines), "sha256": digest(lines)}
    record["attempts"][-1]["ranks"][0]["transport_lines"] = handed
    log = tmp_path / "job.log"
    raw = "".join(f"{line}\r\n" for line in MARKED.log()).encode()
    log.write_bytes(raw + (MARKED.mark(0) + lines[-1]).encode().replace(b"\xef\xbf\xbd", b"\xff") + b" \t\r\n")
    assert judge(collect(record, log), EFA).value == "proven"


def test_a_log_that_ends_without_a_line_end_loses_nothing(tmp_path: Path) -> None:
    lines = MARKED.printed()
    log = tmp_path / "job.log"
    log.write_text("\n".join(lines))
    assert judge(collect(MARKED.record(), log), EFA).value == "proven"


def test_a_line_of_megabytes_is_passed_over(tmp_path: Path) -> None:
    evidence = MARKED.collected(tmp_path, ["x" * 5_000_000, *MARKED.log()])
    assert judge(evidence, EFA).value == "proven"
    assert unpacked(evidence["report"]).lines == len(MARKED.log()) + 1


def test_without_ranks_that_handed_anything_back_no_log_is_needed(tmp_path: Path) -> None:
    evidence = collect(reports.report(), tmp_path / "nowhere.log")
    assert evidence["report"] == ""
    assert (evidence["matrix"], evidence["hosts"]) == ([], [])
    assert {key: evidence["ranks"][0][key] for key in ("lines", "delivered", "efaDevices", "mustMove")} == {
        "lines": None,
        "delivered": None,
        "efaDevices": None,
        "mustMove": None,
    }


def test_a_log_that_cannot_be_read_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(ReportedError, match=r"nowhere\.log, which holds the evidence of the transport, cannot be read"):
        collect(MARKED.record(), tmp_path / "nowhere.log")


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        "7",
        {"count": 3},
        {"id": "", "count": 3, "sha256": ""},
        {"id": "a1b2c3d4", "count": 3, "sha256": 7},
        {"id": "a1b2c3d4", "count": "many", "sha256": ""},
    ],
)
def test_lines_in_another_shape_are_none(tmp_path: Path, odd: Any) -> None:
    record = MARKED.record()
    record["attempts"][-1]["ranks"][1]["transport_lines"] = odd
    (tmp_path / "job.log").write_text("\n".join(MARKED.log()))
    evidence = collect(record, tmp_path / "job.log")
    assert (evidence["ranks"][1]["lines"], evidence["ranks"][1]["delivered"]) == (None, None)
    assert judge(evidence, EFA).value == "unproven"


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({"tx_bytes": 5, "rx_bytes": 7}, {"tx_bytes": 105, "rx_bytes": 207}, (100, 200)),
        ({"tx_bytes": 5, "rx_bytes": 7}, {"tx_bytes": 4, "rx_bytes": 7}, (-1, 0)),
        ({"tx_bytes": 5}, {"tx_bytes": 6, "rx_bytes": 7}, (1, None)),
        (None, {"tx_bytes": 6, "rx_bytes": 7}, (None, None)),
        ({"tx_bytes": "5", "rx_bytes": True}, {"tx_bytes": 6, "rx_bytes": 7}, (None, None)),
        # RDMA's bytes beside those of messages: whether tx_bytes has them or not, they were sent.
        (
            {"tx_bytes": 0, "rx_bytes": 0, "send_bytes": 0, "rdma_write_bytes": 0, "rdma_write_recv_bytes": 0},
            {"tx_bytes": 10, "rx_bytes": 90, "send_bytes": 10, "rdma_write_bytes": 80, "rdma_write_recv_bytes": 80},
            (90, 90),
        ),
        (
            {"tx_bytes": 0, "rx_bytes": 0, "rdma_read_resp_bytes": 9, "rdma_read_bytes": 0},
            {"tx_bytes": 10, "rx_bytes": 10, "rdma_read_resp_bytes": 3, "rdma_read_bytes": 30},
            (-6, 30),
        ),
    ],
)
def test_what_a_device_moved_is_what_its_counters_grew_by(
    tmp_path: Path, before: Any, after: Any, moved: tuple[int | None, int | None]
) -> None:
    rank = {**reports.rank(0), "efa_devices": [{"name": "rdmap0s31", "before": before, "after": after}, "odd"]}
    record = reports.report(attempts=[{"attempt": 1, "ranks": [rank]}])
    (device,) = collect(record, tmp_path)["ranks"][0]["efaDevices"]
    assert (device["sent"], device["received"]) == moved


@pytest.mark.parametrize(
    "odd", [None, 7, {"sent": 1, "received": 1}, {"steps": 1, "sent": 1}, {"steps": 1, "received": 1}]
)
def test_what_had_to_move_in_another_shape_is_not_known(tmp_path: Path, odd: Any) -> None:
    record = reports.report(attempts=[{"attempt": 1, "ranks": [{**reports.rank(0), "must_move": odd}]}])
    assert collect(record, tmp_path)["ranks"][0]["mustMove"] is None


def test_a_job_without_an_attempt_has_no_ranks(tmp_path: Path) -> None:
    evidence = collect(reports.report(attempts=[]), tmp_path / "job.log")
    assert (evidence["attempt"], evidence["ranks"]) == (0, [])
    assert judge(evidence, EFA).value == "unproven"


def test_why_a_device_could_not_be_read_is_kept(tmp_path: Path) -> None:
    device = {"name": "rdmap0s31", "reason": "after the steps: the device was not there", "before": {"tx_bytes": 1}}
    record = reports.report(attempts=[{"attempt": 1, "ranks": [{**reports.rank(0), "efa_devices": [device]}]}])
    assert collect(record, tmp_path)["ranks"][0]["efaDevices"] == [
        {"name": "rdmap0s31", "sent": None, "received": None, "reason": "after the steps: the device was not there"}
    ]


def test_a_report_comes_back_from_its_text_as_it_was(tmp_path: Path) -> None:
    for run in (Run(), Run(network="failed", nics=4), Run(network="missing", nccl=(2, 18)), Run(connect=False)):
        text = MarkedRun(run=run).collected(tmp_path)["report"]
        assert packed(unpacked(text)) == text
        assert unpacked(text).attempts[0].communicators[0].members[0].started.file == "job.log"  # type: ignore[union-attr]


def test_a_damaged_text_is_told_apart(tmp_path: Path) -> None:
    text = MARKED.collected(tmp_path)["report"]
    middle = len(text) // 2
    other = "A" if text[middle] != "A" else "B"
    for damaged in ("", "x", "é", text[:-8], text[:middle] + other + text[middle + 1 :], "eJyrrgUAAXUA+Q=="):
        with pytest.raises(ReportUnreadableError):
            unpacked(damaged)
