"""A Helm release that an interrupted deployment left behind: what is recognised, and what is done about it."""

import base64
import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
import yaml

from infra import helm_release
from infra.helm_pending import HelmPendingProvider
from infra.helm_release import ReleaseRecord
from workload.errors import ReportedError

RELEASE, NAMESPACE, MARKER = "ray-train-kuberay-operator", "kuberay-system", "ray-train-kuberay-operator-deployed"
MANIFEST = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: kuberay-operator}\n"


def record(version: int, status: str) -> ReleaseRecord:
    return ReleaseRecord(secret=f"sh.helm.release.v1.x.v{version}", version=version, status=status)


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "pending-rollback", "uninstalling"])
@pytest.mark.parametrize("in_state", [True, False])
def test_an_operation_that_says_it_goes_on_was_interrupted(status: str, in_state: bool) -> None:
    found = helm_release.interrupted([record(1, "superseded"), record(2, status)], in_state=in_state)
    assert found == record(2, status)


@pytest.mark.parametrize("status", ["deployed", "failed", "uninstalled", "superseded"])
def test_a_release_in_the_state_that_came_to_an_end_is_left_alone(status: str) -> None:
    assert helm_release.interrupted([record(1, status)], in_state=True) is None


@pytest.mark.parametrize(
    ("status", "stands_in_the_way"), [("deployed", True), ("failed", False), ("uninstalled", False)]
)
def test_a_release_that_the_state_does_not_know_stands_in_the_way(status: str, stands_in_the_way: bool) -> None:
    """The engine was killed, its plugin finished the installation: Helm would refuse to install it again."""
    found = helm_release.interrupted([record(1, status)], in_state=False)
    assert (found is not None) is stands_in_the_way


def test_only_the_last_revision_counts_and_revisions_are_numbers() -> None:
    records = [record(10, "deployed"), record(9, "pending-upgrade"), record(2, "superseded")]
    assert helm_release.interrupted(records, in_state=True) is None
    assert helm_release.interrupted([], in_state=False) is None


def packed(content: dict[str, Any], *, compressed: bool = True) -> str:
    text = json.dumps(content).encode()
    return base64.b64encode(base64.b64encode(gzip.compress(text) if compressed else text)).decode()


def unpacked(data: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(data))))
    return content


@pytest.mark.parametrize("compressed", [True, False])
def test_a_record_is_marked_failed_and_keeps_all_else(compressed: bool) -> None:
    before = {
        "name": RELEASE,
        "version": 1,
        "info": {"status": "pending-install", "first_deployed": "2026-01-01T00:00:00Z", "description": "underway"},
        "manifest": MANIFEST,
        "config": {"resources": {"limits": {"cpu": 1}}},
    }
    marked = helm_release.marked_failed(packed(before, compressed=compressed))
    after = unpacked(marked)
    assert after["info"]["status"] == "failed"
    assert after["info"]["first_deployed"] == before["info"]["first_deployed"]  # type: ignore[index]
    assert {**after, "info": None} == {**before, "info": None}
    assert helm_release.manifest_of(marked) == MANIFEST


