"""What a person watching `pulumi up` sees of a job's log."""

import pytest

from workload.progress import Progress, plain


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("\x1b[36m(RayTrainWorker pid=951, ip=10.0.1.9)\x1b[0m [train] step 1/4", "[train] step 1/4"),
        ("(RayTrainWorker pid=951) [train] step 1/4", "[train] step 1/4"),
        ("(TrainController pid=9, ip=fe80::1) hello", "hello"),
        ("[train] step 1/4\r\n", "[train] step 1/4"),
        ("(not a prefix) text", "(not a prefix) text"),
    ],
)
def test_a_line_is_read_without_colours_and_rays_prefix(line: str, text: str) -> None:
    assert plain(line) == text


class Watched:
    def __init__(self) -> None:
        self.now = 0.0
        self.shown: list[str] = []
        self.progress = Progress(self.shown.append, every_s=3.0, clock=lambda: self.now)


def test_step_lines_are_thinned_and_phases_are_not() -> None:
    watched = Watched()
    for step in range(1, 11):
        watched.progress.line(f"(RayTrainWorker pid=1, ip=127.0.0.1) [train] step {step}/10 loss 3.0")
        watched.now += 1.0
    watched.progress.line("[train] eval after: loss 2.5")
    assert watched.shown == [
        "step 1/10 loss 3.0",
        "step 4/10 loss 3.0",
        "step 7/10 loss 3.0",
        "step 10/10 loss 3.0",
        "eval after: loss 2.5",
    ]


def test_a_measurement_s_lines_are_shown_too() -> None:
    watched = Watched()
    watched.progress.line("(RayTrainWorker pid=1) [bandwidth] all_reduce 64M: busbw 3 GB/s")
    watched.progress.line("[elsewhere] all_reduce 64M: busbw 3 GB/s")
    assert watched.shown == ["all_reduce 64M: busbw 3 GB/s"]


def test_before_a_phase_the_step_that_was_held_back_is_shown() -> None:
    watched = Watched()
    watched.progress.line("[train] step 1/3")
    watched.progress.line("[train] step 2/3")
    watched.progress.line("[train] step 3/3")
    watched.progress.line("[train] checkpoint step 3")
    assert watched.shown == ["step 1/3", "step 3/3", "checkpoint step 3"]


def test_the_jobs_own_errors_are_its_last_useful_lines() -> None:
    watched = Watched()
    watched.progress.line("Traceback (most recent call last):")
    watched.progress.line("[error] --model_id: 'nope' does not exist")
    watched.progress.line("[error] --model_id: 'nope' does not exist")
    for number in range(50):
        watched.progress.line(f"noise {number}")
    assert watched.progress.last_useful_lines() == ["--model_id: 'nope' does not exist"]


def test_without_an_error_line_the_end_of_the_log_is_what_is_useful() -> None:
    watched = Watched()
    for number in range(50):
        watched.progress.line(f"noise {number}")
    assert watched.progress.last_useful_lines()[-1] == "noise 49"
    assert len(watched.progress.last_useful_lines()) == 12


def test_where_training_stood_is_known_though_the_step_was_not_shown() -> None:
    watched = Watched()
    assert watched.progress.last_step() == ""
    for step in (1, 2):
        watched.progress.line(f"[train] step {step}/10 loss 3.0")
    watched.now += 61.0
    assert watched.progress.last_step() == "the last step that was seen, 61 s ago: 2/10 loss 3.0"


def test_a_training_that_stands_still_is_told_once() -> None:
    watched = Watched()
    assert watched.progress.silent_for(60) == ""
    watched.progress.line("[train] step 1/10 loss 3.0")
    watched.now += 59.0
    assert watched.progress.silent_for(60) == ""
    watched.now += 2.0
    assert "61 s ago: 1/10" in watched.progress.silent_for(60)
    assert watched.progress.silent_for(60) == ""
    watched.progress.line("[train] step 2/10 loss 3.0")
    watched.now += 60.0
    assert "60 s ago: 2/10" in watched.progress.silent_for(60)


def test_a_full_disk_that_ray_mentions_in_passing_is_an_error_with_its_pod() -> None:
    progress = Progress(lambda _line: None, pods={"10.0.0.7": "worker-a"})
    line = (
        "(raylet, ip=10.0.0.7) [2026-11-29 19:52:31,656 E 19 30] (raylet) file_system_monitor.cc:116: "
        "/tmp/ray/session_1 is over 95% full, available space: 0.2 GB; capacity: 2 GB. Object creation will fail."
    )
    progress.line("[error] node 10.0.0.7: No space left")
    progress.line(line)
    progress.line(line.replace("0.2 GB", "0.1 GB"))
    assert progress.last_useful_lines() == [
        "node 10.0.0.7 (worker-a): No space left",
        "worker-a: /tmp/ray/session_1 is over 95% full, available space: 0.2 GB (rayTmpSize sets its size)",
    ]
