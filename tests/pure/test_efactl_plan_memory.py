"""`efactl plan-memory`: the job's own plan, from a stack's settings."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from efactl.__main__ import main
from efactl.exit_codes import ExitCode
from efactl.plan_memory import plan
from efactl.stack import FOLDER, Stack
from training.gpu_peaks import find_gpu
from training.memory_plan import ModelShape, Workload, plan_memory
from workload.errors import BadInputError

QWEN_1_5B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_attention_heads": 12,
    "num_hidden_layers": 28,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}


class StackWith(Stack):
    """Pulumi.yaml's defaults, but for what is given."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("dev")
        self._settings = settings

    def config(self, key: str) -> Any:
        return self._settings[key] if key in self._settings else super().config(key)


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps(QWEN_1_5B))
    return str(tmp_path)


def planned(capsys: pytest.CaptureFixture[str], gpu: str | None = None, **settings: Any) -> tuple[ExitCode, Any]:
    code = plan(StackWith(**settings), gpu=gpu, as_json=True)
    return code, json.loads(capsys.readouterr().out)


def test_the_plan_is_the_job_s_own(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = planned(capsys, trainModelId=model, trainBatchSize=4, trainSeqLen=1024)
    assert code == ExitCode.OK and facts["fits"] and facts["remedy"] is None
    assert (facts["gpu"], facts["ranks"], facts["nodes"], facts["batchSize"]) == ("L4", 8, 2, 4)
    shape, l4 = ModelShape.of(QWEN_1_5B), find_gpu("NVIDIA L4")
    assert l4 is not None and facts["modelParameters"] == shape.parameters
    work = Workload(batch_size=4, seq_len=1024, split_over=8, exchange=False)
    gathered = Workload(**vars(work) | {"keep_gathered": True})
    own = plan_memory(shape, gathered if plan_memory(shape, gathered).fits(l4) else work)
    assert facts["bytes"] == {name: round(size) for name, size in own.parts.items()}
    assert {"weights", "optimizer", "gradients", "activations", "logits"} <= facts["bytes"].keys()
    for batch, fits in ((facts["largestBatchSize"], True), (facts["largestBatchSize"] + 1, False)):
        assert planned(capsys, trainModelId=model, trainBatchSize=batch)[1]["fits"] is fits


def test_what_does_not_fit_fails_and_names_what_would(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, facts = planned(capsys, trainModelId=model, trainBatchSize=400)
    assert code == ExitCode.FAILED and not facts["fits"] and facts["neededBytes"] > facts["gpuBytes"]
    assert facts["remedy"] == f"--batch_size {facts['largestBatchSize']} would fit"
    assert planned(capsys, "H200", trainModelId=model, trainBatchSize=8)[1]["largestBatchSize"] > 24


def test_people_read_it_in_three_lines(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(StackWith(trainModelId=model), gpu=None, as_json=False) == ExitCode.OK
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("parameters over 8 x L4 on 2 nodes, 1 x 1,024 tokens a rank")
    assert second.startswith("memory plan: ") and second.endswith("fits L4")
    assert third.startswith("largest batch size that fits: ")


def test_hsdp_splits_over_a_node_only_and_the_larger_a100_is_told_by_its_family(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fsdp, hsdp = (planned(capsys, trainModelId=model, trainSharding=mode)[1] for mode in ("fsdp", "hsdp"))
    assert hsdp["bytes"]["optimizer"] == pytest.approx(2 * fsdp["bytes"]["optimizer"])
    assert planned(capsys, trainModelId=model, gpuInstanceType="p4de.24xlarge")[1]["gpu"] == "A100 80GB"
    assert planned(capsys, trainModelId=model, gpuInstanceType="p4d.24xlarge")[1]["gpu"] == "A100"


@pytest.mark.parametrize(
    ("settings", "gpu", "told"),
    [
        ({"platform": "local"}, None, "has no GPUs: name one with --gpu; known are .*L4"),
        ({}, "L5", "--gpu L5 is not known; known are"),
        ({"gpuInstanceType": ""}, None, "gpuInstanceType is empty"),
        ({"gpuNodes": "0"}, None, "gpuNodes 0, so there are no ranks"),
        ({"trainNumWorkers": 9}, None, "trainNumWorkers 9: there are 8 GPUs"),
        ({"trainSharding": "hsdp", "gpuNodes": "1"}, None, "--sharding hsdp: all ranks are on one node"),
        ({"trainSeqLen": 1}, None, "--seq_len 1: must be at least 2"),
        ({"trainModelId": "no/such/model"}, None, "the plan needs the model's config.json here"),
    ],
)
def test_what_cannot_be_planned_is_told(settings: dict[str, Any], gpu: str | None, told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        plan(StackWith(**{"trainModelId": "tiny-qwen2"} | settings), gpu=gpu, as_json=False)


def test_a_model_without_a_plan_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_embd": 768}')
    with pytest.raises(
        BadInputError, match="no plan: that is for decoders whose feed-forward layers are gated and dense"
    ):
        plan(StackWith(trainModelId=str(tmp_path)), gpu=None, as_json=False)


def test_a_model_that_cannot_be_trained_has_no_plan(tmp_path: Path) -> None:
    quantised = {**QWEN_1_5B, "model_type": "qwen2", "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps(quantised))
    with pytest.raises(BadInputError, match=r": is quantised \(fp8\): name the unquantised model$"):
        plan(StackWith(trainModelId=str(tmp_path)), gpu=None, as_json=False)


def test_what_config_json_leaves_out_is_the_type_s_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # google/gemma-2b's, which says nothing of its head being tied to the embeddings.
    sizes = {"hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18, "vocab_size": 256000}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma", **sizes, **heads}))
    assert planned(capsys, "H200", trainModelId=str(tmp_path))[1]["modelParameters"] == 2_506_172_416


def test_it_loads_neither_torch_nor_ray_and_other_commands_nothing_of_it() -> None:
    program = (
        "import sys; from efactl.__main__ import main; code = main(sys.argv[1:]);"
        "print(code, sorted({'torch', 'ray', 'transformers', 'efactl.plan_memory'} & sys.modules.keys()))"
    )

    def last_line(*arguments: str) -> str:
        run = subprocess.run([sys.executable, "-c", program, *arguments], cwd=FOLDER, capture_output=True, text=True)
        return run.stdout.splitlines()[-1]

    assert last_line("plan-memory", "-s", "local", "--gpu", "L4") == "0 ['efactl.plan_memory']"
    assert last_line("transport", "/nowhere", "--expect", "efa").endswith("[]")


def test_the_tiny_model_needs_no_file_and_a_stack_s_name_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan-memory", "-s", "local", "--gpu", "L4"]) == ExitCode.OK
    assert "largest batch size that fits: 4096 or more" in capsys.readouterr().out
    assert main(["plan-memory", "-s", "nowhere"]) == ExitCode.BAD_INPUT
