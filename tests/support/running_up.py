"""An `up` that runs while a test breaks something under it."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.project import Project, end_group, wait_for


class RunningUp:
    """Every wait has an end; a test that meets it shows what the `up` has said so far."""

    def __init__(self, project: Project, process: "subprocess.Popen[str]") -> None:
        self._project, self.process = project, process

    @property
    def output(self) -> str:
        return self._project.said()

    @property
    def job(self) -> str:
        """The submission id it follows."""
        found = re.search(r"job (\S+) submitted", self.output)
        assert found, f"no job was submitted:\n{self.output}"
        return found[1]

    @property
    def folder(self) -> Path:
        return self._project.folder / "runs" / self.job

    @property
    def submitted(self) -> set[str]:
        """Every job that it submitted; the output tells each line twice, live and at the end."""
        return set(re.findall(r"job (\S+) submitted", self.output))

    @property
    def log(self) -> str:
        """The job's log as far as it has come; empty before there is one."""
        found = list((self._project.folder / "runs").glob(f"{self.job}/job.log")) if " submitted" in self.output else []
        return found[0].read_text() if found else ""

    @property
    def step(self) -> int:
        """The last step whose line has come: the job's log has every one, the output one in some seconds."""
        return max((int(step) for step in re.findall(r"\[train\] step (\d+)/", self.log)), default=0)

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def says(self, text: str, *, seconds: float) -> None:
        """Waits until it has said so."""
        wait_for(lambda: text in self.output or self.has_ended, seconds=seconds, what=f"saying '{text}'")
        assert text in self.output, f"it ended without saying '{text}':\n{self.output}"

    def reaches(self, step: int, *, seconds: float) -> None:
        """Waits until a step has ended while the `up` goes on."""
        wait_for(lambda: self.has_ended or self.step >= step, seconds=seconds, what=f"step {step}")
        assert not self.has_ended, f"it ended before step {step}:\n{self.output}"

    def ends(self, *, seconds: float) -> int:
        """Its exit code."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"`pulumi up` has not ended within {seconds:.0f} s:\n{self.output}") from None

    def succeeds(self, *, seconds: float) -> str:
        assert self.ends(seconds=seconds) == 0, self.output
        return self.output

    def fails(self, *, seconds: float) -> str:
        assert self.ends(seconds=seconds) != 0, self.output
        assert "Traceback" not in self.output, self.output
        return self.output


@contextlib.contextmanager
def running_up(project: Project) -> Iterator[RunningUp]:
    process = project.start_up()
    try:
        yield RunningUp(project, process)
    finally:
        end_group(process)
