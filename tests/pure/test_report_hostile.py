"""Text that others wrote, such as host names and log lines, is shown and never obeyed."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from report.log_facts import read as read_log
from report.markup import Html, tag, text
from report.page import page
from report.run import Run
from tests.support import report_runs
from tests.support.page_reader import read

HOSTILE = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title></svg></pre></details><img src=x onerror=alert(1)>",
    "\"onmouseover='alert(1)' x=\"",
    "'><svg/onload=alert(1)>",
    "&lt;script&gt;&#60;b&#62;",
    "<!-- --!> <![CDATA[ ]]>",
    "\u202eevil\u2066\u200b",
    "nul\x00esc\x1b[31mred\x1b[0m",
    "lone \ud800 half",
    "A" * 5000,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    runs = tmp_path_factory.mktemp("runs")
    return report_runs.loaded(report_runs.efa(runs))


def poisoned(value: Any, poison: str) -> Any:
    """Every text of it, keys within open mappings included, ends in the poison; numbers stay."""
    if isinstance(value, str):
        return value + poison
    if isinstance(value, Mapping):
        return {key: poisoned(one, poison) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, poison) for one in value]
    return value


def hostile(whole: Run, poison: str) -> Run:
    record = poisoned(copy.deepcopy(dict(whole.record)), poison)
    record["verdict"]["value"] = "refuted"
    for group in ("settings", "versions", "arguments"):
        record[group][poison] = poison
    record["evaluation"]["metrics"] = {poison: {"before": 1.0, "after": 2.0}}
    record["timings"][poison] = 3.0
    record["throughput"]["splitSeconds"][poison] = {"median": 0.1, "p90": 0.2}
    record["transport"]["matrix"][0]["via"] = {poison: 3, f"NET/{poison}": 2}
    steps = [{"name": poison, "seconds": 1.0, "modelSeconds": 2.0}]
    plan = f"[train] memory plan: 6.0 GiB a rank at {poison[:100]} (x); keeps 7.8 of 22.0 GiB: fits {poison[:40]}"
    log = read_log([plan, f"[train] step 1/2 loss {poison} tokens/s 1"])
    return Run(id=f"run{poison}", record=record, log=log, bring_up=steps)


@pytest.mark.parametrize("poison", HOSTILE, ids=range(len(HOSTILE)))
def test_what_others_wrote_adds_no_element_and_no_attribute(whole: Run, poison: str) -> None:
    kind = {(one.name, *sorted(one.attributes)) for one in read(page(hostile(whole, ""))).all()}
    text_ = page(hostile(whole, poison))
    found = {(one.name, *sorted(one.attributes)) for one in read(text_).all()}
    assert found <= kind | {("svg", "aria-hidden", "class", "viewbox")}
    text_.encode("utf-8")
    assert not set(text_) & {"\x00", "\x1b", "\u202e", "\u2066", "\u200b", "\ud800"}


@pytest.mark.parametrize("poison", HOSTILE, ids=range(len(HOSTILE)))
def test_an_error_and_what_a_failed_job_reported_are_shown_as_they_are(poison: str) -> None:
    reported = json.dumps({"status": "failed", "error": poison, "arguments": {poison: poison}})
    run = Run(
        id=poison, record={}, log=read_log([f"RAY_TRAIN_EFA_RECORD {reported}"]), error=f"headline {poison}\n{poison}"
    )
    root = read(page(run, Run(id="other", record={})))
    assert not {one.name for one in root.all()} & {"script", "img", "b"}
    if poison.isprintable():
        assert " ".join(poison.split()) in root.text


def test_text_that_does_not_print_is_spelled_out() -> None:
    assert text("a\u202eb\x00c") == "a\\u202eb\\u0000c"
    assert text('<a href="x">\'&') == "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;"
    assert tag("p", Html("<b>"), "<b>", title='"') == '<p title="&quot;"><b>&lt;b&gt;</p>'


def test_a_secret_that_the_product_kept_out_of_a_record_is_on_no_page(tmp_path: Path) -> None:
    for maker in (report_runs.gloo, report_runs.efa, report_runs.sockets):
        html = page(report_runs.loaded(maker(tmp_path)))
        assert "hf_very_secret" not in html
        assert "bearer_token" not in html
        assert "HF_TOKEN" in html
