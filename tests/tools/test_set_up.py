"""`make setup` in a fresh clone: what it installs, when, and that a second time it installs nothing."""

import subprocess
from pathlib import Path

from tests.tools.conftest import SmallClone


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*") if path.is_file()}


def test_a_fresh_clone_gets_the_locked_packages_and_both_commands(small_clone: SmallClone) -> None:
    cli = small_clone.add_cli("3.250.1")
    code, text = small_clone.run()
    assert code == 0, text
    assert small_clone.installed() == "1.0"
    assert str(cli) in (small_clone.venv / "bin" / "pulumi").read_text()
    for said in ("python   3.", "uv       ", "packages 1 installed", f"pulumi   3.250.1, on PATH ({cli})"):
        assert said in text, f"set-up must say what it uses: {said!r} is not in\n{text}"


def test_a_second_set_up_installs_nothing_and_asks_nothing_that_takes_time(small_clone: SmallClone) -> None:
    noting = '#!/bin/sh\necho "$0 $*" >>"${0%/*}/asked"\necho v3.250.1\n'
    small_clone.add_cli("3.250.1").write_text(noting)
    assert small_clone.run()[0] == 0
    (small_clone.programs / "asked").unlink()
    (small_clone.programs / "uv").unlink()
    small_clone.program("uv", noting)
    before = files_of(small_clone.venv)
    code, text = small_clone.run()
    assert code == 0
    assert text.count("\n") == 1
    assert "nothing to install" in text
    assert files_of(small_clone.venv) == before
    assert not (small_clone.programs / "asked").exists()


def test_a_changed_lock_is_installed_and_an_interrupted_install_is_finished(small_clone: SmallClone) -> None:
    small_clone.add_cli("3.250.1")
    assert small_clone.run()[0] == 0
    small_clone.lock("2.0")
    code, text = small_clone.run()
    assert code == 0, text
    assert "requirements.lock changed" in text
    assert small_clone.installed() == "2.0"

    small_clone.lock("3.0")
    (small_clone.root / "wheels" / "tiny-3.0-py3-none-any.whl").rename(small_clone.root / "hidden")
    code, text = small_clone.run()
    assert code == 1
    assert "packages of requirements.lock could not be installed" in text
    (small_clone.root / "hidden").rename(small_clone.root / "wheels" / "tiny-3.0-py3-none-any.whl")
    assert small_clone.run()[0] == 0
    assert small_clone.installed() == "3.0"


def test_a_package_that_differs_from_its_hash_is_refused(small_clone: SmallClone) -> None:
    small_clone.add_cli("3.250.1")
    lock = small_clone.project / "requirements.lock"
    name, digest = lock.read_text().rsplit(":", 1)
    lock.write_text(f"{name}:{digest.strip()[::-1]}\n")
    code, text = small_clone.run()
    assert code == 1
    assert "hash" in text.lower(), text


def test_a_moved_clone_gets_an_environment_that_works_there(small_clone: SmallClone) -> None:
    small_clone.add_cli("3.250.1")
    assert small_clone.run()[0] == 0
    moved = small_clone.root / "moved clone"
    small_clone.project.rename(moved)
    small_clone.project = moved
    code, text = small_clone.run()
    assert code == 0, text
    assert "the project was moved" in text
    assert f"'{moved}'" in (small_clone.venv / "bin" / "pulumi").read_text()


def test_a_version_managers_shim_that_does_not_run_is_passed_over(small_clone: SmallClone) -> None:
    small_clone.add_cli("3.250.1")
    small_clone.program("python3.13", "#!/bin/sh\necho 'python3.13: command not found' >&2\nexit 127\n")
    code, text = small_clone.run()
    assert code == 0, text


def test_a_python_that_cannot_be_used_is_refused_with_its_version(small_clone: SmallClone) -> None:
    old = small_clone.program(
        "old-python", '#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 9\n'
    )
    code, text = small_clone.run(PYTHON=str(old))
    assert code == 1
    assert f"PYTHON={old} cannot be used (Python 3.9.2): it must be Python 3.11 to 3.13" in text


def test_a_machine_without_a_fitting_python_is_told_what_to_install(small_clone: SmallClone, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    (nothing / "dirname").symlink_to("/usr/bin/dirname")
    code, text = small_clone.run(PATH=str(nothing))
    assert code == 1
    assert "no Python 3.11 to 3.13 on PATH" in text
    assert "PYTHON=" in text


def test_efactl_runs_from_any_folder_without_making_the_project_importable_for_what_it_starts(
    small_clone: SmallClone,
) -> None:
    small_clone.add_cli("3.250.1")
    assert small_clone.run()[0] == 0
    package = small_clone.project / "efactl"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import os, shutil, subprocess, sys\n"
        "print(sys.argv[1:], os.getcwd(), shutil.which('pulumi'))\n"
        "sys.exit(subprocess.run([sys.executable, '-c', 'import efactl'], stderr=subprocess.DEVNULL).returncode + 4)\n"
    )
    command = [str(small_clone.venv / "bin" / "efactl"), "up", "a b"]
    done = subprocess.run(command, cwd=small_clone.root, capture_output=True, text=True)
    assert done.stdout == f"['up', 'a b'] {small_clone.root} {small_clone.venv / 'bin' / 'pulumi'}\n", done.stderr
    assert done.returncode == 5, "exit code of efactl, and the import in its child must fail"
