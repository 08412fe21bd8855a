"""Calling a Kubernetes API server: which one, as whom, and what its refusals mean."""

import contextlib
import json
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workload.errors import ReportedError

CONNECT_S, ANSWER_S = 5.0, 30.0
# How audit logs tell this product's calls from others'.
USER_AGENT = "ray-train-efa"


class KubernetesError(ReportedError):
    """The API server refused or could not be reached; `status` is its HTTP status, 0 where it gave no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


# Shown to the user as `traceback.format_exc()` text: see workload.errors.
KubernetesError.__module__ = "builtins"


@dataclass(frozen=True, kw_only=True)
class KubernetesAccess:
    """A cluster and a user of it, as kubectl takes them.

    `kubeconfig` is a path, or a kubeconfig's text; empty follows KUBECONFIG, then ~/.kube/config, then the service
    account of the pod this runs in. `context` empty takes the current one. Read anew by each `client()`, so that a
    renewed token is seen.
    """

    kubeconfig: str = field(default="", repr=False)
    context: str = ""

    @property
    def named(self) -> str:
        """How messages name it: never by its content."""
        where = self.kubeconfig if self.kubeconfig and not is_kubeconfig_text(self.kubeconfig) else ""
        where = where or ("the given kubeconfig" if self.kubeconfig else os.environ.get("KUBECONFIG", "~/.kube/config"))
        return f"{where}, context {self.context}" if self.context else where

    def with_context(self) -> "KubernetesAccess":
        """The same with the name of the context that is current now: later it may be another one."""
        from kubernetes import config

        if self.context or is_kubeconfig_text(self.kubeconfig):
            return self
        path = str(Path(self.kubeconfig).expanduser()) if self.kubeconfig else None
        try:
            _, current = config.list_kube_config_contexts(path)
        except Exception:
            # Whoever calls next says what is wrong with it; inside a pod there is none.
            return self
        return replace(self, context=current["name"])

    def client(self) -> Any:
        """A `kubernetes.client.ApiClient` of its own. Raises KubernetesError when the kubeconfig cannot be used."""
        from kubernetes import client, config

        configuration = client.Configuration()
        context = self.context or None
        try:
            if is_kubeconfig_text(self.kubeconfig):
                import yaml

                content = yaml.safe_load(self.kubeconfig)
                config.load_kube_config_from_dict(content, context, client_configuration=configuration)
            elif self.kubeconfig or os.environ.get("KUBECONFIG") or Path("~/.kube/config").expanduser().exists():
                path = str(Path(self.kubeconfig).expanduser()) if self.kubeconfig else None
                config.load_kube_config(path, context, client_configuration=configuration, persist_config=False)
            else:
                config.load_incluster_config(client_configuration=configuration)
        except Exception as error:
            raise KubernetesError(
                f"no usable kubeconfig ({self.named}): {_first_line(error)}; set kubeconfig, kubeContext or KUBECONFIG"
            ) from None
        configuration.retries = 1
        made = client.ApiClient(configuration)
        made.user_agent = USER_AGENT
        if str(configuration.host).startswith("https://"):
            try:
                made.rest_client.pool_manager.connection_pool_kw["ssl_context"] = tls(configuration)
            except (OSError, ValueError) as error:
                raise KubernetesError(f"the certificates of {self.named} cannot be used: {error}") from None
        return made


def is_kubeconfig_text(kubeconfig: str) -> bool:
    return "\n" in kubeconfig or kubeconfig.lstrip().startswith("{")


def tls(configuration: Any) -> ssl.SSLContext:
    """For a `kubernetes.client.Configuration`. Raises OSError or ValueError where its certificates cannot be read."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # As kubectl: a CA is not refused for a missing extension, which Python 3.13 does by default.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.assert_hostname is False:
        context.check_hostname = False
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context


@contextlib.contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turns whatever a call of the Kubernetes client raises into a KubernetesError that says what was being done."""
    import urllib3
    from kubernetes.client import ApiException

    try:
        yield
    except ApiException as error:
        raise KubernetesError(f"{doing}: {_refusal(error)}", int(error.status or 0)) from None
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise KubernetesError(f"{doing}: the API server cannot be reached: {_first_line(error)}") from None


def _refusal(error: Any) -> str:
    message = str(error.reason or "")
    with contextlib.suppress(ValueError, TypeError):
        message = json.loads(error.body).get("message") or message
    what = {
        401: "the API server does not accept these credentials (expired?); renew them and run again",
        403: "not permitted",
        404: "not found",
    }.get(int(error.status or 0))
    return f"{what}: {message[:400]}" if what else f"{message[:400]} (HTTP {error.status})"


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]
