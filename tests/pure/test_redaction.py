"""Secret values leave no trace in text."""

import json

from workload.redaction import Redactor


def test_a_value_is_replaced_wherever_it_stands() -> None:
    assert Redactor(["hf_secret"])("token=hf_secret, again hf_secret!") == "token=***, again ***!"


def test_a_longer_secret_goes_before_one_it_contains() -> None:
    assert Redactor(["abcd", "abcdefgh"])("abcdefgh abcd") == "*** ***"


def test_every_line_of_a_key_is_a_secret() -> None:
    key = "-----BEGIN KEY-----\nMIIBVgIBADANBgkq\n-----END KEY-----\n"
    assert "MIIBVgIBADANBgkq" not in Redactor([key])("the key is MIIBVgIBADANBgkq")


def test_a_value_is_found_as_a_dictionary_or_json_shows_it() -> None:
    secret = 'quote " and ä'
    redact = Redactor([secret])
    assert "quote" not in redact(json.dumps({"key": secret}))
    assert "quote" not in redact(repr({"key": secret, "other": "it's"}))


def test_values_too_short_to_be_secrets_leave_the_log_readable() -> None:
    assert Redactor(["a", "", "1"])("a plain line 1") == "a plain line 1"
