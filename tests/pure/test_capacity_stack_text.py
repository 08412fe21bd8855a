"""A stack's file is changed where it must be, and nowhere else."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity import stack_file, stack_text
from workload.errors import BadInputError

TEXT = """\
# What this is for.
encryptionsalt: v1:abc
config:
  aws:region: us-west-2   # home
  p:gpuZone: us-west-2b
  p:gpuNodes: "2"         # 0 keeps the rest

  # Who may
  p:cidrs:
    - 8.8.8.8/32
    # the office
    - 1.1.1.1/32

  # Secrets
  p:hfToken:
    secure: v1:one
  p:jobSecretEnv:
    A:
      secure: v1:two
    B: {secure: "v1:three"}
  # the end
"""


def test_a_value_changes_in_its_place_and_its_comment_stays() -> None:
    changed = stack_text.with_setting(TEXT, "aws:region", "us-east-2")
    assert changed == TEXT.replace("us-west-2   #", "us-east-2   #")
    assert stack_text.with_setting(TEXT, "p:gpuNodes", "4") == TEXT.replace('"2"', '"4"')


def test_a_block_becomes_one_line_and_what_follows_it_stays() -> None:
    changed = stack_text.with_setting(TEXT, "p:cidrs", ["9.9.9.9/32"])
    assert '  p:cidrs: ["9.9.9.9/32"]\n\n  # Secrets\n' in changed
    assert stack_text.settings_of(changed)["p:cidrs"] == ["9.9.9.9/32"]


def test_a_new_setting_stands_below_the_one_it_belongs_to_or_at_the_end() -> None:
    below = stack_text.with_setting(TEXT, "p:new", ["us-west-2a", "us-west-2c"], after=["p:none", "p:gpuZone"])
    assert "  p:gpuZone: us-west-2b\n  p:new: [us-west-2a, us-west-2c]\n" in below
    last = stack_text.with_setting(TEXT, "p:new", "x")
    assert list(stack_text.settings_of(last))[-1] == "p:new"
    unended = "config:\n  a: b"
    assert stack_text.with_setting(unended, "c", "d") == "config:\n  a: b\n  c: d"


@pytest.mark.parametrize("style", ["|", ">-"])
def test_behind_a_text_over_several_lines_comes_the_next_setting_and_nothing_else(style: str) -> None:
    text = f"config:\n  a: {style}\n    one\n    two\nencryptionsalt: v1:abc\n"
    more = stack_text.with_setting(text, "b", "c")
    assert more == text.replace("two\n", "two\n  b: c\n")
    assert stack_text.without(more, ["a"]) == "config:\n  b: c\nencryptionsalt: v1:abc\n"
    assert stack_text.settings_of(stack_text.with_setting(more, "a", "x")) == {"a": "x", "b": "c"}


def test_a_file_keeps_the_line_ends_that_it_has(tmp_path: Path) -> None:
    for ends in ("\n", "\r\n"):
        file = tmp_path / "Pulumi.dev.yaml"
        file.write_bytes(f"\ufeff# What for{ends}config:{ends}  a: b{ends}".encode())
        text, kept = stack_file.read(file)
        assert text == "# What for\nconfig:\n  a: b\n"
        stack_file.put(file, stack_text.with_setting(text, "a", "c"), kept)
        assert file.read_bytes() == f"# What for{ends}config:{ends}  a: c{ends}".encode()


def test_what_is_taken_out_goes_with_its_lines() -> None:
    left = stack_text.without(TEXT, ["p:cidrs", "p:jobSecretEnv", "encryptionsalt", "p:absent"])
    assert list(stack_text.settings_of(left)) == ["aws:region", "p:gpuZone", "p:gpuNodes", "p:hfToken"]
    assert "the office" not in left
    assert "# the end\n" in left
    assert "salt" not in left


def test_secrets_are_found_at_any_depth_and_replaced_where_they_stand() -> None:
    assert stack_text.secret_keys(TEXT) == ["p:hfToken", "p:jobSecretEnv"]
    anew = {
        "p:hfToken": {"secure": "v1:uno"},
        "p:jobSecretEnv": {"B": {"secure": "v1:tres"}, "A": {"secure": "v1:dos"}},
    }
    replaced = stack_text.with_secrets(TEXT, anew)
    expected = TEXT.replace("v1:one", "v1:uno").replace("v1:two", "v1:dos").replace("v1:three", "v1:tres")
    assert replaced == expected


def test_a_secret_that_was_not_encrypted_anew_does_not_stay() -> None:
    with pytest.raises(BadInputError, match="jobSecretEnv: 2 encrypted values, of which 1"):
        stack_text.with_secrets(TEXT, {"p:hfToken": {"secure": "x"}, "p:jobSecretEnv": {"A": {"secure": "y"}}})


def test_the_encryption_is_that_of_one_stack() -> None:
    assert stack_text.encryption_of(TEXT) == {"encryptionsalt": "v1:abc"}
    other = stack_text.with_encryption(TEXT, {"encryptionsalt": "v1:xyz"})
    assert stack_text.encryption_of(other) == {"encryptionsalt": "v1:xyz"}
    assert stack_text.settings_of(other) == stack_text.settings_of(TEXT)


def test_the_answers_stand_on_top_and_take_the_place_of_the_last_ones() -> None:
    once = stack_text.with_header(TEXT, ["zone a", "zone b"])
    assert once.endswith(TEXT)
    twice = stack_text.with_header(once, ["zone\nc: injected"])
    assert twice.endswith(TEXT)
    assert "zone a" not in twice
    assert "#> zone c: injected\n" in twice
    assert yaml.safe_load(twice) == yaml.safe_load(TEXT)


@pytest.mark.parametrize("text", ["", "config:\n", "- a\n", "config: [a]\n", "config: {a: b\n"])
def test_a_file_without_settings_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="the stack's file"):
        stack_text.settings_of(text)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.text(alphabet=st.characters(max_codepoint=0xFFFF, exclude_categories=("Cs", "Cc")), max_size=20))
def test_a_setting_is_text_whatever_it_looks_like(value: str) -> None:
    for after in ((), ("p:gpuZone",)):
        changed = stack_text.with_setting(TEXT, "p:value", value, after=after)
        found = stack_text.settings_of(changed)
        assert found.pop("p:value") == value
        assert found == stack_text.settings_of(TEXT)
    again = stack_text.with_setting(TEXT, "p:cidrs", [value, "true", "2"])
    assert stack_text.settings_of(again)["p:cidrs"] == [value, "true", "2"]
