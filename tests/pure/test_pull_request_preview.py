"""What a pull request's reader is told of a stack, from the engine's events."""

from typing import Any

import pytest

from tests.support import engine_events as made
from tools.pull_request import run_due
from tools.pull_request.comment import comment
from tools.pull_request.cost_change import cost_change
from tools.pull_request.events import Preview, read
from tools.pull_request.summary import passed, summary
from workload.ray_train_job import IDENTITY

GROUP = "aws:eks/nodeGroup:NodeGroup"


def preview(*events: Any, end: bool = True) -> Preview:
    return read(made.log(*events, *([made.END] if end else [])))


def told(head: Preview, base: Preview | None = None, *, standin: bool = False) -> dict[str, Any]:
    return summary("dev", head, base, standin=standin)


def test_a_replacement_of_several_steps_is_one_change_with_the_names_of_what_changed() -> None:
    found = preview(
        made.step("create-replacement", GROUP, "ray-gpu-group", inputs={"a": 2}, before={"a": 1}, diffs=["a"]),
        made.step("replace", GROUP, "ray-gpu-group", inputs={"a": 2}, before={"a": 1}, diffs=["a"]),
        made.step("delete-replaced", GROUP, "ray-gpu-group", before={"a": 1}),
        made.step("same", GROUP, "other", inputs={}, before={}),
    )
    assert told(found)["changes"] == [
        {"operation": "replace", "resource": "NodeGroup ray-gpu-group", "properties": ["a"]}
    ]
    assert told(found)["counts"] == {"replace": 1}


def test_no_value_of_a_property_and_no_provider_is_told() -> None:
    found = preview(
        made.step("update", GROUP, "g", inputs={"a": "s3cret"}, before={"a": "0ld"}, diffs=["a"]),
        made.step("update", "pulumi:providers:aws", "aws", inputs={}, before={}),
    )
    text = str(told(found))
    assert "s3cret" not in text and "0ld" not in text and "providers" not in text


def test_a_log_without_an_end_is_a_failed_preview() -> None:
    cut = [*made.log(made.job("same")), '{"sequence": 2, "resourceP']
    said = told(read(cut))
    assert said["failed"] and not passed(said)
    assert said["run"]["due"] is None


def test_a_broken_rule_is_no_failed_preview_and_does_not_pass() -> None:
    refused = preview(
        made.kept("imdsv2-required", "no-open-ingress"),
        made.broken("no-open-ingress", "<{%reset%}>lets in\n0.0.0.0/0"),
        made.error("preview failed\n"),
    )
    said = told(refused)
    assert not said["failed"] and not passed(said)
    assert said["policy"] == {
        "kept": 1,
        "broken": [{"rule": "no-open-ingress", "message": "lets in 0.0.0.0/0", "mandatory": True}],
    }
    assert passed(told(preview(made.broken("a", "b", "advisory"))))


def test_an_error_beside_a_broken_rule_is_still_an_error() -> None:
    both = preview(made.broken("a", "b"), made.error("gpuInstanceType x1: unknown"), made.error("preview failed"))
    assert told(both)["failed"]
    assert told(preview(made.broken("a", "b", "advisory"), made.error("preview failed")))["failed"]


def test_every_input_that_decides_a_rerun_has_its_words() -> None:
    assert set(run_due.TOLD) == set(IDENTITY)


def test_no_run_is_due_where_the_job_stays() -> None:
    same = preview(made.job("same", before=made.INPUTS))
    assert run_due.against_state(same, same) == run_due.RunDue(due=False, reasons=())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"training_digest": "bb"}, "files under training/ changed"),
        (
            {"arguments": {"steps": 40.0, "lr": 1e-5, "model_id": "tiny-qwen2", "seed": 3}},
            "arguments: seed unset → 3, steps 20 → 40",
        ),
        ({"image": "registry.example/ray:2"}, "image: registry.example/ray:1 → registry.example/ray:2"),
        ({"pip": ["humanize==4.13.0"]}, "packages: +humanize==4.13.0, -humanize==4.12.0"),
        (
            {"pip": ["x @ https://bucket.example/x.whl?X-Amz-Signature=abc&b=c"]},
            "packages: +x @ https://bucket.example/x.whl?..., -humanize==4.12.0",
        ),
        ({"env": {"LOG_LEVEL": "pa55word"}}, "environment: LOG_LEVEL"),
        ({"secret_env_names": []}, "secret environment: -HF_TOKEN"),
        ({"cluster_spec_digest": "dd"}, "what runs in the Ray cluster's pods, or on how many nodes, changed"),
        ({"run_id": "again"}, "jobRunId: unset → again"),
    ],
)
def test_a_run_is_due_because_of_what_changed(changes: dict[str, Any], reason: str) -> None:
    head = preview(made.job("replace", before=made.INPUTS, **changes))
    same = preview(made.job("same", before=made.INPUTS))
    assert run_due.against_state(head, same) == run_due.RunDue(due=True, reasons=(reason,))
    assert run_due.between(head, same) == run_due.RunDue(due=True, reasons=(reason,))


