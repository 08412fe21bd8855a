"""The verdict on a gloo run, and on a gloo run from which something else was expected."""

from typing import Any

import pytest

from workload.transport import judge


def transport(*, backends: str = "gloo gloo gloo gloo", nodes: str = "a a b b", world: int = 4) -> dict[str, Any]:
    ranks = [
        {"rank": float(rank), "node": node, "host": "h", "pid": 100.0 + rank, "backend": backend, "device": "cpu"}
        for rank, (backend, node) in enumerate(zip(backends.split(), nodes.split(), strict=True))
    ]
    return {"attempt": 1, "worldSize": float(world), "ranks": ranks}


def test_all_ranks_on_two_nodes_reporting_gloo_prove_gloo() -> None:
    verdict = judge(transport(), "gloo")
    assert (verdict.value, verdict.passes) == ("proven", True)
    assert verdict.reasons == ("4 of 4 ranks on 2 nodes report backend gloo",)


@pytest.mark.parametrize("expect", ["efa", "socket"])
def test_gloo_refutes_every_other_expectation_naming_each_rank(expect: str) -> None:
    verdict = judge(transport(), expect)
    assert verdict.value == "refuted"
    assert not verdict.passes
    assert len(verdict.reasons) == 4
    assert verdict.reasons[2] == (
        f"rank 2 on node b (pid 102) communicated through backend gloo, expected {expect}: "
        "gloo moves bytes over TCP sockets"
    )


def test_one_rank_on_another_backend_refutes() -> None:
    verdict = judge(transport(backends="gloo gloo nccl gloo"), "gloo")
    assert verdict.value == "refuted"
    assert verdict.reasons[0].startswith("rank 2 on node b")


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (None, "no rank reported how it communicated"),
        ({"attempt": 0, "worldSize": 4, "ranks": []}, "no rank reported how it communicated"),
        (transport(backends="gloo gloo gloo", nodes="a a b"), "rank 3 of 4 reported nothing"),
        (transport(nodes="a a a a"), "all ranks ran on one node (a): nothing crossed from host to host"),
        ({**transport(), "ranks": [*transport()["ranks"], transport()["ranks"][0]]}, "rank 0 reported more than once"),
        ({**transport(), "worldSize": 3}, "rank 3 is outside a world of 3"),
    ],
)
def test_missing_evidence_is_unproven_and_says_what_is_missing(evidence: Any, reason: str) -> None:
    verdict = judge(evidence, "gloo")
    assert verdict.value == "unproven"
    assert not verdict.passes
    assert reason in verdict.reasons


def test_a_rank_that_names_no_backend_is_no_proof() -> None:
    evidence = transport()
    evidence["ranks"][1]["backend"] = ""
    verdict = judge(evidence, "gloo")
    assert verdict.value == "unproven"
    assert verdict.reasons == ("rank 1 named no backend",)


def test_nccl_alone_proves_neither_efa_nor_sockets() -> None:
    for expect in ("efa", "socket"):
        verdict = judge(transport(backends="nccl nccl nccl nccl"), expect)
        assert verdict.value == "unproven", "the provider and the edges have not been seen"


def test_an_unknown_expectation_is_refused() -> None:
    with pytest.raises(ValueError, match="'infiniband' is none of efa, socket, gloo"):
        judge(transport(), "infiniband")
