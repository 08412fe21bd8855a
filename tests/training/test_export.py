"""From a checkpoint of sharded ranks to what from_pretrained loads."""

import json
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors import safe_open
from torch.distributed.fsdp import fully_shard

from tests.training import ranks
from tests.training.batches import next_token_batch
from tests.training.fault_ranks import progress_at
from tests.training.s3_server import BUCKET, S3Server
from tests.training.small_model import save_small_model
from training import checkpoint, export, safetensors_file
from training.causal_loss import CausalLoss
from training.errors import TrainingError
from training.export_mark import MARK, take_over
from training.model_files import model_files, tokenizer_of
from training.s3 import S3Folder
from training.safetensors_file import Tensor
from training.storage import LocalFolder

ROWS = torch.arange(2 * 17).reshape(2, 17) % 90


def build(directory: str, *, with_loss: bool) -> tuple[Any, torch.optim.Optimizer]:
    """Sharded over all ranks; its head is tied to its embedding."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer)
    root: Any = CausalLoss(model) if with_loss else model
    fully_shard(root)
    return root, torch.optim.AdamW(root.parameters(), lr=0.05)


def train_and_save(rank: int, world_size: int, folder: Path, directory: str) -> None:
    module, optimizer = build(directory, with_loss=True)
    for _ in range(2):
        loss, tokens = module(**next_token_batch(ROWS))
        (loss / tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    files = model_files(module, tokenizer_of(directory))
    with torch.no_grad():
        # As an evaluation does: it leaves the root's parameters gathered.
        module(**next_token_batch(ROWS))
    checkpoint.save(LocalFolder(folder / "checkpoint"), module, optimizer, progress_at(2))
    (LocalFolder(folder / "checkpoint") / "model").write("tokenizer.json", files["tokenizer.json"].decode())
    (LocalFolder(folder / "checkpoint") / "model").write(
        "tokenizer_config.json", files["tokenizer_config.json"].decode()
    )
    whole = {name: _full(tensor) for name, tensor in module.model.state_dict().items()}
    other, other_optimizer = build(directory, with_loss=False)
    checkpoint.load(LocalFolder(folder / "checkpoint"), other, other_optimizer)
    unwrapped = {name: _full(tensor) for name, tensor in other.state_dict().items()}
    if rank == 0:
        torch.save({"whole": whole, "unwrapped": unwrapped}, folder / "weights.pt")


def _full(tensor: Any) -> torch.Tensor:
    whole: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach().clone()
    return whole


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    save_small_model(folder / "base")
    ranks.run_ranks(2, train_and_save, folder, str(folder / "base"))
    return folder


def logits_of(directory: Path, weights: dict[str, torch.Tensor] | None = None) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory)
    if weights is not None:
        model.load_state_dict(weights)
    with torch.no_grad():
        logits: torch.Tensor = model.eval()(input_ids=ROWS).logits
    return logits


def test_the_exported_model_gives_the_trained_model_s_logits_to_the_last_bit(trained: Path, tmp_path: Path) -> None:
    assert export.main(["--checkpoint", str(trained / "checkpoint"), "--to", str(tmp_path / "model")]) == 0
    expected = logits_of(trained / "base", torch.load(trained / "weights.pt")["whole"])
    assert torch.equal(logits_of(tmp_path / "model"), expected)
    assert not torch.allclose(expected, logits_of(trained / "base"), atol=0.1), "nothing was trained"


def test_the_tokenizer_and_the_config_come_along(trained: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    export.main(["--checkpoint", str(trained / "checkpoint"), "--to", str(tmp_path / "model")])
    texts = [
        AutoTokenizer.from_pretrained(place)("to be").input_ids for place in (tmp_path / "model", trained / "base")
    ]
    assert texts[0] == texts[1] and len(texts[0]) >= 4
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["architectures"] == ["Qwen2ForCausalLM"], "not the class that FSDP made of it"
    assert config["dtype"] == "float32" and config["use_cache"] is True


def test_ranks_share_the_files_out_and_the_config_comes_last(trained: Path, tmp_path: Path) -> None:
    to, names = LocalFolder(tmp_path / "model"), []
    waits = iter(range(4))
    for rank in (1, 0):

        def barrier() -> None:
            next(waits)
            names.append(sorted(to.names()))

        export.export(
            LocalFolder(trained / "checkpoint"), to, file_bytes=6000, rank=rank, world_size=2, barrier=barrier
        )
    files = [name for name in to.names() if name.endswith(".safetensors")]
    assert len(files) > 2 and all(f"-of-{len(files):05d}" in name for name in files)
    assert "config.json" not in names[2] and "config.json" in names[3]
    expected = logits_of(trained / "base", torch.load(trained / "weights.pt")["whole"])
    assert torch.equal(logits_of(tmp_path / "model"), expected)


def test_weights_can_be_exported_in_another_type(trained: Path, tmp_path: Path) -> None:
    export.main(["--checkpoint", str(trained / "checkpoint"), "--to", str(tmp_path / "model"), "--dtype", "bfloat16"])
    whole = torch.load(trained / "weights.pt")["whole"]
    with safe_open(tmp_path / "model" / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert whole.keys() - found.keys() == {"lm_head.weight"}, "of tied weights there is one"
    assert all(torch.equal(tensor, whole[name].bfloat16()) for name, tensor in found.items())
    assert json.loads((tmp_path / "model" / "config.json").read_text())["dtype"] == "bfloat16"


def test_a_model_wrapped_in_its_loss_and_one_that_is_not_take_up_each_other_s_checkpoints(trained: Path) -> None:
    weights = torch.load(trained / "weights.pt")
    assert weights["whole"].keys() == weights["unwrapped"].keys()
    assert all(torch.equal(tensor, weights["unwrapped"][name]) for name, tensor in weights["whole"].items())


def test_an_export_into_a_bucket_is_the_same_bytes(trained: Path, tmp_path: Path, s3: S3Server) -> None:
    for to in (str(tmp_path / "model"), f"s3://{BUCKET}/exported/model"):
        assert export.main(["--checkpoint", str(trained / "checkpoint"), "--to", to]) == 0
    with S3Folder(BUCKET, "exported/model").open_read("model.safetensors") as stream:
        assert stream.read() == (tmp_path / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("checkpoint_given", "to_given", "told"),
    [
        ("{trained}/checkpoint", "{trained}/base", "--to {trained}/base: holds config.json already: name a new"),
        ("{trained}/base", "{new}", "--checkpoint {trained}/base: not a complete checkpoint: it has no COMPLETE.json"),
        ("{trained}/nowhere", "{new}", "--checkpoint {trained}/nowhere: no such directory"),
        ("{trained}/checkpoint", "model", "--to model: must be an absolute path, or s3://bucket/prefix"),
        ("{trained}/checkpoint", "{trained}/base/config.json/x", "--to {trained}/base/config.json/x: cannot be"),
    ],
)
def test_what_cannot_be_exported_is_told_with_its_argument(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], checkpoint_given: str, to_given: str, told: str
) -> None:
    names = {"trained": trained, "new": tmp_path / "model"}
    given = [text.format(**names) for text in (checkpoint_given, to_given)]
    assert export.main(["--checkpoint", given[0], "--to", given[1]]) == 1
    assert f"[error] {told.format(**names)}" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_files_are_filled_up_to_their_limit_and_no_tensor_is_split() -> None:
    tensors = [Tensor(str(number), "float32", (size,)) for number, size in enumerate([10, 10, 30, 5, 5, 5, 5])]
    files = safetensors_file.divided(tensors, limit=80)
    assert [[tensor.name for tensor in content] for content in files.values()] == [
        ["0", "1"],
        ["2"],
        ["3", "4", "5", "6"],
    ]
    assert next(iter(files)) == "model-00001-of-00003.safetensors"
    assert list(safetensors_file.divided(tensors, limit=1000)) == ["model.safetensors"]


LAYERS, WIDTH = 24, 1024


def save_large(rank: int, world_size: int, folder: Path) -> None:
    module = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    fully_shard(module)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    checkpoint.write(
        LocalFolder(folder / "checkpoint"),
        checkpoint.state_of(module, optimizer),
        progress_at(1),
        {"config.json": b"{}"},
        dist.group.WORLD,
    )


def export_large(rank: int, world_size: int, folder: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    export.export(LocalFolder(folder / "checkpoint"), LocalFolder(folder / "model"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    (folder / "grown").write_text(str(grown * 1024))


@pytest.mark.full
def test_whoever_exports_needs_memory_for_some_weights_and_not_for_all(tmp_path: Path) -> None:
    ranks.run_ranks(1, save_large, tmp_path)
    ranks.run_ranks(1, export_large, tmp_path)
    whole = LAYERS * WIDTH * WIDTH * 4
    assert LocalFolder(tmp_path / "model").sizes()["model.safetensors"] > whole
    assert int((tmp_path / "grown").read_text()) < whole / 2


def exported_again(rank: int, world_size: int, folder: Path, checkpoint_of: Path) -> None:
    try:
        export.export_from_ranks(LocalFolder(checkpoint_of), str(folder / "link"), export.STORED, "/shared run-1")
    except TrainingError as error:
        (folder / f"told-{rank}").write_text(str(error))


def test_a_newer_export_takes_the_place_of_all_of_the_older_one_and_of_nothing_else(
    trained: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    kept.chmod(0o2775)
    (tmp_path / "link").symlink_to(kept)
    take_over(str(tmp_path / "link"), "/shared run-1")
    for name in ("model-00001-of-00002.safetensors", "model.safetensors.index.json", "config.json"):
        (kept / name).write_text("of an earlier export")
    others = tmp_path / "others"
    others.mkdir()
    (others / "thesis.txt").write_text("years of work")
    (kept / "best").symlink_to(others)
    (kept / "gone").symlink_to(tmp_path / "nowhere")
    ranks.run_ranks(2, exported_again, tmp_path, trained / "checkpoint")
    assert not list(tmp_path.glob("told-*"))
    assert {"config.json", "model.safetensors", MARK} <= {path.name for path in kept.iterdir()}
    assert (others / "thesis.txt").exists() and not {"best", "gone"} & {path.name for path in kept.iterdir()}
    assert not list(kept.glob("model*-of-*")) and not list(kept.glob("*.index.json"))
    assert logits_of(kept).shape[-1] == 100
    assert kept.stat().st_mode & 0o7777 == 0o2775 and (tmp_path / "link").is_symlink()


def exported_nowhere(rank: int, world_size: int, folder: Path, checkpoint_of: Path) -> None:
    for number, place in enumerate(("/proc/nowhere/model", str(folder / "theirs"))):
        try:
            export.export_from_ranks(LocalFolder(checkpoint_of), place, export.STORED, "/shared run-1")
        except TrainingError as error:
            (folder / f"{number}-{rank}").write_text(type(error.__cause__).__name__)


def test_storage_that_is_out_and_a_directory_of_somebody_else_s_are_told_apart_on_every_rank(
    trained: Path, tmp_path: Path
) -> None:
    """By the cause, which says whether another attempt is worth it."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "thesis.txt").write_text("years of work")
    ranks.run_ranks(2, exported_nowhere, tmp_path, trained / "checkpoint")
    assert [(tmp_path / f"{number}-{rank}").read_text() for number in range(2) for rank in range(2)] == [
        "OSError",
        "OSError",
        "NoneType",
        "NoneType",
    ]


