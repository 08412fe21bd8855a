"""A preview of the example eks stack without an account: everything it would make, from the real engine."""

from collections.abc import Iterator

import pytest

from tests.support.standin_project import StandinProject

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandinProject]:
    yield StandinProject(tmp_path_factory.mktemp("preview") / "project")


def test_a_preview_shows_every_resource_down_to_the_job_and_asks_without_changing(project: StandinProject) -> None:
    changes = project.changes()
    assert set(changes.values()) == {"create"}
    assert {"ray-reservation-capacity", "ray-eks-cluster-eksCluster", "ray-gpu-group", "ray-kubernetes-ready"} <= set(
        changes
    )
    assert {"train", "gate"} <= set(changes)
    assert {call["operation"] for call in project.calls()} == {"invoke"}
    assert project.remaining() == []


def test_an_aws_command_that_is_too_old_is_refused_as_by_the_real_component(project: StandinProject) -> None:
    path = project.environment["PATH"]
    others = path.split(":")[1:]
    with_old = project.folder.with_name("old-aws")
    with_old.mkdir(exist_ok=True)
    (with_old / "aws").write_text("#!/bin/sh\necho aws-cli/2.6.0 Python/3.9\n")
    (with_old / "aws").chmod(0o755)
    project.environment["PATH"] = ":".join([str(with_old), *others])
    try:
        refused = project.pulumi("preview")
    finally:
        project.environment["PATH"] = path
    assert refused.returncode != 0
    assert "at least v2.7.0 of aws-cli is required" in refused.stdout
