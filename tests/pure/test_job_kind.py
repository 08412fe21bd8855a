"""The kinds of job stay apart, and both are this product's own."""

from workload.job_kind import BANDWIDTH, TRAINING, is_ours
from workload.job_record import RecordCollector
from workload.job_spec import JobSpec, submission_stem


def test_each_kind_has_its_own_names_schema_and_program() -> None:
    for value in ("module", "run_name", "schema"):
        assert getattr(TRAINING, value) != getattr(BANDWIDTH, value)
    names = TRAINING.run_name, BANDWIDTH.run_name
    assert not names[0].startswith(names[1]) and not names[1].startswith(names[0]), "one prefix must not fit the other"


def test_the_ids_of_training_jobs_are_what_they_were() -> None:
    spec = JobSpec(
        training_digest="0" * 64,
        arguments={"steps": 4},
        pip=[],
        pip_digests={},
        env={"A": "1"},
        secret_env={"B": "x"},
        image="i",
        cluster_spec_digest="c",
        run_id="",
    )
    assert spec.digest() == "b8dc7d5923e682b31682f7b252787776641ab64c7ee8e201913574cac810eb22"
    assert submission_stem("0123456789abcdef", "session_a") == "ray-train-fsdp-llm-0123456789-5e7003"
    assert submission_stem("0123456789abcdef", "session_a", BANDWIDTH.run_name) == (
        "ray-train-bandwidth-0123456789-5e7003"
    )


def test_a_job_of_either_kind_is_ours_and_another_s_is_not() -> None:
    assert is_ours("ray-train-fsdp-llm-0123456789-5e7003-1")
    assert is_ours("ray-train-bandwidth-0123456789-5e7003-1")
    assert not is_ours("raysubmit_8fkxQwq")
    assert not is_ours("ray-train-fsdp-llm")


def test_a_record_of_the_other_kind_is_none() -> None:
    record = (
        'RAY_TRAIN_EFA_RECORD {"schema":"ray-train-efa/bandwidth-record/1","run_id":"run-1","status":"succeeded",'
        '"arguments":{},"world_size":2,"attempts":[],"timings":{},"rows":[]}'
    )
    training = RecordCollector("run-1", schema=TRAINING.schema, required=TRAINING.required)
    bandwidth = RecordCollector("run-1", schema=BANDWIDTH.schema, required=BANDWIDTH.required)
    for collector in (training, bandwidth):
        collector.line(record)
    assert training.record is None
    assert training.problem == "its record lacks losses, eval"
    assert bandwidth.record is not None
