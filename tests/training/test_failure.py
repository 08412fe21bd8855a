import errno
import ssl
from collections.abc import Callable
from functools import partial

import httpx2
import pytest
import torch
from ray.train import FailureConfig

from tests.training.arguments import config
from training.errors import CodeError, FinalError, TrainingError
from training.failure import final_unless_outage, raise_if_final, root_cause
from training.new_attempts import NewAttempts
from training.out_of_memory import telling


class Wrapped(Exception):
    """As Ray Train hands over what a rank raised."""

    def __init__(self, inner: BaseException) -> None:
        super().__init__("Traceback (most recent call last):\n  ...")
        self._base_exc = inner


class GroupFailed(Exception):
    def __init__(self, failures: dict[int, BaseException]) -> None:
        super().__init__("Training failed due to worker errors:")
        self.worker_failures = failures


class Died(Exception):
    """As an exception of Ray's own."""


Died.__module__ = "ray.exceptions"

PEER = Wrapped(RuntimeError("[pair.cc:537] Read error: Connection closed by peer"))


def test_a_reported_error_is_told_as_it_is() -> None:
    error = GroupFailed({0: PEER, 2: Wrapped(TrainingError("--storage_path /full: No space left on device"))})
    assert root_cause(error) == "--storage_path /full: No space left on device"


def test_a_rank_s_own_exception_comes_before_what_its_peers_say() -> None:
    error = GroupFailed({0: PEER, 1: Wrapped(IndexError("index 300 is out of range\nmore")), 2: PEER})
    assert root_cause(error) == "rank 1: IndexError: index 300 is out of range"


def test_a_dead_rank_comes_before_what_its_peers_say() -> None:
    assert root_cause(GroupFailed({0: PEER, 3: Died("The actor died.")})) == "rank 3: Died: The actor died."


def test_an_error_of_the_controller_is_told_in_its_first_line() -> None:
    assert root_cause(RuntimeError("no placement\ngroup")) == "no placement"


def test_ranks_that_lost_each_other_are_named_with_their_hosts() -> None:
    silent = Wrapped(RuntimeError("Timed out waiting 60000ms for recv operation to complete"))
    assert root_cause(GroupFailed({0: silent, 1: PEER}), {0: "pod-a", 1: "pod-b"}) == (
        "rank 0 on pod-a: RuntimeError: Timed out waiting 60000ms for recv operation to complete; "
        "no rank failed by itself: are pod-a and pod-b still there, and do they reach each other?"
    )


def test_what_ray_tells_with_a_traceback_keeps_its_cause() -> None:
    traced = "[Node 10.0.0.7] Traceback (most recent call last):\n ...\nOSError: full\n"
    told = f"Failed to set up runtime environment.\n{traced}"
    assert root_cause(RuntimeError(told)) == "Failed to set up runtime environment: node 10.0.0.7: OSError: full"


def test_what_another_attempt_would_meet_again_is_final_and_what_storage_says_is_not() -> None:
    with pytest.raises(FinalError, match="lower --lr"), final_unless_outage():
        raise TrainingError("the loss is nan and the gradient norm 1.0: lower --lr")
    with pytest.raises(TrainingError) as outage, final_unless_outage():
        raise TrainingError("--storage_path: /shared cannot be written: out of reach") from TimeoutError("out of reach")
    assert type(outage.value) is TrainingError


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("'Gemma3Config' object has no attribute 'vocab_size'"),
        ImportError("no module named PIL"),
        KeyError("weight_map"),
        IndexError("index out of range"),
        TypeError("'int' object is not iterable"),
        ValueError("not enough values to unpack"),
        NotImplementedError("no kernel for this"),
    ],
)
def test_an_error_of_code_is_final_and_told_with_its_kind(error: Exception) -> None:
    with pytest.raises(FinalError) as told, final_unless_outage():
        raise error
    assert str(told.value) == f"{type(error).__name__}: {error}"
    assert told.value.__cause__ is error, "the log has where it was raised"


def lost_peer() -> None:
    raise RuntimeError("[pair.cc:537] Read error: Connection closed by peer")


def lost_peer_of_nccl() -> None:
    import torch.distributed as dist

    raise dist.DistBackendError("NCCL communicator was aborted on rank 1")


def storage_away() -> None:
    raise OSError(errno.EIO, "Input/output error")


