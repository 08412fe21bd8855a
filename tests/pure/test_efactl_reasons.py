"""The exit code of an `up` that failed: what judged it since it began."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from efactl import reasons

BEGAN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
NOW, BEFORE = "2026-01-01T00:00:01+00:00", "2025-12-31T00:00:01+00:00"


def keep(runs: Path, name: str, content: dict[str, Any]) -> None:
    (runs / name).parent.mkdir(parents=True)
    (runs / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("verdict", "quality", "code"),
    [("refuted", None, 3), ("unproven", None, 4), ("proven", False, 5), ("proven", True, None), (None, None, None)],
)
def test_a_job_whose_gate_judged_it(verdict: str | None, quality: bool | None, code: int | None) -> None:
    assert reasons.of_job({"verdict": verdict, "qualityPassed": quality}) == code
    assert reasons.of_job({}) is None


@pytest.mark.parametrize(
    ("report", "code"),
    [
        ({"status": "complete", "judgement": {"reasons": ["slow"], "judgedAt": NOW}}, 6),
        ({"status": "refuted", "judgement": {"reasons": ["arm"], "judgedAt": NOW}}, 3),
        ({"status": "unproven", "judgement": {"reasons": ["arm"], "judgedAt": NOW}}, 4),
        ({"status": "failed", "judgement": {"reasons": ["unlike"], "judgedAt": NOW}}, 1),
        ({"status": "interrupted", "updatedAt": NOW}, 130),
        ({"status": "interrupted", "updatedAt": BEFORE}, None),
        ({"status": "refuted", "judgement": {"reasons": ["arm"], "judgedAt": BEFORE}}, None),
        ({"status": "complete", "judgement": {"reasons": [], "judgedAt": NOW}}, None),
        ({"status": "complete"}, None),
    ],
)
def test_a_comparison_that_fails_or_was_interrupted(tmp_path: Path, report: dict[str, Any], code: int | None) -> None:
    assert reasons.of_measurements(tmp_path, BEGAN) is None
    keep(tmp_path, "compare-20260101T000000Z/comparison.json", report)
    assert reasons.of_measurements(tmp_path, BEGAN) == code


@pytest.mark.parametrize(
    ("value", "passed", "wrong", "judged", "code"),
    [
        ("refuted", True, 0, NOW, 3),
        ("unproven", True, 0, NOW, 4),
        ("proven", False, 0, NOW, 6),
        ("proven", False, 2, NOW, 1),
        ("proven", True, 0, NOW, None),
        ("refuted", True, 0, BEFORE, None),
        (None, None, 0, None, None),
    ],
)
def test_a_preflight_that_fails(
    tmp_path: Path, value: str | None, passed: bool | None, wrong: int, judged: str | None, code: int | None
) -> None:
    verdict = {"value": value, "judgedAt": judged} if judged else {"value": value}
    record = {"verdict": verdict, "quality": {"passed": passed}, "rows": [{"wrong": wrong}]}
    keep(tmp_path, "ray-train-bandwidth-1/record.json", record)
    assert reasons.of_measurements(tmp_path, BEGAN) == code
