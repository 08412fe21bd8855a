"""What a GPU can do at most, by the name CUDA gives it, and what a token asks of it. No torch here."""

import re
from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True)
class Gpu:
    """`tflops` is dense bfloat16 with float32 accumulation: half of what data sheets print with sparsity."""

    name: str
    tflops: float
    memory_gib: float
    """What torch reports as the total: the card's own less what the driver and ECC keep."""
    source: str

    @property
    def peak_flops(self) -> float:
        """A second."""
        return self.tflops * 1e12


_DATA_CENTER = "https://www.nvidia.com/en-us/data-center"
_A10G_SHEET = "https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf"
GPUS = (
    Gpu("L40S", 362.0, 44.5, f"{_DATA_CENTER}/l40s/"),
    Gpu("L4", 121.0, 22.0, f"{_DATA_CENTER}/l4/ (242 with sparsity)"),
    Gpu("A10G", 70.0, 22.0, _A10G_SHEET),
    Gpu("A100 80GB", 312.0, 79.2, f"{_DATA_CENTER}/a100/"),
    Gpu("A100", 312.0, 39.4, f"{_DATA_CENTER}/a100/"),
    Gpu("H100 NVL", 835.0, 93.0, f"{_DATA_CENTER}/h100/ (1,671 with sparsity)"),
    Gpu("H100 PCIe", 756.0, 79.6, "NVIDIA H100 PCIe product brief, 1,513 with sparsity"),
    Gpu("H100", 989.0, 79.6, f"{_DATA_CENTER}/h100/ (SXM, 1,979 with sparsity)"),
    Gpu("H200 NVL", 835.0, 139.8, f"{_DATA_CENTER}/h200/ (1,671 with sparsity)"),
    Gpu("H200", 989.0, 139.8, f"{_DATA_CENTER}/h200/ (SXM, 1,979 with sparsity)"),
)
"""A name's more special form comes before the one that it contains."""
_PART = re.compile(r"MIG|\d+[ABCQ]")
"""In the name of a slice ("A100-SXM4-40GB MIG 1g.5gb") or of a virtual GPU ("A100-10C")."""


def find_gpu(device_name: str) -> Gpu | None:
    """From what torch.cuda.get_device_name says ("NVIDIA A100-SXM4-80GB"); None where it is not listed or a part."""
    words = device_name.replace("-", " ").split()
    if any(map(_PART.fullmatch, words)):
        return None
    return next((gpu for gpu in GPUS if all(word in words for word in gpu.name.split())), None)


def flops_per_token(parameters: int, layers: int, hidden: int, seq_len: int) -> float:
    """Forward and backward of one token: 6N + 12·layers·hidden·sequence (PaLM, arXiv 2204.02311, appendix B).

    `parameters` counts tied embeddings once. Attention counts in full, though half of it is masked, and what
    activation checkpointing computes again does not count.
    """
    return 6.0 * parameters + 12.0 * layers * hidden * seq_len
