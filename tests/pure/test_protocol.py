"""training/ travels without workload/, so what both must say alike stands in both."""

from training import (
    bandwidth_config,
    bandwidth_record,
    config,
    packages,
    record,
    train_record,
    worker_setup,
)
from workload import job_kind, job_record, staging


def test_both_sides_write_the_protocol_alike() -> None:
    assert f"{record.MARK} " == job_record.MARK
    assert staging.SECRETS_FILE == worker_setup.SECRETS_FILE
    assert packages.READY, "imports without torch or ray"


def test_both_sides_call_each_kind_of_job_alike() -> None:
    assert job_kind.TRAINING.schema == train_record.SCHEMA
    assert job_kind.TRAINING.run_name == config.TrainConfig.run_name
    assert job_kind.BANDWIDTH.schema == bandwidth_record.SCHEMA
    assert job_kind.BANDWIDTH.run_name == bandwidth_config.BandwidthConfig.run_name
