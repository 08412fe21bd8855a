"""The job's figures among Ray's metrics: under the names that the dashboards ask for, tagged by run."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from infra.metrics_dashboards import dashboards
from training.live_metrics import GAUGES, PREFIX, LiveMetrics
from training.metrics import RunMetrics, Scale
from training.step_clock import FORWARD, StepClock


class Gauge:
    """As Ray's, of which it keeps the values."""

    seen: dict[str, list[tuple[float, Mapping[str, str]]]]

    def __init__(self, name: str, description: str = "", tag_keys: tuple[str, ...] = ()) -> None:
        assert description
        self.name, self.tag_keys = name, tag_keys

    def set(self, value: float, tags: Mapping[str, str]) -> None:
        assert set(tags) == set(self.tag_keys)
        Gauge.seen.setdefault(self.name, []).append((value, tags))


@pytest.fixture
def live() -> LiveMetrics:
    Gauge.seen = {}
    return LiveMetrics(Gauge, run="run-1", model="tiny-qwen2")


def last(name: str) -> float:
    return Gauge.seen[f"{PREFIX}{name}"][-1][0]


def test_each_step_sets_loss_speed_and_mfu_of_its_run(live: LiveMetrics) -> None:
    scale = Scale(tokens_per_step=4000, ranks=2, flops_per_token=1e9, peak_flops=1e13)
    metrics = RunMetrics(StepClock(torch.device("cpu")), scale, lambda: 3 * 2**30, live=live)
    for step in (1, 2):
        with metrics.clock.phase(FORWARD):
            pass
        metrics.clock.end_step(step)
        metrics.tell({"train/loss": 4.0 - step, "train/gradient_norm": 0.5, "train/learning_rate": 1e-5})
    assert (last("loss"), last("step"), last("gradient_norm")) == (2.0, 2, 0.5)
    assert last("peak_memory_bytes") == 3 * 2**30
    times = metrics.steps[-1].total
    assert last("tokens_per_second") == pytest.approx(4000 / times)
    assert last("mfu") == pytest.approx(scale.utilization(times))
    assert {tags["run"] for told in Gauge.seen.values() for _, tags in told} == {"run-1"}


def test_what_is_not_known_is_not_told_as_zero(live: LiveMetrics) -> None:
    unknown = RunMetrics(StepClock(torch.device("cpu")), Scale(tokens_per_step=10, ranks=1), lambda: 0, live=live)
    unknown.clock.end_step(1)
    unknown.tell({})
    assert f"{PREFIX}mfu" not in Gauge.seen and f"{PREFIX}loss" not in Gauge.seen


def test_outside_a_ray_worker_there_is_nothing_to_tell_to() -> None:
    assert LiveMetrics.of_ray(run="r", model="m") is None


def test_the_dashboards_ask_for_what_the_job_tells_and_for_all_of_it() -> None:
    shown: dict[str, Any] = dashboards("ray-train")["job"]
    asked = set(re.findall(rf"ray_{PREFIX}(\w+)", json.dumps(shown)))
    assert asked == {name for name, _ in GAUGES.values()} | {"step"}


def test_rays_own_gauge_takes_these_names_and_tags() -> None:
    from ray.util.metrics import Gauge as RaysGauge

    LiveMetrics(RaysGauge, run="r", model="m").tell(1, {"train/loss": 1.0, "memory/peak_gib": 1.0})