def test_floats_that_are_whole_and_settings_that_decide_nothing_make_no_run_due() -> None:
    other: dict[str, Any] = {
        "arguments": {"steps": 20.0, "lr": 1e-5, "model_id": "tiny-qwen2"},
        "settings": {"expect": "gloo"},
    }
    assert run_due.between(preview(made.job("create", **other)), preview(made.job("create"))).due is False


def test_a_run_that_is_due_anyway_is_told_as_one() -> None:
    head = preview(made.job("replace", before=made.INPUTS, training_digest="bb"))
    assert "the same one is due without this change" in run_due.against_state(head, head).reasons
    other = preview(made.job("replace", before=made.INPUTS, run_id="2"))
    assert "another one is due without this change" in run_due.against_state(head, other).reasons


def test_a_stack_without_a_run_and_one_without_nodes_say_so() -> None:
    assert run_due.against_state(preview(made.job("create")), None).reasons == ("the stack has no run yet",)
    nothing = preview(made.step("update", GROUP, "g", inputs={}, before={}))
    assert run_due.against_state(nothing, None).due is None


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (9.7, 18.9, "9.70 → 18.90 USD (+9.20)"),
        (9.7, 9.7, "9.70 USD, unchanged"),
        (None, 9.7, "9.70 USD"),
    ],
)
def test_the_cost_is_told_with_what_it_was(before: float | None, after: float, text: str) -> None:
    old = None if before is None else preview(made.cost(before)).outputs
    assert cost_change(old, preview(made.cost(after)).outputs).text() == text


def test_the_lines_of_the_cost_that_move_are_told_and_those_without_a_price() -> None:
    old = preview(made.cost(9.7, ("GPU nodes", 2, 9.2), ("NAT gateway", 1, 0.5))).outputs
    new = preview(made.cost(18.9, ("GPU nodes", 4, 18.4), ("NAT gateway", 1, 0.5), lacks=["4 x p9"])).outputs
    change = cost_change(old, new)
    assert change.lines == ("GPU nodes: 2 for 9.200 → 4 for 18.400",)
    assert change.text() == "at least 9.70 → 18.90 USD (+9.20)"
    assert cost_change(old, {}).text() == "not known"


BASE_THAT_FAILS = preview(made.error("no plugin pulumi-resource-aws <here>"), end=False)


def test_without_an_account_nothing_is_said_of_a_base_that_could_not_be_previewed() -> None:
    head = preview(made.step("create", GROUP, "g", inputs={"a": 1}), made.job("create"), made.cost(9.7))
    said = told(head, BASE_THAT_FAILS, standin=True)
    assert passed(said) and not said["new"]
    assert said["changes"] == [] and said["run"] == {"due": None, "reasons": []}
    text = comment([said], commit="c")
    assert "| `dev` | not known | 9.70 USD (before: not known) | not asked | not known |" in text
    assert (
        "The base could not be previewed, so nothing is compared with it: no plugin pulumi-resource-aws &lt;h" in text
    )


def test_what_a_change_would_do_to_a_stack_is_told_without_its_base_too() -> None:
    head = preview(made.job("replace", before=made.INPUTS, training_digest="bb"), made.cost(9.7))
    said = told(head, BASE_THAT_FAILS)
    assert said["counts"] == {"replace": 1}
    assert said["run"] == {"due": True, "reasons": ["files under training/ changed"]}
    assert said["cost"]["text"] == "9.70 USD (before: not known)"


def test_two_programs_are_held_against_each_other_where_nothing_exists() -> None:
    base = preview(
        made.step("create", GROUP, "gpu", inputs={"size": 2, "type": "a"}), made.step("create", GROUP, "old", inputs={})
    )
    head = preview(
        made.step("create", GROUP, "gpu", inputs={"size": 4, "type": "a"}), made.step("create", GROUP, "new", inputs={})
    )
    assert told(head, base, standin=True)["changes"] == [
        {"operation": "create", "resource": "NodeGroup new", "properties": []},
        {"operation": "delete", "resource": "NodeGroup old", "properties": []},
        {"operation": "change", "resource": "NodeGroup gpu", "properties": ["size"]},
    ]
