"""Carries a comparison out: one job after the other, each proven to be of its arm before the next one starts."""

import dataclasses
import datetime
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from workload import bandwidth, job, record_file
from workload.arms import Arm, alternating, unheard
from workload.comparison import AllReduce, ArmRun, Comparison
from workload.comparison_plan import Plan
from workload.comparison_report import as_json, lines
from workload.counting_attempt import counting_attempt
from workload.errors import ReportedError, RunInterruptedError
from workload.head import reach
from workload.job_following import JobOutcome, JobRequest, persisting, stop_and_wait
from workload.jobs_api import JobsApi, running
from workload.placement import at_the_end
from workload.run_record import write_run_record
from workload.transport import judge
from workload.verdict import Verdict

REPORT, TEXT = "comparison.json", "comparison.txt"

Say = Callable[[str], None]


class Run(Protocol):
    def __call__(self, request: JobRequest, *, say: Say, interrupt: Event) -> JobOutcome: ...


class Measure(Protocol):
    def __call__(
        self, request: JobRequest, *, sizes: Sequence[str], say: Say, interrupt: Event
    ) -> bandwidth.BandwidthOutcome: ...


class Stop(Protocol):
    def __call__(self, request: JobRequest, *, say: Say) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Compared:
    """`report` is the JSON file of the comparison; its text lies beside it."""

    comparison: Comparison
    report: Path


def stop_own(request: JobRequest, *, say: Say) -> None:
    """Stops those unfinished jobs of the head whose folders lie in `request.runs`, and waits for their end."""
    own = {path.name for path in request.runs.iterdir() if path.is_dir()}
    if not own:
        return
    try:
        with reach(request.head) as endpoint:
            api = persisting(lambda: JobsApi(endpoint))
            for state in running(persisting(api.jobs)):
                if state.submission_id in own:
                    say(f"stopping job {state.submission_id}")
                    if not stop_and_wait(api, state.submission_id):
                        say(f"job {state.submission_id} has not stopped yet: `{request.stop_command}` tries again")
    except ReportedError as error:
        say(f"whether a job of the comparison still runs is not known ({error}); `{request.stop_command}` stops it")


def carry_out(
    plan: Plan,
    *,
    say: Say,
    interrupt: Event,
    run: Run = job.run,
    measure: Measure = bandwidth.measure,
    stop: Stop = stop_own,
) -> Compared:
    """Runs until the comparison is complete or cannot become so, and keeps what there is after every job.

    A failed, unproven or interrupted job ends it: the result says why, and none of its jobs is left running. Raises
    ReportedError where no report can be kept.
    """
    began = datetime.datetime.now(datetime.UTC)
    folder = plan.request.runs / f"compare-{began:%Y%m%dT%H%M%SZ}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ReportedError(f"the folder {folder} for the comparison cannot be made: {error}") from error
    return _Carrying(plan, folder, began, say, interrupt, run, measure, stop).to_the_end()


