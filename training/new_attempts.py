"""Whether ranks start anew, and why, told while it happens: the next attempt may have to wait for a node that never
comes."""

from typing import Any

from ray.train import UserCallback

from training.failure import cause_of, raise_if_final
from training.job_config import JobConfig
from training.run_directory import RunDirectory


class NewAttempts(UserCallback):  # type: ignore[misc]
    """Called in Ray Train's controller, whose output is the job's."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._failures = 0

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        # Ray Train would try any error of a rank again. What is raised here is the controller's, and ends the run.
        hosts = RunDirectory.of(self._config).hosts()
        raise_if_final(worker_exceptions, hosts)
        self._failures += 1
        if self._failures <= self._config.max_failures:
            cause = cause_of(worker_exceptions, hosts)
            print(
                f"[{self._config.mark}] attempt {self._failures} is lost: {cause}; "
                "all ranks start anew as soon as each has a place",
                flush=True,
            )
