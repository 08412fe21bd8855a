"""What a comparison is to run: a stack's job in two arms, shortened, so many times each."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workload.arms import Arm, Arms
from workload.comparison import LEAST_REPEATS, LEAST_STEPS
from workload.errors import BadInputError
from workload.job_following import JobRequest
from workload.verdict import Wanted

# What of a job's arguments is no part of how fast its steps are.
_LEFT_OUT = (
    *("resume_from", "kill_at_step", "eval_every", "warm_up_steps", "lr_floor"),
    *("export_to", "export_dtype", "profile_steps", "keep_checkpoints", "checkpoint_mode"),
)
_SHORTENED = {"checkpoint_every": 0, "eval_batches": 1, "max_failures": 0}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A comparison with the job of `request`, which is a stack's; `wanted` is what that job is judged by.

    `sizes` are those of the all-reduces: empty takes the backend's own, None measures no bandwidth. `min_ratio` is
    only reported.
    """

    request: JobRequest
    wanted: Wanted
    settings: Mapping[str, Any]
    arms: Arms
    repeats: int
    steps: int
    sizes: Sequence[str] | None
    min_ratio: float | None = None

    def __post_init__(self) -> None:
        """Raises BadInputError."""
        if self.repeats < LEAST_REPEATS:
            raise BadInputError(f"{self.repeats} repeats: fewer than {LEAST_REPEATS} say nothing about noise")
        if self.steps < LEAST_STEPS:
            raise BadInputError(f"{self.steps} steps: at least {LEAST_STEPS} are needed, since the first ones warm up")
        for arm in self.arms:
            if secret := sorted(set(arm.env) & set(self.request.spec.secret_env)):
                raise BadInputError(
                    f"arm {arm.name}: {', '.join(secret)} is a secret of the job, and would have its value"
                )

    def request_of(self, arm: Arm, repeat: int, *, name: str) -> JobRequest:
        """The job of one run of an arm in the comparison `name`: other inputs, and so another job than any other."""
        spec = self.request.spec
        kept = {key: value for key, value in spec.arguments.items() if key not in _LEFT_OUT}
        return dataclasses.replace(
            self.request,
            # Folders of their own: none of these runs is taken for the stack's, or collected by an `up`.
            runs=self.request.runs / name,
            storage=f"{self.request.storage.rstrip('/')}/{name}",
            spec=dataclasses.replace(
                spec,
                arguments={**kept, **_SHORTENED, "steps": self.steps},
                env={**spec.env, **arm.env},
                run_id=f"{name} {arm.name} {repeat}",
            ),
        )

    def wanted_of(self, arm: Arm) -> Wanted:
        """What an arm's runs are judged by; interfaces and GPUDirect are demanded of EFA alone."""
        if arm.expect == "efa":
            return dataclasses.replace(self.wanted, expect="efa")
        return dataclasses.replace(self.wanted, expect=arm.expect, nics=None, gdr=False)

    def job(self) -> dict[str, Any]:
        """What both arms have in common, for the report."""
        spec = self.request.spec
        return {
            "trainingDigest": spec.training_digest,
            "image": spec.image,
            "arguments": dict(sorted(spec.arguments.items())),
            "shortened": {**_SHORTENED, "steps": self.steps, "without": list(_LEFT_OUT)},
            "env": dict(sorted(spec.env.items())),
            "secretEnvNames": sorted(spec.secret_env),
            "pip": list(spec.pip),
            "cluster": self.request.head.named,
            "clusterSpecDigest": spec.cluster_spec_digest,
        }
