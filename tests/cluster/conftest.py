"""One bed for all tests of this folder, which are skipped, and say why, on machines that cannot run it."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.bed import Bed, gpu_nodes, programs, start_bed, system_node, why_not

HERE = Path(__file__).parent
_skipped = pytest.StashKey[int]()


def _is_here(item: pytest.Item) -> bool:
    return HERE in item.path.parents


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if _is_here(item)]
    reason = why_not() if here else None
    for item in here:
        item.add_marker(pytest.mark.cluster)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"no test bed: {reason}"))
        else:
            item.add_marker(pytest.mark.kubernetes_provider)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds before the first test, since a cold build takes longer than any test may."""
    selected = sum(map(_is_here, session.items))
    if why_not():
        session.config.stash[_skipped] = selected
    elif selected and not session.config.option.collectonly and programs.cached() is None:
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            programs.build()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(_skipped, 0):
        terminalreporter.section("KUBERNETES NOT TESTED", yellow=True, bold=True)
        terminalreporter.line(f"{count} tests of tests/cluster are skipped: {why_not()}")


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A bed with the KubeRay operator, one system node and four GPU nodes (room for two stacks), devices published."""
    with start_bed(tmp_path_factory.mktemp("bed"), nodes=[system_node(), *gpu_nodes(4)]) as started:
        yield started


@pytest.fixture
def namespace(bed: Bed) -> Iterator[str]:
    """A fresh namespace of the shared bed; afterwards it and all in it are gone."""
    name = f"test-{secrets.token_hex(3)}"
    bed.create_namespace(name)
    yield name
    bed.delete_namespace(name)