class _Carrying:
    def __init__(
        self,
        plan: Plan,
        folder: Path,
        began: datetime.datetime,
        say: Say,
        interrupt: Event,
        run: Run,
        measure: Measure,
        stop: Stop,
    ) -> None:
        self._plan, self._folder, self._began, self._say, self._interrupt = plan, folder, began, say, interrupt
        self._run, self._measure, self._stop = run, measure, stop
        self._so_far = Comparison(
            arms=plan.arms, repeats=plan.repeats, steps=plan.steps, with_bandwidth=plan.sizes is not None
        )

    def to_the_end(self) -> Compared:
        first, second = self._plan.arms
        self._say(f"comparing {first.name} with {second.name}: {self._so_far.planned} jobs; {self._folder / TEXT}")
        try:
            for repeat, arm in alternating(self._plan.arms, self._plan.repeats):
                self._repeat(arm, repeat)
                if self._so_far.useless:
                    break
        except RunInterruptedError:
            self._so_far = dataclasses.replace(self._so_far, interrupted=True)
        except ReportedError as error:
            self._so_far = dataclasses.replace(self._so_far, error=str(error))
        except BaseException as error:
            crossed = isinstance(error, KeyboardInterrupt)
            self._end(dataclasses.replace(self._so_far, interrupted=crossed, error=f"{type(error).__name__}: {error}"))
            raise
        return self._end(self._so_far)

    def _end(self, comparison: Comparison) -> Compared:
        self._so_far = comparison
        try:
            report = self._keep()
        finally:
            if comparison.status != "complete":
                self._stop(dataclasses.replace(self._plan.request, runs=self._folder), say=self._say)
        return Compared(comparison=comparison, report=report)

    def _repeat(self, arm: Arm, repeat: int) -> None:
        """The arm's job, and its bandwidth where that is asked for, unless the job was in vain."""

        def say(line: str) -> None:
            self._say(f"[{arm.name} {repeat}/{self._plan.repeats}] {line}")

        request = self._plan.request_of(arm, repeat, name=self._folder.name)
        self._add(runs=(*self._so_far.runs, self._train(request, arm, repeat, say)))
        if self._plan.sizes is not None and not self._so_far.useless:
            all_reduce = self._all_reduce(request, self._plan.sizes, arm, repeat, say)
            self._add(all_reduces=(*self._so_far.all_reduces, all_reduce))

    def _train(self, request: JobRequest, arm: Arm, repeat: int, say: Say) -> ArmRun:
        self._mind_interruption()
        outcome = self._run(request, say=say, interrupt=self._interrupt)
        request = dataclasses.replace(request, placement=at_the_end(request.head, request.placement))
        wanted = self._plan.wanted_of(arm)
        path, record = write_run_record(request, outcome, wanted=wanted, settings=self._plan.settings)
        transport, throughput = record["transport"], record["throughput"]
        ranks = counting_attempt(record["attempts"]).get("ranks", [])
        verdict = _also(judge(transport, wanted), unheard(arm, ranks))
        say(f"transport {verdict.value}, expected {verdict.expect}")
        return ArmRun(
            arm=arm.name,
            repeat=repeat,
            submission_id=outcome.submission_id,
            record=str(path),
            verdict=verdict,
            hosts=len({rank["node"] for rank in transport["ranks"]}),
            ranks=int(transport["worldSize"]),
            step_seconds=_above_zero((throughput["stepSeconds"] or {}).get("median"), "step time", outcome),
            tokens_per_second=_above_zero(throughput["tokensPerSecond"], "tokens/s", outcome),
        )

    def _all_reduce(self, request: JobRequest, sizes: Sequence[str], arm: Arm, repeat: int, say: Say) -> AllReduce:
        self._mind_interruption()
        outcome = self._measure(request, sizes=sizes, say=say, interrupt=self._interrupt)
        verdict = _also(judge(outcome.transport, self._plan.wanted_of(arm)), unheard(arm, outcome.ranks))
        say(f"all-reduce: transport {verdict.value}, expected {verdict.expect}")
        for row in outcome.rows:
            _above_zero(row["busbw_gbs"], "bus bandwidth", outcome)
        return AllReduce(
            arm=arm.name,
            repeat=repeat,
            submission_id=outcome.submission_id,
            record=str(outcome.record),
            verdict=verdict,
            hosts=len({rank["node"] for rank in outcome.transport["ranks"]}),
            ranks=outcome.world_size,
            rows=tuple(outcome.rows),
        )

    def _mind_interruption(self) -> None:
        """Between two jobs nobody else looks."""
        if self._interrupt.is_set():
            raise RunInterruptedError("interrupted")

    def _add(self, **more: Any) -> None:
        self._so_far = dataclasses.replace(self._so_far, **more)
        self._keep()

    def _keep(self) -> Path:
        report, text = self._folder / REPORT, self._folder / TEXT
        now = datetime.datetime.now(datetime.UTC)
        times = {"startedAt": record_file.iso(self._began.timestamp()), "updatedAt": record_file.iso(now.timestamp())}
        whole = {**as_json(self._so_far, self._plan.min_ratio), **times, "job": self._plan.job()}
        record_file.write(report, whole)
        try:
            text.write_text("\n".join([*lines(self._so_far, self._plan.min_ratio), ""]), encoding="utf-8")
        except OSError as error:
            raise ReportedError(f"{text} cannot be written: {error}") from error
        return report


def _also(verdict: Verdict, reasons: Sequence[str]) -> Verdict:
    """A run that is not shown to have had its arm's environment is not proven to be of that arm."""
    if not reasons or not verdict.passes:
        return verdict
    return Verdict(expect=verdict.expect, value="unproven", reasons=tuple(reasons))


def _above_zero(value: Any, what: str, outcome: JobOutcome | bandwidth.BandwidthOutcome) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ReportedError(f"job {outcome.submission_id} reports no {what} above 0: {json.dumps(value)}")
    return float(value)
