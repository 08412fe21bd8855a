"""The bed's own calls of its API server: plain JSON requests, since a client library takes a second to import."""

import json
import ssl
from pathlib import Path
from typing import Any

import urllib3

from tools.bed.errors import BedError
from workload.kubernetes_api import asked_again

_COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}


class ApiError(BedError):
    """The API server's refusal, with its HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


ApiError.__module__ = "builtins"


class Api:
    """The API server as an administrator sees it."""

    def __init__(self, kubeconfig: Path, certificate: Path) -> None:
        content = json.loads(kubeconfig.read_text())
        self._server = content["clusters"][0]["cluster"]["server"]
        token = content["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}", "User-Agent": "bed", "Accept": "application/json"}
        context = ssl.create_default_context(cafile=str(certificate))
        self._pool = urllib3.PoolManager(headers=headers, ssl_context=context, retries=False, timeout=30.0, maxsize=8)

    def is_ready(self) -> bool:
        try:
            return self._pool.request("GET", f"{self._server}/readyz", timeout=2.0).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def call(self, method: str, path: str, body: Any = None, *, accept: str = "", content: str = "") -> dict[str, Any]:
        """The answer to one request. Raises ApiError for a refusal, BedError where there is no answer."""
        headers = {**self._pool.headers, "Content-Type": content or "application/json"}
        if accept:
            headers["Accept"] = accept
        data = None if body is None else json.dumps(body).encode()
        try:
            # One that is ready may still be opening the storage of one resource or another.
            answer = asked_again(
                lambda: self._pool.request(method, f"{self._server}{path}", body=data, headers=headers)
            )
        except urllib3.exceptions.HTTPError as error:
            raise BedError(f"{method} {path}: the bed's API server gives no answer: {error}") from None
        if answer.status >= 300:
            raise ApiError(f"{method} {path}: HTTP {answer.status}: {answer.data.decode()[:600]}", answer.status)
        content_: dict[str, Any] = json.loads(answer.data)
        return content_

    def get(self, path: str) -> dict[str, Any]:
        return self.call("GET", path)

    def list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.get(path)["items"]
        return items

    def create(self, item: dict[str, Any]) -> dict[str, Any]:
        """Posts a manifest to its collection; its namespace stands in its metadata."""
        return self.call("POST", _COLLECTIONS[item["kind"]].format(item["metadata"].get("namespace", "")), item)

    def merge(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        """A JSON merge patch: None removes a key."""
        return self.call("PATCH", path, patch, content="application/merge-patch+json")

    def delete(self, path: str) -> None:
        self.call("DELETE", path)

    def is_established(self, definition: str) -> bool:
        """Whether objects of this CustomResourceDefinition can be made."""
        # As a table: the definition itself is a megabyte of schema, of which the conditions are not a column; so ask
        # for what it defines instead.
        plural, _, group = definition.partition(".")
        try:
            versions = [version["version"] for version in self.get(f"/apis/{group}")["versions"]]
            return all(
                any(resource["name"] == plural for resource in self.get(f"/apis/{group}/{version}")["resources"])
                for version in versions
            )
        except ApiError as error:
            if error.status == 404:
                return False
            raise
