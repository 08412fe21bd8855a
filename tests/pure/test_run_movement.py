"""How much faster, and how sure that is: from repetitions, else from the spread of the steps, else not said."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.support.recorded import kept, read
from workload.recorded_run import RecordedRun
from workload.run_movement import Movement, first_different_step, movements


def run(tmp_path: Path, name: str, tokens: float, **changes: Any) -> RecordedRun:
    return read(kept(tmp_path / "runs", f"{name}-1", tokens=tokens, **changes))


def speed(a: RecordedRun, b: RecordedRun, like_a: list[RecordedRun], like_b: list[RecordedRun]) -> Movement:
    return next(one for one in movements(a, b, like_a=like_a, like_b=like_b) if one.name == "tokens/s")


def test_one_pair_has_the_noise_of_its_steps(tmp_path: Path) -> None:
    told = speed(run(tmp_path, "a", 10_000), run(tmp_path, "b", 11_000), [], [])
    assert told.ratio == pytest.approx(1.1)
    assert told.noise is not None
    # 57 timed steps of each; the log of a step spreads by log(1.1) / 1.2816.
    half = 1.96 * math.sqrt(2) * 1.2533 * math.log(1.1) / 1.2816 / math.sqrt(57)
    assert told.noise.low == pytest.approx(1.1 / math.exp(half))
    assert told.noise.high == pytest.approx(1.1 * math.exp(half))
    assert told.noise.source == "step to step within the two runs"
    assert not told.noise.covers_no_change


def test_repetitions_say_more_than_steps(tmp_path: Path) -> None:
    a, a2, a3 = (run(tmp_path, f"a{n}", tokens) for n, tokens in enumerate((10_000, 12_000, 9_000)))
    b, b2 = (run(tmp_path, f"b{n}", tokens) for n, tokens in enumerate((11_000, 10_500)))
    told = speed(a, b, [a2, a3], [b2])
    assert told.noise is not None
    assert told.noise.source == "3 runs like A and 2 like B"
    assert told.noise.value == pytest.approx(math.sqrt(11_000 * 10_500) / (10_000 * 12_000 * 9_000) ** (1 / 3))
    assert told.noise.covers_no_change, "they differ by more among themselves"


def test_equal_repetitions_are_no_division_by_nothing(tmp_path: Path) -> None:
    a, a2 = (run(tmp_path, f"a{n}", 10_000) for n in range(2))
    b, b2 = (run(tmp_path, f"b{n}", 10_000) for n in range(2))
    noise = speed(a, b, [a2], [b2]).noise
    assert noise is not None
    assert (noise.low, noise.high) == (1.0, 1.0)


@pytest.mark.parametrize(
    "steps", [{"median": 0.4}, {}, {"median": 0.4, "p90": 0.3}, {"median": 0, "p90": 0}, {"median": "x", "p90": 1}]
)
def test_a_spread_that_is_not_on_record_is_no_noise(steps: dict[str, Any], tmp_path: Path) -> None:
    b = run(tmp_path, "b", 11_000, throughput__stepSeconds=steps)
    assert speed(run(tmp_path, "a", 10_000), b, [], []).noise is None


def test_a_run_too_short_to_time_has_none(tmp_path: Path) -> None:
    b = run(tmp_path, "b", 11_000, arguments={"steps": 4})
    assert speed(run(tmp_path, "a", 10_000), b, [], []).noise is None


def test_losses_are_compared_to_the_last_bit(tmp_path: Path) -> None:
    a = run(tmp_path, "a", 10_000, losses=[[1, 5.5], [2, 5.25], [3, 5.0]])
    same = run(tmp_path, "b", 10_000, losses=[[1, 5.5], [2, 5.25]])
    other = run(tmp_path, "c", 10_000, losses=[[1, 5.5], [2, 5.250000000000001]])
    none = run(tmp_path, "d", 10_000, losses=[])
    assert [first_different_step(a, b) for b in (same, other, none)] == [None, 2, 0]
