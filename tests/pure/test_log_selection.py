"""Which lines of a job's log are a rank's, NCCL's or the driver's."""

from collections.abc import Iterable

import pytest

from tests.support.marked_run import MarkedRun
from tests.support.nccl_run import Run
from workload.job_record import MARK
from workload.log_selection import OfRank, Select, driver, everything, nccl, without_colour

CONTROLLER = "(TrainController pid=60) "
CONNECTING = (
    "2026-11-29 19:23:03,416\tINFO worker.py:1833 -- Connecting to existing Ray cluster at address: 10.0.1.9:6379..."
)
# As Ray Train 2.58 prints it; pids are of each pod's own, so that two ranks share one.
PLACES = (
    f"{CONTROLLER}Started training worker group of size 3: ",
    f"{CONTROLLER}- (ip=10.0.1.9, pid=70) world_rank=0, local_rank=0, node_rank=0",
    f"{CONTROLLER}- (ip=10.0.1.10, pid=70) world_rank=1, local_rank=0, node_rank=1",
    f"{CONTROLLER}- (ip=10.0.1.10, pid=71) world_rank=2, local_rank=1, node_rank=1",
)
EARLY = "(RayTrainWorker pid=70) Setting up process group for: env:// [rank=0, world_size=3]"
LOG = (
    CONNECTING,
    "[train] tiny-qwen2 on pydoc: 60 steps, 3 ranks x 4 sequences x 256 tokens",
    EARLY,
    *PLACES,
    "(RayTrainWorker pid=70) [train] step 1/60 loss 6.0",
    "(RayTrainWorker pid=70, ip=10.0.1.10) of rank 1",
    "(RayTrainWorker pid=71, ip=10.0.1.10) of rank 2",
    "(raylet, ip=10.0.1.10) the raylet's",
    "(autoscaler +13s) Tip: use `ray status`",
    "",
    MARK + '{"schema": "x"}',
)


def selected(select: Select, lines: Iterable[str] = LOG) -> list[str]:
    return [one for line in lines for one in select(line)]


def test_everything_is_every_line() -> None:
    assert selected(everything) == list(LOG)


def test_a_ranks_lines_are_those_of_its_process_also_before_it_was_known_which_that_is() -> None:
    assert selected(OfRank(0)) == [EARLY, "(RayTrainWorker pid=70) [train] step 1/60 loss 6.0"]


def test_ranks_of_other_pods_with_the_same_pid_are_told_apart_by_their_address() -> None:
    assert selected(OfRank(1)) == ["(RayTrainWorker pid=70, ip=10.0.1.10) of rank 1"]
    assert selected(OfRank(2)) == ["(RayTrainWorker pid=71, ip=10.0.1.10) of rank 2"]


def test_on_one_machine_the_prefix_has_no_address_and_the_pid_tells() -> None:
    places = [
        f"{CONTROLLER}- (ip=127.0.0.1, pid=7568) world_rank=0, local_rank=0, node_rank=0",
        f"{CONTROLLER}- (ip=127.0.0.1, pid=7567) world_rank=1, local_rank=1, node_rank=0",
    ]
    lines = [*places, "(RayTrainWorker pid=7567) mine", "(RayTrainWorker pid=7568) not mine"]
    assert selected(OfRank(1), lines) == ["(RayTrainWorker pid=7567) mine"]


def test_a_new_attempt_has_its_ranks_in_other_processes() -> None:
    again = [f"{CONTROLLER}- (ip=10.0.1.10, pid=71) world_rank=1, local_rank=0, node_rank=1"]
    later = ["(RayTrainWorker pid=71, ip=10.0.1.10) now of rank 1"]
    assert selected(OfRank(1), [*LOG, *again, *later])[-1] == later[0]
    assert later[0] not in selected(OfRank(2), [*LOG, *again, *later])


def test_a_rank_that_the_log_does_not_name_has_no_line_and_the_others_are_known() -> None:
    rank = OfRank(7)
    assert selected(rank) == []
    assert rank.known == {0, 1, 2}


def test_what_no_rank_printed_is_no_ranks() -> None:
    for rank in range(3):
        assert not [line for line in selected(OfRank(rank)) if "raylet" in line or "Controller" in line]


def test_nccls_lines_are_found_by_their_marks_and_belong_to_the_rank_that_is_in_them() -> None:
    run = MarkedRun(run=Run())
    log = [without_colour(line) for line in run.log()]
    of_all = selected(nccl, log)
    assert of_all == [line for line in log if "[nccl rank " in line]
    by_rank = [selected(OfRank(rank), log) for rank in range(run.run.ranks)]
    assert sum(map(len, by_rank)) == len(of_all)
    assert all("[nccl rank 1 #" in line for line in by_rank[1])


def test_nccls_lines_of_other_launchers_are_found_too() -> None:
    lines = [
        "host-0:70:90 [0] NCCL INFO NET/OFI Selected provider is efa",
        "NCCL version 2.27.3+cuda12.9",
        "no NCCL here",
    ]
    assert selected(nccl, lines) == lines[:2]


def test_the_drivers_lines_are_those_that_no_other_process_printed_without_its_record() -> None:
    assert selected(driver) == [LOG[0], LOG[1], ""]
    assert selected(driver, ["(see the docs) for more"]) == ["(see the docs) for more"]


@pytest.mark.parametrize(
    "hostile",
    [
        "a\x1b]0;another title\x07b",
        "a\x1b]52;c;cm0gLXJmIH4=\x1b\\b",
        "a\x1b[2J\x1b[?25l\x1b[>4;1mb",
        "a\x1bP+q544e\x1b\\b",
        "a\x1bcb",
        "a\x9b31m\x08\rb\x1b",
    ],
)
def test_a_line_can_do_nothing_to_a_terminal(hostile: str) -> None:
    assert without_colour(hostile).replace("31m", "") == "ab"


def test_what_is_no_control_stays_as_it_is() -> None:
    line = "loss\t2.5 → 2.4 [train] {0;1} ä 😀 \\x1b[31m"
    assert without_colour(line) == line


def test_a_pipe_gets_no_colour() -> None:
    assert without_colour("\x1b[36m(RayTrainWorker pid=7)\x1b[0m at \x1b[1m\x1b[32mhttp://x \x1b[39m") == (
        "(RayTrainWorker pid=7) at http://x "
    )
