"""Which accounts a stack's file allows, however it is written there."""

from typing import Any

import pytest

from capacity.account_check import SETTING, allowed_accounts, check_allowed
from workload.errors import BadInputError, ReportedError


@pytest.mark.parametrize(
    "value",
    [
        ["123456789012"],
        [123456789012],
        '["123456789012"]',
        "123456789012",
        123456789012,
    ],
)
def test_an_account_is_read_from_a_list_its_json_text_and_a_number(value: Any) -> None:
    assert allowed_accounts({SETTING: value}.get) == ("123456789012",)


@pytest.mark.parametrize("value", [None, "", [], "[]"])
def test_without_any_every_account_is_allowed(value: Any) -> None:
    assert allowed_accounts({SETTING: value}.get) == ()
    check_allowed("123456789012", ())


def test_another_account_is_refused_and_both_are_named() -> None:
    check_allowed("123456789012", ["999999999999", "123456789012"])
    with pytest.raises(ReportedError, match="of account 123456789012, and aws:allowedAccountIds has 999999999999"):
        check_allowed("123456789012", ["999999999999"])


@pytest.mark.parametrize("value", [{"account": "123456789012"}, [["123456789012"]], '{"a": 1}', 1.5])
def test_what_is_no_list_of_accounts_is_told_by_the_setting(value: Any) -> None:
    with pytest.raises(BadInputError, match=r"aws:allowedAccountIds: .* is no list of accounts"):
        allowed_accounts({SETTING: value}.get)