class ApiServer:
    """Secrets and ConfigMaps of one namespace over HTTP; with `conflicts` every patch comes too late."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, Any]] = {}
        self.config_maps: set[str] = set()
        self.conflicts = False
        self.writes: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_args: Any) -> None:
                pass

            def answer(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                url = urlparse(self.path)
                kind, _, name = url.path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/").partition("/")
                if kind == "secrets" and not name:
                    wanted = dict(pair.split("=") for pair in parse_qs(url.query)["labelSelector"][0].split(","))
                    labelled = outer.secrets.values()
                    items = [s for s in labelled if wanted.items() <= s["metadata"]["labels"].items()]
                    self.answer(200, {"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": items})
                elif kind == "secrets" and name in outer.secrets:
                    self.answer(200, outer.secrets[name])
                elif kind == "configmaps" and name in outer.config_maps:
                    self.answer(200, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}})
                else:
                    self.answer(404, {"kind": "Status", "message": f"{kind} {name} not found"})

            def do_PATCH(self) -> None:
                name = self.path.rpartition("/")[2]
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                secret = outer.secrets[name]
                if outer.conflicts or body["metadata"]["resourceVersion"] != secret["metadata"]["resourceVersion"]:
                    self.answer(409, {"kind": "Status", "message": "the object has been modified"})
                    return
                outer.writes.append(name)
                secret["metadata"]["labels"] |= body["metadata"]["labels"]
                secret["data"] |= body["data"]
                self.answer(200, secret)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add_release(self, version: int, status: str, name: str = RELEASE) -> str:
        secret = f"sh.helm.release.v1.{name}.v{version}"
        self.secrets[secret] = {
            "metadata": {
                "name": secret,
                "resourceVersion": str(100 + version),
                "labels": {"owner": "helm", "name": name, "version": str(version), "status": status},
            },
            "data": {"release": packed({"name": name, "info": {"status": status}, "manifest": MANIFEST})},
        }
        return secret

    def status(self, secret: str) -> tuple[str, str]:
        """As the label says it, and as the record does."""
        stored = self.secrets[secret]
        return stored["metadata"]["labels"]["status"], unpacked(stored["data"]["release"])["info"]["status"]

    def inputs(self) -> dict[str, Any]:
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        return {
            "release": RELEASE,
            "namespace": NAMESPACE,
            "marker": MARKER,
            "kubeconfig": yaml.safe_dump(kubeconfig),
            "kube_context": "",
        }


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.server.shutdown()
    server.server.server_close()


def test_a_first_deployment_finds_nothing_and_writes_nothing(api: ApiServer) -> None:
    api.add_release(1, "pending-install", name="somebody-elses")
    made = HelmPendingProvider().create(api.inputs())
    assert made.outs is not None
    assert made.outs["note"] == "deployed"
    assert api.writes == []


def test_what_the_state_does_not_know_is_put_right_before_it_is_created(
    api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = api.add_release(1, "deployed")
    HelmPendingProvider().create(api.inputs())
    assert api.status(secret) == ("failed", "failed")
    assert "unknown to the state" in capsys.readouterr().out


def test_a_preview_sees_the_pending_release_says_so_and_touches_nothing(
    api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    api.config_maps.add(MARKER)
    api.add_release(1, "superseded")
    secret = api.add_release(2, "pending-upgrade")
    state = {**api.inputs(), "note": "deployed"}
    assert HelmPendingProvider().diff("id", state, api.inputs()).changes
    assert "left pending-upgrade" in capsys.readouterr().out
    assert api.writes == []
    updated = HelmPendingProvider().update("id", state, api.inputs())
    assert api.status(secret) == ("failed", "failed")
    assert updated.outs is not None
    assert updated.outs["note"] != state["note"], "the release deploys again where nothing else has changed"
    assert not HelmPendingProvider().diff("id", updated.outs, api.inputs()).changes


def test_a_release_that_is_in_the_state_and_deployed_is_no_change(api: ApiServer) -> None:
    api.config_maps.add(MARKER)
    api.add_release(1, "deployed")
    assert not HelmPendingProvider().diff("id", {**api.inputs(), "note": "deployed"}, api.inputs()).changes


def test_a_release_that_was_deployed_but_never_reached_the_state_is_one(api: ApiServer) -> None:
    api.add_release(1, "deployed")
    assert HelmPendingProvider().diff("id", {**api.inputs(), "note": "deployed"}, api.inputs()).changes


def test_a_record_that_somebody_works_on_meanwhile_is_not_overwritten(api: ApiServer) -> None:
    api.add_release(1, "pending-install")
    api.conflicts = True
    with pytest.raises(ReportedError, match="worked on by another process"):
        HelmPendingProvider().create(api.inputs())


def test_another_kubeconfig_is_no_change(api: ApiServer) -> None:
    state = {**api.inputs(), "kubeconfig": "/elsewhere", "note": "deployed"}
    assert not HelmPendingProvider().diff("id", state, api.inputs()).changes


def test_a_cluster_that_is_gone_neither_shows_a_change_nor_keeps_anything_from_being_destroyed(
    api: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {**api.inputs(), "note": "deployed"}
    api.server.shutdown()
    api.server.server_close()
    assert not HelmPendingProvider().diff("id", inputs, inputs).changes
    HelmPendingProvider().delete("id", inputs)
    assert "not looked for" in capsys.readouterr().out
