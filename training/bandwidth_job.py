"""The bandwidth job, as the driver runs it."""

from training.bandwidth import measure_func
from training.bandwidth_config import BandwidthConfig, parse_arguments
from training.bandwidth_record import BandwidthReport
from training.job_kind import JobKind


def nothing_to_check(config: BandwidthConfig) -> BandwidthConfig:
    """Whether a size fits into memory is for each rank to say."""
    return config


def nothing_to_prepare(_config: BandwidthConfig) -> None:
    """Ranks make what they reduce."""


def describe(config: BandwidthConfig, world_size: int) -> str:
    sizes = " ".join(config.sizes) or "the default sizes"
    return f"all_reduce of {sizes} over {world_size} ranks, {config.iterations} iterations after {config.warm_up}"


BANDWIDTH = JobKind(
    parse=parse_arguments,
    check=nothing_to_check,
    describe=describe,
    report=BandwidthReport,
    prepare=nothing_to_prepare,
    run_rank=measure_func,
)
