"""The job's own figures among Ray's metrics, from where Prometheus scrapes them: each node exports them on port 8080.

Ray puts `ray_` before a name, so that Prometheus knows them as ray_train_efa_loss and so on.
"""

from collections.abc import Callable, Mapping
from typing import Any

GIB = 1024**3
PREFIX = "train_efa_"
# By their tags in RunMetrics; a figure of another tag is TensorBoard's and the record's alone.
GAUGES: Mapping[str, tuple[str, str]] = {
    "train/loss": ("loss", "Mean loss of the step over all ranks"),
    "train/gradient_norm": ("gradient_norm", "Norm of the gradient before clipping"),
    "train/learning_rate": ("learning_rate", "Learning rate of the step"),
    "speed/tokens_per_second": ("tokens_per_second", "Tokens a second of all ranks, of the newest step that is known"),
    "speed/mfu": ("mfu", "Model FLOPs utilization, a share of 1"),
    "time/step": ("step_seconds", "Seconds of the newest step that is known"),
    "memory/peak_gib": ("peak_memory_bytes", "Peak memory of rank 0's device"),
}
_STEP = ("step", "The newest step whose loss is known")
_TAGS = ("run", "model")


class LiveMetrics:
    """Of one attempt; a gauge ends with the process that set it. `gauge` makes one of a name, a description and tags.

    Nothing here waits: Ray hands the values on by itself.
    """

    def __init__(self, gauge: Callable[..., Any], *, run: str, model: str) -> None:
        self._tags = {"run": run, "model": model}
        self._gauges = {tag: _made(gauge, *told) for tag, told in GAUGES.items()}
        self._step = _made(gauge, *_STEP)

    @classmethod
    def of_ray(cls, *, run: str, model: str) -> "LiveMetrics | None":
        """None outside a Ray worker, where nobody would export them."""
        try:
            import ray
            from ray.util.metrics import Gauge
        except ImportError:
            return None
        return cls(Gauge, run=run, model=model) if ray.is_initialized() else None

    def tell(self, step: int, scalars: Mapping[str, float]) -> None:
        for tag, value in scalars.items():
            if (gauge := self._gauges.get(tag)) is not None:
                gauge.set(value * GIB if tag == "memory/peak_gib" else value, tags=self._tags)
        if "train/loss" in scalars:
            self._step.set(step, tags=self._tags)


def _made(gauge: Callable[..., Any], name: str, description: str) -> Any:
    return gauge(f"{PREFIX}{name}", description=description, tag_keys=_TAGS)
