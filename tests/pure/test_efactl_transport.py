"""`efactl transport`: exit codes, the matrix, JSON, standard input, and that it needs neither Ray nor Pulumi."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from efactl.__main__ import main
from tests.pure.test_transport_corpus import CORPUS


def run(*arguments: str) -> int:
    return main(["transport", *arguments])


def log(name: str) -> str:
    return str(CORPUS / name)


@pytest.mark.parametrize(
    ("name", "code"),
    [("efa-2.29-ofi-1.19.log", 0), ("failed-2.29.log", 3), ("no-collective.log", 4), ("empty.log", 4)],
)
def test_the_exit_code_is_the_verdict(name: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(log(name), "--expect", "efa") == code
    value = {0: "proven", 3: "refuted", 4: "unproven"}[code]
    assert f"\n{value}: expected efa\n" in f"\n{capsys.readouterr().out}"


@pytest.mark.parametrize(
    "arguments",
    [
        [log("empty.log")],
        [log("empty.log"), "--expect", "infiniband"],
        [log("empty.log"), "--expect", "efa", "--hosts", "0"],
        [log("empty.log"), "--expect", "efa", "--ranks", "eight"],
        ["--expect", "efa"],
    ],
)
def test_a_command_line_that_cannot_be_is_bad_input(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        run(*arguments)
    assert left.value.code == 2


@pytest.mark.parametrize("name", ["absent.log", "."])
def test_a_file_that_cannot_be_read_is_bad_input(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(log("empty.log"), log(name), "--expect", "efa") == 2
    assert capsys.readouterr().err.startswith(f"efactl transport: {log(name)}: ")


def test_the_matrix_shows_each_pair_of_hosts_and_reasons_name_file_and_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(log("node-b-sockets.log"), "--expect", "efa", "--hosts", "2") == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("attempt 1 of 1: 2 hosts, 4 processes, 1 communicator of up to 4 ranks, from ")
    assert lines[1] == "NCCL 2.29.3+cuda12.4; aws-ofi-nccl 1.19.0"
    assert [line.split() for line in lines[2:5]] == [
        ["from", "\\", "to", "node-a", "node-b"],
        ["node-a", "P2P", "x2", "NET/Libfabric", "x2,", "NET/Socket", "x2"],
        ["node-b", "NET/Libfabric", "x2,", "NET/Socket", "x2", "P2P", "x2"],
    ]
    reason = next(line for line in lines if "rank 2 on node-b (pid 72) chose Socket" in line)
    file, number = reason.split("(")[-1].rstrip(")").rsplit(":", 1)
    assert Path(file).read_text().splitlines()[int(number) - 1] == "node-b:72:72 [0] NCCL INFO Using network Socket"
    assert "\x1b" not in "".join(lines), "readable where colours are not"


def test_many_hosts_are_a_list_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.support.nccl_run import Run

    file = tmp_path / "many.log"
    file.write_text("\n".join(Run(hosts=tuple(f"n{i}" for i in range(10)), gpus=1).text()) + "\n")
    assert run(str(file), "--expect", "efa", "--hosts", "10") == 0
    assert "n0 -> n1: NET/Libfabric x2" in capsys.readouterr().out


def test_json_holds_verdict_reasons_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(log("hybrid-split-2.29.log"), "--expect", "efa", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["expect"], said["verdict"]) == ("efa", "proven")
    communicators = said["report"]["attempts"][0]["communicators"]
    assert sorted(len(one["hosts"]) for one in communicators) == [1, 1, 2, 2, 2, 2, 2]
    assert all(one["complete"] for one in communicators)
    assert said["report"]["lost"]["deduplicated"] == 0


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = (CORPUS / "failed-2.29.log").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run("-", "--expect", "efa") == 3
    assert "(standard input:" in capsys.readouterr().out


def test_warnings_are_shown_a_few_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    run(log("real-net_forced.log"), "--expect", "efa")
    out = capsys.readouterr().out
    assert "2 warnings of NCCL:\n  vm pid 759: Failed to initialize any NET plugin (" in out


def test_it_starts_without_what_only_stacks_need() -> None:
    """Whoever has a log and Python can use it: `python -m efactl` in a clone, nothing installed."""
    forbidden = ("ray", "torch", "pulumi", "numpy", "kubernetes", "aiohttp", "psutil", "yaml")
    program = (
        "import sys\n"
        "from efactl.__main__ import main\n"
        f"code = main(['transport', {log('efa-2.29-ofi-1.19.log')!r}, '--expect', 'efa'])\n"
        f"print([name for name in {forbidden!r} if name in sys.modules])\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
