"""`efactl down` of an eks stack on the real engine: the account is asked before the destroy whose it is, and after it
what is left; the account is a stand-in, and so is the AWS that is asked."""

import shutil
from collections.abc import Iterator

import pytest

from efactl.exit_codes import ExitCode
from tests.support.project import ROOT
from tests.support.standin_project import StandinProject
from tools.standin import endpoint, tokens
from tools.standin.account import Account, Entry

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider, pytest.mark.full]

REGION, NAME = "us-west-2", "ray-dev"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    """Made as far as its node groups, which fail."""
    project = StandinProject(tmp_path_factory.mktemp("down") / "project")
    if not (project.folder / "capacity").exists():
        shutil.copytree(ROOT / "capacity", project.folder / "capacity", ignore=shutil.ignore_patterns("__pycache__"))
    with endpoint.serving(project.account_folder) as environment:
        project.environment.update(environment)
        fault = {"type": "NodeGroup", "operation": "create", "code": "VcpuLimitExceeded", "message": "no", "times": 0}
        project.set_scenario(faults=[fault])
        done = project.up()
        project.set_scenario()
        assert "VcpuLimitExceeded" in done.stdout
        yield project


def test_another_account_is_refused_and_nothing_is_touched(project: StandinProject) -> None:
    before = [entry.id for entry in project.remaining()]
    assert tokens.CLUSTER in {entry.token for entry in project.remaining()}
    project.set_scenario(account="210987654321")
    done = project.efactl("down")
    project.set_scenario()
    assert done.returncode == ExitCode.FAILED
    assert "was made in account 123456789012, and these credentials are of account 210987654321" in done.stderr
    assert [entry.id for entry in project.remaining()] == before


def test_a_half_made_stack_is_destroyed_and_what_its_state_did_not_know_is_found(project: StandinProject) -> None:
    forgotten = Entry(
        token=tokens.EIP,
        id="eipalloc-0123456789abcdef0",
        region=REGION,
        inputs={"domain": "vpc"},
        outputs={"tagsAll": {"ray-train-efa/name": NAME}},
    )
    with Account(project.account_folder).open() as records:
        records.put(forgotten)
    done = project.efactl("down")
    assert done.returncode == ExitCode.FAILED, done.stdout + done.stderr
    assert "still billing: public address eipalloc-0123456789abcdef0 in us-west-2" in done.stdout
    assert "aws ec2 release-address --region us-west-2 --allocation-id eipalloc-0123456789abcdef0" in done.stdout
    assert [entry.id for entry in project.remaining()] == [forgotten.id]


def test_once_that_is_gone_too_a_second_down_says_so(project: StandinProject) -> None:
    with Account(project.account_folder).open() as records:
        records.remove(tokens.EIP, "eipalloc-0123456789abcdef0")
    done = project.efactl("down")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "nothing of stack dev is left" in done.stdout
    assert project.state() == []


def test_and_so_does_one_of_a_stack_that_the_backend_lost(project: StandinProject) -> None:
    settings = (project.folder / "Pulumi.dev.yaml").read_text()
    project.must("stack", "rm", "--yes")
    (project.folder / "Pulumi.dev.yaml").write_text(settings)
    done = project.efactl("down")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "there is no stack dev in this backend: nothing was destroyed" in done.stdout
    assert "looking in account 123456789012, us-west-2" in done.stderr