def test_a_file_that_rank_0_does_not_see_is_named_and_no_model_is_left(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other rank's node has a directory of its own behind the same name."""
    monkeypatch.setattr("training.checkpoint_files.SEEN_WITHIN_S", 0.0)
    mine, others = LocalFolder(tmp_path / "model"), LocalFolder(tmp_path / "other-node")
    told: dict[str, Any] = {"file_bytes": 6000, "world_size": 2, "named": export.BY_RUN}
    export.export(LocalFolder(trained / "checkpoint"), others, rank=1, **told)
    with pytest.raises(
        TrainingError,
        match=rf"^--export_to {mine}: .*node .* of rank 0 does not see whole .*model-00002-of-.*storage that all nodes",
    ):
        export.export(LocalFolder(trained / "checkpoint"), mine, rank=0, **told)
    assert {"config.json", "model.safetensors.index.json"}.isdisjoint(mine.names())


def test_a_file_that_another_node_has_only_begun_is_no_file(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.checkpoint_files.SEEN_WITHIN_S", 0.0)
    to = LocalFolder(tmp_path / "model")

    def cut_one() -> None:
        victim = next(path for path in to.path.iterdir() if path.name.startswith("model-"))
        victim.write_bytes(victim.read_bytes()[:-1])

    with pytest.raises(TrainingError, match=r"^--to .*does not see whole .*safetensors"):
        export.export(LocalFolder(trained / "checkpoint"), to, file_bytes=6000, barrier=cut_one)


def test_what_a_run_cannot_export_is_told_by_the_run_s_arguments(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=rf"^--storage_path: checkpoint {trained}/base: "):
        export.export(LocalFolder(trained / "base"), LocalFolder(tmp_path / "model"), named=export.BY_RUN)
    with pytest.raises(TrainingError, match=r"^--export_to /proc/nowhere: cannot be written: "):
        export.export(LocalFolder(trained / "checkpoint"), LocalFolder(Path("/proc/nowhere")), named=export.BY_RUN)
