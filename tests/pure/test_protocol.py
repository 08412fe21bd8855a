"""training/ travels without workload/, so what both must say alike stands in both."""

from training import packages, record, run_directory, worker_setup
from workload import job_record, job_spec, staging


def test_both_sides_write_the_protocol_alike() -> None:
    assert f"{record.MARK} " == job_record.MARK
    assert job_record.SCHEMA == record.SCHEMA
    assert staging.SECRETS_FILE == worker_setup.SECRETS_FILE
    assert run_directory.RUN_NAME == job_spec.RUN_NAME
    assert packages.READY, "imports without torch or ray"
