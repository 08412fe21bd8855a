"""`efactl status` and `efactl logs` over a real Ray cluster: while a job runs, and once it has ended."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from efactl.exit_codes import ExitCode
from efactl.logs import logs
from efactl.status import gather
from efactl.status.gather import document
from efactl.status.screen import lines
from infra import local_nodes
from tests.local.test_job import Runner, in_background, until
from tests.support.known_stack import KnownStack, local_cluster, secret
from workload import log_selection

pytestmark = pytest.mark.local

SAID = "a-secret-of-the-job"


class Looking:
    """A job that waits after its second step, and what is seen of it meanwhile."""

    def __init__(self, cluster: local_nodes.LocalCluster, folder: Path) -> None:
        self.runner = Runner(cluster, folder)
        self.release = folder / "release"
        self.runs = folder / "runs"
        self.token = cluster.token
        held = local_cluster(
            address=cluster.address,
            token=secret(cluster.token),
            directory=str(Path(cluster.token_path).parent),
            unused=secret(SAID),
        )
        self.stack = KnownStack([held])

    def start(self) -> tuple[Thread, list[BaseException]]:
        request = self.runner.request("looking", QUICK_SHOW="=SHOWN", SHOWN=SAID, QUICK_HOLD=str(self.release))
        begun = in_background(lambda: self.runner.run(request))
        until(lambda: any("step 2/4" in path.read_text() for path in self.logs()), seconds=120, what="the second step")
        return begun

    def logs(self) -> list[Path]:
        return list(self.runs.glob("*/job.log"))


@pytest.fixture
def looking(cluster: local_nodes.LocalCluster, tmp_path: Path) -> Iterator[Looking]:
    looking = Looking(cluster, tmp_path)
    try:
        yield looking
    finally:
        looking.release.touch()


def test_a_job_is_seen_and_followed_while_it_runs_and_looked_up_once_it_has_ended(
    looking: Looking, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as a busy machine needs: that it gives up what hangs is tested elsewhere.
    monkeypatch.setattr(gather, "PART_S", 60.0)
    thread, raised = looking.start()

    told = document(looking.stack, runs=looking.runs)
    assert [(node["role"], node["ready"]) for node in told["nodes"]] == [
        ("head", True),
        ("worker", True),
        ("worker", True),
    ]
    assert (told["rayCluster"]["workersReady"], told["rayCluster"]["problem"]) == (2, None)
    assert (told["ray"]["nodesAlive"], told["ray"]["problem"]) == (3, None)
    assert told["ray"]["resources"]["trainer"]["total"] == 4
    running = told["job"]["running"]
    assert (running["status"], running["step"], running["steps"], running["loss"]) == ("RUNNING", 2, 4, 5.5)
    assert "step 2/4, loss 5.5000" in "\n".join(lines(told))

    assert logs(looking.stack, log_selection.everything, follow=False, runs=looking.runs) == ExitCode.OK
    so_far = capfd.readouterr().out
    assert "step 2/4" in so_far
    assert "value of SHOWN is ***" in so_far, "the head has the log as it was printed"

    code: list[ExitCode] = []
    following = Thread(
        target=lambda: code.append(logs(looking.stack, log_selection.driver, follow=True, runs=looking.runs))
    )
    following.start()
    looking.release.touch()
    following.join(60)
    thread.join(60)
    assert not raised, raised
    assert code == [ExitCode.OK]
    followed, notes = capfd.readouterr()
    steps = [line for line in followed.splitlines() if line.startswith("[train] step ")]
    assert [line.split()[2] for line in steps] == ["1/4", "2/4", "3/4", "4/4"], "from the first line to the last"
    assert "RAY_TRAIN_EFA_RECORD" not in followed
    assert "ended as SUCCEEDED" in notes

    (log,) = looking.logs()
    told = document(looking.stack, runs=looking.runs)
    assert told["job"]["running"] is None
    assert (told["job"]["lastEnded"]["submissionId"], told["job"]["lastEnded"]["status"]) == (
        log.parent.name,
        "SUCCEEDED",
    )
    assert looking.token not in str(told)
    assert logs(looking.stack, log_selection.everything, follow=False, runs=looking.runs) == ExitCode.OK
    ended = capfd.readouterr().out
    assert ended.splitlines()[-1].startswith("RAY_TRAIN_EFA_RECORD"), "the whole log"
    assert SAID not in ended
