"""Every log of the corpus and its verdict: each way to be fooled, each wording by version, and real logs."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from workload.nccl import log as nccl_log
from workload.nccl.rule import judge_report
from workload.verdict import Wanted

CORPUS = Path(__file__).parents[1] / "corpus" / "nccl"
CASES: list[dict[str, Any]] = tomllib.loads((CORPUS / "cases.toml").read_text(encoding="utf-8"))["cases"]
_WANTED = ("hosts", "ranks", "nics", "gdr")


def name_of(case: dict[str, Any]) -> str:
    wanted = [f"{key}={case[key]}" for key in _WANTED if key in case]
    return " ".join([*case["files"], case["expect"], *wanted])


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_verdict_on_each_log_and_its_reason(case: dict[str, Any]) -> None:
    report = nccl_log.read((file, [(CORPUS / file).read_bytes()]) for file in case["files"])
    wanted = Wanted(expect=case["expect"], **{key: case[key] for key in _WANTED if key in case})
    verdict = judge_report(report, wanted)
    said = "\n".join(verdict.reasons)
    assert verdict.value == case["verdict"], said
    assert case["reason"] in said


def test_each_log_of_the_corpus_has_a_case() -> None:
    used = {file for case in CASES for file in case["files"]}
    assert {path.name for path in CORPUS.glob("*.log")} == used
    assert len(used) >= 60
