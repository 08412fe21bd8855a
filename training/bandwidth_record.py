"""What the bandwidth job's record tells beyond that of every job."""

from typing import Any, ClassVar

from training.bandwidth_config import BandwidthConfig
from training.bandwidth_table import table
from training.record import JobReport
from training.run_directory import RunDirectory

SCHEMA = "ray-train-efa/bandwidth-record/1"


class BandwidthReport(JobReport):
    """One row a size, and the table of them."""

    schema: ClassVar[str] = SCHEMA

    def own_fields(self) -> dict[str, Any]:
        return {"rows": []}

    def add_own(self, record: dict[str, Any], run: RunDirectory) -> None:
        result = run.result()
        if result is not None:
            record |= result | {"timings": record["timings"] | result["timings"]}

    def before_record(self, record: dict[str, Any]) -> str:
        if not isinstance(self.config, BandwidthConfig) or not record["rows"]:
            return ""
        lines = table(
            record["rows"],
            backend=self.config.process_group,
            ranks=self.world_size,
            iterations=self.config.iterations,
            warm_up=self.config.warm_up,
        )
        return "".join(f"{line}\n" for line in lines)
