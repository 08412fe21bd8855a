import hashlib
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from training import nccl_lines
from training.errors import TrainingError

HOST = socket.gethostname().partition(".")[0]
HEAD = f"{HOST}:{os.getpid()}:71 [0] NCCL INFO"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one that NCCL would open in this process, after Ray's hook; it is not there yet."""
    monkeypatch.setattr(nccl_lines, "POLL_S", 0.01)
    monkeypatch.delenv(nccl_lines.VARIABLE, raising=False)
    nccl_lines.prepare(tmp_path / "nccl")
    return tmp_path / "nccl" / f"nccl.{HOST}.{os.getpid()}.log"


def unmarked(printed: str, rank: int = 3) -> tuple[set[str], list[str]]:
    """The ids, and the lines behind their marks."""
    found = [re.fullmatch(rf"\[nccl rank {rank} #([0-9a-f]{{8}})\] (.+)", line) for line in printed.splitlines()]
    assert all(found), printed
    return {one[1] for one in found if one}, [one[2] for one in found if one]


def printed_with(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is printed from here on, up to and with the text."""
    printed, give_up = "", time.monotonic() + 20
    while text not in printed:
        assert time.monotonic() < give_up, f"{text!r} was not printed, only {printed!r}"
        time.sleep(0.01)
        printed += capsys.readouterr().out
    return printed


def hash_of(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_every_line_is_handed_back_once_with_rank_and_id_and_testified(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nccl_lines.handed_back(3, "nccl") as lines:
        file.write_text(f"{HEAD} Bootstrap: Using eth0\nNCCL version 2.29.3+cuda13.0\n")
    ids, told = unmarked(capsys.readouterr().out)
    assert told == [f"{HEAD} Bootstrap: Using eth0", "NCCL version 2.29.3+cuda13.0"]
    assert lines.testimony() == {"id": lines.id, "count": 2, "sha256": hash_of(told)}
    assert ids == {lines.id}


def test_empty_lines_trailing_blanks_and_bytes_that_are_no_text_do_not_matter(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nccl_lines.handed_back(3, "nccl") as lines:
        file.write_bytes(b"\n" + f"{HEAD} ".encode() + b"caf\xe9 \t\r\n\n   \nlast, without its end")
    _, told = unmarked(capsys.readouterr().out)
    assert told == [f"{HEAD} caf\ufffd", "last, without its end"]
    assert lines.testimony() == {"id": lines.id, "count": 2, "sha256": hash_of(told)}


def test_a_carriage_return_within_a_line_does_not_end_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ray reads a job's log as text, in which it would."""
    with nccl_lines.handed_back(3, "nccl") as lines:
        file.write_bytes(f"{HEAD} one\rtwo\r\n".encode())
    _, told = unmarked(capsys.readouterr().out)
    assert told == [f"{HEAD} one two"]
    assert lines.testimony() == {"id": lines.id, "count": 1, "sha256": hash_of(told)}


def test_a_line_that_nccl_has_not_finished_is_not_printed_in_pieces(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nccl_lines.handed_back(3, "nccl"), file.open("w") as nccl:
        print(f"{HEAD} whole\n{HEAD} Channel 00/0 : 1[1] -> 2[0] [send] via NET/Libf", end="", file=nccl, flush=True)
        first = printed_with("whole", capsys)
        print("abric/0", file=nccl, flush=True)
        second = printed_with("abric/0", capsys)
    assert unmarked(first)[1] == [f"{HEAD} whole"]
    assert unmarked(second)[1] == [f"{HEAD} Channel 00/0 : 1[1] -> 2[0] [send] via NET/Libfabric/0"]


def test_lines_reach_the_log_where_a_rank_fails(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError, match="ncclSystemError"), nccl_lines.handed_back(3, "nccl"):
        file.write_text(f"{HEAD} NCCL WARN Failed to initialize any NET plugin")
        raise RuntimeError("ncclSystemError")
    assert "Failed to initialize any NET plugin" in capsys.readouterr().out


def test_what_nccl_says_after_the_testimony_is_not_handed_back(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with nccl_lines.handed_back(3, "nccl") as lines:
        file.write_text("first\n")
        lines.finish()
        testified = lines.testimony()
        file.write_text("first\nDestroy COMPLETE\n")
    assert unmarked(capsys.readouterr().out)[1] == ["first"]
    assert lines.testimony() == testified


def test_what_nccl_says_once_the_lines_are_settled_is_handed_back_under_a_mark_that_nobody_testifies(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError, match="ncclSystemError"), nccl_lines.handed_back(3, "nccl") as lines:
        file.write_text("first\nsecond, without its end")
        lines.settle()
        lines.settle()
        settled, testified = capsys.readouterr().out, lines.testimony()
        with file.open("a") as nccl:
            print("\nNCCL WARN socket closed", file=nccl, flush=True)
        late = printed_with("socket closed", capsys)
        file.open("a").write("the very last\n")
        raise RuntimeError("ncclSystemError")
    assert unmarked(settled) == ({lines.id}, ["first", "second, without its end"])
    assert testified == {"id": lines.id, "count": 2, "sha256": hash_of(unmarked(settled)[1])}
    ids, told = unmarked(late + capsys.readouterr().out)
    assert told == ["NCCL WARN socket closed", "the very last"]
    assert len(ids) == 1 and lines.id not in ids
    assert lines.testimony() == testified


def test_a_file_that_is_opened_anew_is_read_from_its_beginning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with nccl_lines.handed_back(3, "nccl"):
        file.write_text("first\na second one, of which the end is not there")
        first = printed_with("first", capsys)
        file.write_text("short\n")
    assert unmarked(first + capsys.readouterr().out)[1] == ["first", "short"]


def test_a_rank_of_which_nccl_said_nothing_testifies_to_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with nccl_lines.handed_back(3, "nccl") as lines:
        pass
    assert lines.testimony() is None
    assert capsys.readouterr().out == ""


def test_with_gloo_nothing_is_read_whatever_the_variable_says(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("another's\n")
    monkeypatch.setenv(nccl_lines.VARIABLE, "stdout")
    with nccl_lines.handed_back(3, "gloo") as lines:
        pass
    assert lines.testimony() is None
    assert capsys.readouterr().out == ""


def test_each_attempt_has_an_id_of_its_own() -> None:
    assert nccl_lines.NcclLines(3).id != nccl_lines.NcclLines(3).id


@pytest.mark.parametrize("pattern", ["/tmp/nccl.log", "/dev/stdout", "stdout", "nccl.%p.log", "/tmp/nccl.%%p.%h.log"])
def test_a_file_that_ranks_would_share_is_refused(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nccl_lines.VARIABLE, pattern)
    with pytest.raises(TrainingError) as refusal, nccl_lines.handed_back(3, "nccl"):
        raise AssertionError("the rank went on")
    assert str(refusal.value).startswith(f"NCCL_DEBUG_FILE {pattern}: must be an absolute path with %p")


def test_the_file_a_user_named_is_the_one_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(nccl_lines.VARIABLE, f"{tmp_path}/100%%-%x-%h.%p")
    nccl_lines.prepare(tmp_path / "not-here")
    with nccl_lines.handed_back(3, "nccl"):
        (tmp_path / f"100%-%x-{HOST}.{os.getpid()}").write_text("mine\n")
    assert unmarked(capsys.readouterr().out)[1] == ["mine"]
    assert not (tmp_path / "not-here").exists()


def test_lines_of_an_earlier_process_with_the_same_pid_are_gone(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"{HEAD} Using network Libfabric\n")
    nccl_lines.prepare(tmp_path / "nccl")
    with nccl_lines.handed_back(3, "nccl") as lines:
        pass
    assert capsys.readouterr().out == "" and lines.testimony() is None


def test_host_and_pid_stand_where_nccl_puts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ip-10-0-1-7.ec2.internal")
    assert str(nccl_lines.expand("/p/nccl.%h.%p.log")) == f"/p/nccl.ip-10-0-1-7.{os.getpid()}.log"
    assert str(nccl_lines.expand("/p/%h/%q%%p")) == "/p/ip-10-0-1-7/%q%p"


@pytest.mark.parametrize(
    ("told", "versions"),
    [
        (
            "NET/OFI Initializing aws-ofi-nccl 1.19.0\nx NET/OFI Using Libfabric version 2.4\n",
            {"aws_ofi_nccl": "1.19.0", "libfabric": "2.4"},
        ),
        ("NET/OFI Using aws-ofi-nccl 1.4.0aws\n", {"aws_ofi_nccl": "1.4.0aws"}),
        ("NET/Socket : Using [0]eth0:10.0.1.7<0>\n", {}),
    ],
)
def test_versions_of_what_nccl_loads_come_from_its_lines(file: Path, told: str, versions: dict[str, Any]) -> None:
    with nccl_lines.handed_back(0, "nccl") as lines:
        file.write_text(told)
    assert lines.versions == versions
