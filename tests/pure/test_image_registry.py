"""What a registry's tag points at: the token flow, indexes, and each way in which no answer comes."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.support.loopback_registry import Registry, serving
from workload import image_registry
from workload.errors import BadInputError
from workload.image_reference import Manifest, parse
from workload.image_registry import RegistryError, look_up


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as one:
        yield one


def asked(registry: Registry, tag: str = "v1") -> Manifest:
    return look_up(parse(f"{registry.image}:{tag}"), tag)


def refusal(registry: Registry, tag: str = "v1") -> tuple[str, str]:
    with pytest.raises(RegistryError) as refused:
        asked(registry, tag)
    told = str(refused.value)
    assert "\n" not in told
    assert told.startswith(f"registry 127.0.0.1:{registry.port} ")
    return refused.value.reason, told


@pytest.mark.parametrize("tokens", [True, False])
def test_a_head_tells_the_digest_and_pulls_nothing(tokens: bool, registry: Registry) -> None:
    registry.tokens = tokens
    digest = registry.push("v1", "one")
    found = asked(registry)
    assert (found.digest, found.platforms) == (digest, {})
    assert [line.split()[0] for line in registry.asked] == (["HEAD", "GET", "HEAD"] if tokens else ["HEAD"])
    assert not tokens or registry.asked[1].startswith("GET /token?")


@pytest.mark.parametrize(("headers", "heads"), [(False, True), (True, False), (False, False)])
def test_without_a_header_the_body_is_the_digest(headers: bool, heads: bool, registry: Registry) -> None:
    registry.headers, registry.heads = headers, heads
    assert asked(registry, "v1" if registry.push("v1", "one") else "").digest == registry.push("", "one")


def test_an_index_names_the_image_of_each_platform_and_no_signature(registry: Registry) -> None:
    digest, (amd, arm) = registry.push_index("v1", "one", "two")
    found = asked(registry)
    assert found.digest == digest
    assert dict(found.platforms) == {amd: "linux/amd64", arm: "linux/arm64"}
    assert found.is_image(digest)
    assert found.is_image(arm)
    assert not found.is_image(registry.push("", "three"))


def test_a_body_that_is_not_what_its_digest_says_is_refused(registry: Registry) -> None:
    digest, _ = registry.push_index("v1", "one", "two")
    registry.spoil(digest)
    reason, told = refusal(registry)
    assert reason == "failed"
    assert f"for {digest}" in told


def test_no_password_of_this_machine_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine a.example login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    plain = requests.Request("GET", "https://a.example/v2/")
    assert "Authorization" in requests.Session().prepare_request(plain).headers, "else this test shows nothing"
    plain.auth = image_registry._Bearer()
    assert "Authorization" not in requests.Session().prepare_request(plain).headers


@pytest.mark.parametrize(
    ("status", "headers", "reason", "words"),
    [
        (404, {}, "absent", "has no team/ray v1: the tag or the repository is gone"),
        (403, {}, "refused", "does not show team/ray v1 to nobody (HTTP 403)"),
        (429, {"Retry-After": "30"}, "limited", "(HTTP 429): ask again in 30 s"),
        (429, {}, "limited", "ask again later"),
        (500, {}, "failed", "answers HTTP 500"),
        (401, {"WWW-Authenticate": 'Basic realm="x"'}, "refused", "wants a login, and is asked here without one"),
        (401, {}, "refused", "wants a login"),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    status: int, headers: dict[str, str], reason: str, words: str, registry: Registry
) -> None:
    registry.answers["HEAD"] = (status, headers)
    told = refusal(registry)
    assert told[0] == reason
    assert words in told[1]


def test_a_tag_that_is_not_there_is_absent(registry: Registry) -> None:
    assert refusal(registry, "v2")[0] == "absent"


def test_a_token_that_is_not_given_is_a_refusal(registry: Registry) -> None:
    registry.realm_status = 403
    assert refusal(registry)[1].endswith(f"gives no anonymous token (HTTP 403 of 127.0.0.1:{registry.port})")


def test_a_token_that_does_not_open_it_is_asked_for_once(registry: Registry) -> None:
    registry.challenge = f'Bearer realm="http://127.0.0.1:{registry.port}/token",service="there"'
    assert refusal(registry)[0] == "refused"
    assert len(registry.asked) == 2


def test_a_registry_that_does_not_answer_is_timed_out(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_registry, "ANSWER_S", 0.2)
    registry.silent = threading.Event()
    assert refusal(registry) == (
        "timed out",
        f"registry 127.0.0.1:{registry.port} did not answer within 0.2 s",
    )


def test_a_registry_that_is_not_there_is_offline() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        reason, told = refusal(Registry(port=port))
    assert reason == "offline"
    assert "Connection refused" in told


def test_a_name_without_an_address_is_offline() -> None:
    with pytest.raises(RegistryError) as refused:
        look_up(parse("registry.invalid/team/ray:v1"), "v1")
    assert refused.value.reason in ("offline", "timed out")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.example/x/y:v1", ("a.example", "x/y", "v1", None)),
        ("a.example:5000/x", ("a.example:5000", "x", "latest", None)),
        (f"localhost/x:v1@sha256:{'0' * 64}", ("localhost", "x", "v1", f"sha256:{'0' * 64}")),
        (f"a.example/x@sha256:{'0' * 64}", ("a.example", "x", None, f"sha256:{'0' * 64}")),
    ],
)
def test_a_reference_is_taken_apart(text: str, parts: tuple[str | None, ...]) -> None:
    found = parse(text)
    assert (found.registry, found.repository, found.tag, found.digest) == parts
    assert str(found).startswith(text)


@pytest.mark.parametrize(
    "text", ["ray:v1", "team/ray:v1", "", "a.example/x:v1@sha256:00", "a.example/X", "http://a.example/x"]
)
def test_a_reference_that_names_no_registry_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="names no registry"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("127.0.0.1:5/x", True),
        ("[::1]:5/x", True),
        ("localhost:5/x", True),
        ("127.0.0.1.example/x", False),
        ("a.example/x", False),
    ],
)
def test_only_loopback_is_spoken_to_in_plain_http(text: str, plain: bool) -> None:
    assert parse(text).on_loopback is plain
