import pytest

from training.gpu_peaks import GPUS, find_gpu, flops_per_token
from training.metrics import Scale


@pytest.mark.parametrize(
    ("device_name", "tflops", "at_least_gib"),
    [
        ("NVIDIA L4", 121, 21),
        ("NVIDIA L40S", 362, 44),
        ("NVIDIA A10G", 70, 21),
        ("NVIDIA A100-SXM4-40GB", 312, 39),
        ("NVIDIA A100-SXM4-80GB", 312, 79),
        ("NVIDIA A100 80GB PCIe", 312, 79),
        ("NVIDIA H100 80GB HBM3", 989, 79),
        ("NVIDIA H100 PCIe", 756, 79),
        ("NVIDIA H100 NVL", 835, 93),
        ("NVIDIA H200", 989, 139),
        ("NVIDIA H200 NVL", 835, 139),
    ],
)
def test_a_gpu_is_found_by_the_name_cuda_gives_it(device_name: str, tflops: float, at_least_gib: float) -> None:
    gpu = find_gpu(device_name)
    assert gpu is not None
    assert gpu.tflops == tflops
    assert at_least_gib <= gpu.memory_gib < at_least_gib + 2


@pytest.mark.parametrize("device_name", ["Tesla T4", "NVIDIA A10", "NVIDIA L40", "x86_64", ""])
def test_a_gpu_that_is_not_listed_is_not_taken_for_another(device_name: str) -> None:
    assert find_gpu(device_name) is None


@pytest.mark.parametrize(
    "device_name", ["NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "GRID A100-10C"]
)
def test_a_part_of_a_gpu_is_not_taken_for_the_whole(device_name: str) -> None:
    assert find_gpu(device_name) is None


def test_every_gpu_names_where_its_peak_was_read() -> None:
    assert all(gpu.source for gpu in GPUS)


def test_utilization_is_that_of_the_published_formula() -> None:
    # Qwen2.5-1.5B at 1024 tokens: 6 x 1.5437e9 + 12 x 28 x 1536 x 1024 = 9.79e9 operations a token.
    flops = flops_per_token(1_543_714_304, 28, 1536, 1024)
    assert flops == pytest.approx(9.791e9, rel=1e-3)
    h200 = find_gpu("NVIDIA H200")
    assert h200 is not None
    scale = Scale(tokens_per_step=50_000, ranks=1, flops_per_token=flops, peak_flops=h200.peak_flops)
    assert scale.utilization(1.0) == pytest.approx(0.495, abs=0.001)