def met_on_the_way_out() -> None:
    try:
        lost_peer()
    finally:
        raise AttributeError("the writer was never made")


def as_a_cause() -> None:
    try:
        storage_away()
    except OSError as error:
        raise ValueError("no such thing") from error


def unknown_certificate() -> None:
    raise ssl.SSLCertVerificationError("self-signed certificate in certificate chain")


def code_after(error: Exception) -> None:
    try:
        raise error
    except type(error):
        raise TypeError("'NoneType' object is not subscriptable")  # noqa: B904


def answered(status: int) -> httpx2.HTTPStatusError:
    request = httpx2.Request("GET", "https://hub.invalid/model")
    return httpx2.HTTPStatusError(str(status), request=request, response=httpx2.Response(status, request=request))


@pytest.mark.parametrize(
    "outage",
    [
        *(lost_peer, lost_peer_of_nccl, storage_away, met_on_the_way_out, as_a_cause, unknown_certificate),
        partial(code_after, ssl.SSLCertVerificationError("self-signed certificate in certificate chain")),
        partial(code_after, httpx2.RemoteProtocolError("server disconnected without sending a response")),
        partial(code_after, answered(429)),
        partial(code_after, answered(503)),
    ],
)
def test_a_lost_peer_and_storage_are_worth_another_attempt_also_where_code_stumbles_over_them(
    outage: Callable[[], None],
) -> None:
    with pytest.raises(Exception) as told, final_unless_outage():
        outage()
    assert not isinstance(told.value, FinalError)


def test_what_code_makes_of_a_refusal_by_the_hub_is_final() -> None:
    with pytest.raises(FinalError, match=r"^TypeError: "), final_unless_outage():
        code_after(answered(404))


def test_a_gpu_without_memory_left_ends_the_run_and_says_what_takes_less() -> None:
    full = torch.OutOfMemoryError("CUDA out of memory.\nmore")
    with pytest.raises(FinalError) as told, final_unless_outage():
        raise full
    assert str(told.value) == ("a GPU has not enough memory: lower --batch_size or --seq_len (CUDA out of memory.)")

    def step() -> None:
        raise full

    with pytest.raises(FinalError, match=r"memory: --batch_size 4 takes less \(CUDA"), final_unless_outage():
        telling(step, "--batch_size 4 takes less")()
    with pytest.raises(RuntimeError, match="Connection closed"):
        telling(lost_peer, "--batch_size 4 takes less")()


def test_an_error_of_code_names_its_rank_and_comes_after_what_is_told() -> None:
    crash, told = Wrapped(CodeError("KeyError: 'x'")), Wrapped(FinalError("lower --lr"))
    with pytest.raises(FinalError, match=r"^rank 1 on pod-b: KeyError: 'x'$"):
        raise_if_final({0: PEER, 1: crash}, {1: "pod-b"})
    with pytest.raises(FinalError, match=r"^lower --lr$"):
        raise_if_final({0: crash, 1: told})


def decision(failures: dict[int, Exception]) -> str:
    """Of Ray Train's own controller for a run that may have two more attempts, NewAttempts being called first."""
    from ray.train import ControllerError, WorkerGroupError
    from ray.train.v2._internal.execution.failure_handling import DefaultFailurePolicy

    error: Exception = WorkerGroupError("", failures)
    try:
        NewAttempts(config(max_failures=2)).after_exception(None, failures)
    except Exception as raised:
        error = ControllerError(raised)
    return str(DefaultFailurePolicy(FailureConfig(max_failures=2)).make_decision(error).value)


def test_a_final_error_ends_the_run_and_any_other_has_it_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert decision({0: PEER, 1: Wrapped(FinalError("the loss is nan"))}) == "RAISE"
    assert "start anew" not in capsys.readouterr().out
    assert decision({0: Wrapped(CodeError("KeyError: 'x'"))}) == "RAISE"
    assert decision({0: PEER, 3: Died("The actor died.")}) == "RETRY"
    assert decision({0: Wrapped(CodeError("KeyError: 'x'")), 3: Died("The actor died.")}) == "RETRY", "which came of it"
    assert decision({0: Wrapped(TrainingError("--storage_path: out of reach"))}) == "RETRY"
    assert capsys.readouterr().out.count("all ranks start anew") == 3
