"""PURE: the kinds of job of this product: the program, what its runs are called, and what its record must hold."""

from dataclasses import dataclass

from workload import job_record
from workload.job_spec import RUN_NAME


@dataclass(frozen=True, kw_only=True)
class JobKind:
    """`module` is started with `python -m`; `run_name` begins its submission ids."""

    module: str
    run_name: str
    schema: str
    required: tuple[str, ...]
    goes_on: bool
    """Whether a run goes on from the checkpoints of one of the same spec that did not finish."""


TRAINING = JobKind(
    module="training.train",
    run_name=RUN_NAME,
    schema=job_record.SCHEMA,
    required=job_record.REQUIRED,
    goes_on=True,
)
BANDWIDTH = JobKind(
    module="training.bandwidth",
    run_name="ray-train-bandwidth",
    schema="ray-train-efa/bandwidth-record/1",
    required=("schema", "run_id", "status", "arguments", "world_size", "attempts", "timings", "rows"),
    goes_on=False,
)


def is_ours(submission_id: str) -> bool:
    """Whether an id is that of a job of any of these kinds."""
    return any(submission_id.startswith(f"{kind.run_name}-") for kind in (TRAINING, BANDWIDTH))
