"""Whether GPU nodes are to be there: by the time they may live, and by whether a run is due."""

from datetime import UTC, datetime, timedelta

import pytest

from infra.eks_settings import GuardSettings
from infra.gpu_release import asks_for_last_run, note_of, released_because
from workload.errors import BadInputError

UNTIL = "2026-12-01T18:00:00Z"
BEFORE = datetime(2026, 12, 1, 17, 59, 59, tzinfo=UTC)
AFTER = BEFORE + timedelta(seconds=1)
NONE = GuardSettings()
TTL = GuardSettings(ttl_until=UNTIL)
AFTER_JOB = GuardSettings(zero_after_job=True)


def because(guards: GuardSettings, *, due: str = "a", done: str = "", nodes: int = 2, now: datetime = BEFORE) -> str:
    return released_because(guards, nodes=nodes, due=due, done=done, now=now)


@pytest.mark.parametrize("guards", [NONE, TTL, AFTER_JOB])
@pytest.mark.parametrize("done", ["", "b"])
def test_a_run_that_is_due_has_its_nodes(guards: GuardSettings, done: str) -> None:
    assert because(guards, done=done) == ""


def test_a_run_that_is_done_keeps_its_nodes_unless_told_otherwise() -> None:
    assert because(NONE, done="a", now=AFTER) == ""
    assert because(TTL, done="a") == ""
    assert because(AFTER_JOB, done="a") == "the run is done (gpuScaleToZeroAfterJob)"


def test_past_their_time_nodes_never_come_back_by_themselves() -> None:
    assert because(TTL, done="a", now=AFTER) == f"ttlUntil {UNTIL} has passed"
    for done in ("", "b"):
        with pytest.raises(
            BadInputError, match=f"ttlUntil {UNTIL} has passed, and a run is due.*pulumi config set ttlUntil"
        ):
            because(TTL, done=done, now=AFTER)


def test_nodes_that_stand_without_a_run_to_do_stay_until_their_time() -> None:
    assert because(AFTER_JOB, due="", done="a") == "", "train is false: nodes are what was asked for"
    assert because(TTL, due="", now=AFTER) == f"ttlUntil {UNTIL} has passed"


def test_a_stack_that_asks_for_no_nodes_is_never_refused() -> None:
    assert because(TTL, nodes=0, now=AFTER) == ""


def test_nothing_is_taken_for_done_where_nobody_knows_what_is_due() -> None:
    assert because(AFTER_JOB, due="", done="") == ""


def test_the_last_run_is_asked_for_only_where_it_counts() -> None:
    assert not asks_for_last_run(NONE, now=AFTER)
    assert not asks_for_last_run(TTL, now=BEFORE)
    assert asks_for_last_run(TTL, now=AFTER)
    assert asks_for_last_run(AFTER_JOB, now=BEFORE)


def test_who_reads_the_note_knows_how_the_nodes_come_back() -> None:
    note = note_of("it is over", nodes=2, past=False)
    assert "no GPU nodes although gpuNodes is 2: it is over" in note
    assert "jobRunId" in note
    past = note_of("ttlUntil has passed", nodes=2, past=True)
    assert "pulumi config rm ttlUntil -s STACK" in past
    assert "jobRunId" not in past, "a run that is due would be refused"
