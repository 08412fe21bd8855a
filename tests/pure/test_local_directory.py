"""The directory of a local cluster: found again, short enough, private, held by one at a time."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from infra import local_directory, local_nodes
from infra.local_directory import DirectoryError

LONGEST_SOCKET = "/w16/session_2026-11-29_15-20-13_127523_4194304/sockets/dash_PlatformEventsHead"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "rtefa-0123abcd"
    found.mkdir(mode=0o700)
    return found


def test_a_stack_has_one_directory_and_another_stack_or_clone_another(tmp_path: Path) -> None:
    one = local_nodes.cluster_directory(tmp_path / "a", "local")
    assert one == local_nodes.cluster_directory(tmp_path / "a", "local")
    others = {
        local_nodes.cluster_directory(tmp_path / "a", "dev"),
        local_nodes.cluster_directory(tmp_path / "b", "local"),
    }
    assert len(others | {one}) == 3


def test_every_socket_of_ray_fits_below_it_even_with_a_long_tmpdir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    directory = local_nodes.cluster_directory(tmp_path, "local")
    assert directory.parent == Path("/tmp").resolve()
    assert len(f"{directory}{LONGEST_SOCKET}") <= 107


def test_a_directory_too_long_for_sockets_is_refused_where_it_would_be_made(tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="too long for Ray's sockets"):
        local_directory.create(tmp_path / ("rtefa-" + "x" * 80))


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rt", dir="/tmp") as short:
        directory = Path(short) / "rtefa-1"
        local_directory.create(directory)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        local_directory.create(directory)


def test_an_open_directory_or_a_symbolic_link_in_its_place_is_refused(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="rt", dir="/tmp") as short:
        planted = Path(short) / "rtefa-1"
        planted.mkdir()
        planted.chmod(0o755)
        with pytest.raises(DirectoryError, match="open to other users"):
            local_directory.create(planted)
        link = Path(short) / "rtefa-2"
        link.symlink_to(tmp_path)
        with pytest.raises(DirectoryError, match="symbolic link"):
            local_directory.create(link)


def test_the_token_is_kept_unless_another_is_given_and_nobody_else_can_read_it(directory: Path) -> None:
    local_directory.write_token(directory, None)
    first = local_directory.read_token(directory)
    assert first is not None
    assert len(first) == 64
    assert stat.S_IMODE(local_directory.token_path(directory).stat().st_mode) == 0o600
    local_directory.write_token(directory, None)
    assert local_directory.read_token(directory) == first
    local_directory.write_token(directory, "given")
    assert local_directory.read_token(directory) == "given"


def test_a_state_of_another_schema_or_a_torn_one_counts_as_none(directory: Path) -> None:
    assert local_directory.read_state(directory) is None
    local_directory.write_state(directory, {"cluster_id": "a"})
    assert local_directory.read_state(directory) == {"schema": local_directory.STATE_SCHEMA, "cluster_id": "a"}
    (directory / "cluster.json").write_text('{"schema": 999}')
    assert local_directory.read_state(directory) is None
    (directory / "cluster.json").write_text('{"schema": 1, ')
    assert local_directory.read_state(directory) is None


def test_clearing_keeps_the_token_when_asked_and_else_removes_everything(directory: Path) -> None:
    local_directory.write_token(directory, None)
    (directory / "h" / "logs").mkdir(parents=True)
    local_directory.clear(directory, keep_token=True)
    assert [entry.name for entry in directory.iterdir()] == ["token"]
    local_directory.clear(directory)
    assert not directory.exists()
    local_directory.clear(directory)


def test_clearing_refuses_a_directory_that_is_not_a_clusters(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(DirectoryError, match="nothing removed"):
        local_directory.clear(tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()


def test_a_directory_is_held_by_one_process_at_a_time_and_freed_by_its_death(directory: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from infra import local_directory\n"
        "with local_directory.locked(Path(sys.argv[1]), wait_seconds=0): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold, str(directory)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(DirectoryError, match="another process is starting or stopping"),
            local_directory.locked(directory, wait_seconds=0.2),
        ):
            pass
        holder.kill()
    with local_directory.locked(directory, wait_seconds=60):
        pass


def test_a_stop_without_a_cluster_is_no_error(tmp_path: Path) -> None:
    assert local_nodes.stop(tmp_path / "rtefa-none", say=print) == ()
    assert local_nodes.load(tmp_path / "rtefa-none") is None
    assert local_nodes.inspect(tmp_path / "rtefa-none").state == "stopped"
    assert not os.path.lexists(tmp_path / "rtefa-none")
