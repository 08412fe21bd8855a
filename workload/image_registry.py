"""What an image registry says a tag points at: OCI's distribution API, asked as nobody (an anonymous token)."""

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from workload.errors import ReportedError
from workload.image_reference import DIGEST, ImageReference, Manifest
from workload.recorded_run import at, mappings, shortened, text

CONNECT_S, ANSWER_S = 5.0, 10.0
# Registries may refuse larger manifests (OCI distribution specification), so none has one.
_LARGEST = 4 << 20
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')

Reason = Literal["offline", "timed out", "refused", "absent", "limited", "failed"]


class RegistryError(ReportedError):
    """The registry could not be asked, or did not answer the question: `reason` says which."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def look_up(reference: ImageReference, named: str) -> Manifest:
    """What `named`, a tag or digest of the reference's repository, is now. Raises RegistryError."""
    with _Registry(reference) as registry:
        return registry.manifest(named)


class _Bearer(AuthBase):
    """Also without a token: what a ~/.netrc has for the host is not sent, as it would be otherwise."""

    token = ""

    def __call__(self, request: Any) -> Any:
        if self.token:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


class _Registry:
    def __init__(self, reference: ImageReference) -> None:
        self._reference = reference
        self._scheme = "http" if reference.on_loopback else "https"
        self._session = requests.Session()
        self._session.trust_env = not reference.on_loopback
        self._auth = _Bearer()

    def __enter__(self) -> "_Registry":
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def manifest(self, named: str) -> Manifest:
        """HEAD, which does not count as a pull; the body only of an index, or where no header has the digest."""
        with self._asked("HEAD", named) as answer:
            digest, media_type = _digest(answer), _media_type(answer)
        if digest and media_type not in _INDEXES:
            return Manifest(digest=digest, media_type=media_type)
        # By its digest, where known: the tag may have moved since.
        with self._asked("GET", digest or named) as answer:
            body, media_type = self._body(answer), _media_type(answer)
        found = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if digest and digest != found:
            raise self._error("failed", f"sent a manifest of {found} for {digest}")
        return Manifest(digest=found, media_type=media_type, platforms=_platforms(body))

    @contextlib.contextmanager
    def _asked(self, method: str, named: str) -> Iterator[requests.Response]:
        url = f"{self._scheme}://{self._reference.registry}/v2/{self._reference.repository}/manifests/{named}"
        with self._explained(), contextlib.ExitStack() as stack:
            answer = stack.enter_context(self._request(method, url))
            if answer.status_code == requests.codes.unauthorized and not self._auth.token:
                self._auth.token = self._token(answer.headers.get("WWW-Authenticate", ""))
                answer = stack.enter_context(self._request(method, url))
            # A registry of another kind may not know HEAD.
            if not (method == "HEAD" and answer.status_code == requests.codes.method_not_allowed):
                self._check(answer, named)
            yield answer

    def _request(self, method: str, url: str, **parameters: str) -> requests.Response:
        return self._session.request(
            method,
            url,
            params=parameters,
            headers={"Accept": ", ".join((*_INDEXES, *_MANIFESTS))},
            auth=self._auth,
            timeout=(CONNECT_S, ANSWER_S),
            allow_redirects=True,
            stream=True,
        )

    def _token(self, challenge: str) -> str:
        """An anonymous one, from where the registry says."""
        scheme, _, rest = challenge.partition(" ")
        told = dict(_CHALLENGE.findall(rest))
        realm = urlsplit(told.pop("realm", ""))
        if scheme.lower() != "bearer" or not realm.netloc:
            raise self._error("refused", "wants a login, and is asked here without one: its own tools tell the digest")
        if realm.scheme != "https" and not self._reference.on_loopback:
            raise self._error("refused", f"sends for its token to {shortened(realm.geturl())}, which is not https")
        known = {name: value for name, value in told.items() if name in ("service", "scope")}
        with self._request("GET", realm.geturl(), **known) as answer:
            if answer.status_code != requests.codes.ok:
                raise self._error("refused", f"gives no anonymous token (HTTP {answer.status_code} of {realm.netloc})")
            try:
                content = json.loads(self._body(answer))
            except ValueError:
                content = None
        token = text(at(content, "token")) or text(at(content, "access_token"))
        if token is None:
            raise self._error("failed", f"got no token from {realm.netloc}")
        return token

    def _check(self, answer: requests.Response, named: str) -> None:
        code, image = answer.status_code, f"{self._reference.repository} {named}"
        if code == requests.codes.ok:
            return
        if code == requests.codes.not_found:
            raise self._error("absent", f"has no {image}: the tag or the repository is gone, or was never there")
        if code in (requests.codes.unauthorized, requests.codes.forbidden):
            raise self._error("refused", f"does not show {image} to nobody (HTTP {code}): private, or not there")
        if code == requests.codes.too_many_requests:
            pause = text(answer.headers.get("Retry-After"))
            when = f"in {shortened(pause)} s" if pause and pause.isdecimal() else "later"
            raise self._error("limited", f"was asked too often (HTTP 429): ask again {when}")
        raise self._error("failed", f"answers HTTP {code} for {image}")

    def _body(self, answer: requests.Response) -> bytes:
        until = time.monotonic() + ANSWER_S
        body = b""
        for chunk in answer.iter_content(1 << 16):
            body += chunk
            if len(body) > _LARGEST:
                raise self._error("failed", f"sends more than {_LARGEST >> 20} MiB where a manifest was asked for")
            if time.monotonic() > until:
                raise self._error("timed out", f"did not send its answer within {ANSWER_S:g} s")
        return body

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except requests.exceptions.SSLError as error:
            raise self._error("failed", f"shows no certificate that is trusted here ({_innermost(error)})") from None
        except requests.exceptions.Timeout:
            raise self._error("timed out", f"did not answer within {ANSWER_S:g} s") from None
        except requests.exceptions.ConnectionError as error:
            raise self._error("offline", f"cannot be reached from here ({_innermost(error)})") from None
        except requests.exceptions.RequestException as error:
            raise self._error("failed", f"cannot be asked ({_innermost(error)})") from None

    def _error(self, reason: Reason, what: str) -> RegistryError:
        return RegistryError(reason, f"registry {self._reference.registry} {what}")


def _digest(answer: requests.Response) -> str:
    told = answer.headers.get("Docker-Content-Digest", "")
    return told if DIGEST.fullmatch(told) else ""


def _media_type(answer: requests.Response) -> str:
    return str(answer.headers.get("Content-Type", "")).partition(";")[0].strip()


def _platforms(body: bytes) -> dict[str, str]:
    try:
        members = mappings(at(json.loads(body), "manifests"))
    except (ValueError, RecursionError):
        return {}
    names = {str(one.get("digest")): _platform(one) for one in members}
    # What is attached to an image, a signature or its provenance, is of no platform.
    return {digest: name for digest, name in names.items() if name and DIGEST.fullmatch(digest)}


def _platform(member: Mapping[str, Any]) -> str:
    parts = [text(at(member, "platform", name)) for name in ("os", "architecture", "variant")]
    name = "/".join(part for part in parts if part)
    return "" if "unknown" in name else name


def _innermost(error: BaseException) -> str:
    """What a connection failed by, below what requests and urllib3 say around it."""
    reason: Any = error.args[0] if error.args else error
    reason = getattr(reason, "reason", reason)
    return shortened(re.sub(r"^<?[\w.]*(Connection|Error).*?>?: ", "", str(reason)) or type(error).__name__)
