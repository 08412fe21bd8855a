from pathlib import Path
from typing import Any

import pytest

from tests.training import ranks
from training.checkpoint_files import why_incomplete
from training.storage import LocalFolder

TOLERANCE = 2e-5
"""Relative. The ranks add the same float32 numbers in another order, and six steps let that difference grow."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("alone")
    ranks.run_ranks(1, ranks.straight_and_resumed, folder, False)
    return ranks.told(folder)


@pytest.fixture(scope="module")
def four_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("four")
    ranks.run_ranks(4, ranks.straight_and_resumed, folder, True)
    return folder


@pytest.fixture(scope="module")
def four(four_folder: Path) -> Any:
    return ranks.told(four_folder)


def test_four_sharded_ranks_learn_what_one_plain_process_learns(alone: Any, four: Any) -> None:
    assert [step for step, _, _ in four["losses"]] == list(range(1, ranks.STEPS + 1))
    for (_, expected, expected_norm), (step, loss, norm) in zip(alone["losses"], four["losses"], strict=True):
        assert loss == pytest.approx(expected, rel=TOLERANCE), f"at step {step}"
        assert norm == pytest.approx(expected_norm, rel=10 * TOLERANCE), f"the gradient norm at step {step}"
    assert alone["losses"][0][1] - alone["losses"][-1][1] > 0.5, "nothing was learnt, so nothing was compared"


def test_evaluation_over_four_ranks_is_that_of_one_process(alone: Any, four: Any) -> None:
    assert four["eval"]["tokens"] == alone["eval"]["tokens"]
    assert four["eval"]["loss"] == pytest.approx(alone["eval"]["loss"], rel=TOLERANCE)


def test_a_rank_keeps_its_share_of_the_parameters_only(four: Any) -> None:
    share = four["shards"]["local"] / four["shards"]["whole"]
    assert share == pytest.approx(0.25, abs=0.01)


def test_a_resumed_run_repeats_the_losses_to_the_last_bit(four: Any) -> None:
    assert four["resumed"] == [[step, loss] for step, loss, _ in four["losses"]]


def test_two_ranks_go_on_from_a_checkpoint_of_four(four: Any, four_folder: Path, tmp_path: Path) -> None:
    ranks.run_ranks(2, ranks.resumed_elsewhere, tmp_path, four_folder)
    losses = ranks.told(tmp_path)["losses"]
    for (_, expected, _), (step, loss) in zip(four["losses"], losses, strict=True):
        assert loss == pytest.approx(expected, rel=TOLERANCE), f"at step {step}"


@pytest.mark.parametrize("limit", [200, 100_000], ids=["at the first file", "at the shards"])
def test_storage_that_takes_no_more_is_an_error_on_every_rank_and_leaves_no_marker(tmp_path: Path, limit: int) -> None:
    ranks.run_ranks(2, ranks.saved_on_full_storage, tmp_path, limit)
    for rank in range(2):
        told = (tmp_path / f"told-{rank}").read_text()
        assert told.startswith("TrainingError: --storage_path"), told
        assert "File too large" in told, "the operating system's reason is what the user needs"
        assert "\n" not in told
    assert why_incomplete(LocalFolder(tmp_path / "checkpoint")) is not None
