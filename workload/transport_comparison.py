"""A controlled comparison as a Pulumi resource: its inputs decide when it is made anew."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from workload.arms import Arm, Arms
from workload.comparison import result_of
from workload.errors import ReportedError, RunInterruptedError
from workload.held_inputs import as_asked
from workload.job_spec import file_digests
from workload.provider_process import differing, interrupt, reported, say
from workload.ray_train_job import IDENTITY as JOB_IDENTITY
from workload.ray_train_job import job_request
from workload.record_copies import copy_comparison
from workload.verdict import RULES, Wanted, wanted_of

# A resource of this provider keeps its place in old states by this import path: do not rename module or class.
IDENTITY = (*JOB_IDENTITY, "arms", "repeats", "steps", "bandwidth", "sizes", "nics", "gdr", "rules")
OUTPUTS = ("result", "report")


class TransportComparisonProvider(ResourceProvider):
    """Delegates to `workload.compare_runs`. A comparison that was carried out is stored, whatever came of it."""

    serialize_as_secret_always = False

    @reported
    def create(self, props: dict[str, Any]) -> CreateResult:
        # Ray's client costs seconds of import; an unchanged `up` never comes here.
        from workload.compare_runs import REPORT, TEXT, carry_out
        from workload.comparison_plan import Plan

        first, second = (Arm(name=arm["name"], expect=arm["expect"], env=arm["env"]) for arm in props["arms"])
        plan = Plan(
            request=job_request(props),
            wanted=wanted_of(props),
            settings=props["settings"],
            arms=(first, second),
            repeats=int(props["repeats"]),
            steps=int(props["steps"]),
            sizes=list(props["sizes"]) if props["bandwidth"] else None,
        )
        done = carry_out(plan, say=say, interrupt=interrupt)
        copy_comparison(props, done.report.parent, say, own=(TEXT, REPORT))
        comparison, report = done.comparison, str(done.report)
        if comparison.status == "interrupted":
            raise RunInterruptedError(
                f"{comparison.reasons[0]}: none of them runs on. The next `pulumi up` begins anew; so far: {report}"
            )
        if comparison.error:
            raise ReportedError(f"the comparison failed: {comparison.error}\nso far: {report}")
        say(f"comparison {comparison.status}; {report}")
        outs = {**props, "result": result_of(comparison), "report": report}
        return CreateResult(id_=done.report.parent.name, outs=outs)

    @reported
    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        changed = differing(olds, news, IDENTITY)
        return DiffResult(changes=bool(changed), replaces=changed)

    @reported
    def update(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        """Reached only after a refresh or an import: nothing but a replacement makes a comparison."""
        return UpdateResult(outs={**news, **{key: olds.get(key) for key in OUTPUTS}})

    @reported
    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Its jobs have ended; its report is the user's and stays."""


class TransportComparison(Resource, module="workload", name="TransportComparison"):
    """The job of a RayTrainJob, whose inputs it takes, in two arms, `repeats` times each.

    `wanted` is what the job is judged by, of which interfaces and GPUDirect count for an arm that expects efa. `sizes`
    are those of the all-reduces (empty: the backend's own). `result` is `workload.comparison.result_of`, `report` the
    JSON file. `records` is where its runs and its report are copied, as RunGate has it.
    """

    result: pulumi.Output[dict[str, Any]]
    report: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        arms: Arms,
        repeats: int,
        steps: int,
        bandwidth: bool,
        sizes: Sequence[str] = (),
        head: pulumi.Input[Mapping[str, Any]],
        training_digest: str,
        arguments: Mapping[str, Any],
        pip: Sequence[str],
        env: Mapping[str, str],
        secret_env: pulumi.Input[Mapping[str, str]],
        secret_env_names: Sequence[str],
        image: str,
        cluster_spec_digest: str,
        run_id: str,
        storage: pulumi.Input[str],
        deadline_seconds: int,
        wanted: Wanted,
        settings: Mapping[str, Any],
        placement: pulumi.Input[Sequence[Mapping[str, Any]]] = (),
        stack: str = "",
        hourly_usd: float | None = None,
        records: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {
            "arms": [arm.as_json() for arm in arms],
            "repeats": repeats,
            "steps": steps,
            "bandwidth": bandwidth,
            "sizes": list(sizes),
            "head": head,
            "training_digest": training_digest,
            "arguments": dict(arguments),
            "pip": list(pip),
            "pip_digests": file_digests(pip),
            "env": dict(env),
            "secret_env": secret_env,
            "secret_env_names": sorted(secret_env_names),
            "image": image,
            "cluster_spec_digest": cluster_spec_digest,
            "run_id": run_id,
            "storage": storage,
            "deadline_seconds": deadline_seconds,
            "expect": wanted.expect,
            "nics": wanted.nics,
            "gdr": wanted.gdr,
            "rules": RULES,
            "settings": dict(settings),
            "placement": placement,
            "stack": stack,
            "hourly_usd": hourly_usd,
            "records": dict(records or {}),
            **dict.fromkeys(OUTPUTS),
        }
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(additional_secret_outputs=["secret_env"]))
        super().__init__(TransportComparisonProvider(), name, props, opts)
        self.as_asked = as_asked(self, props, identity=IDENTITY, result="report")
