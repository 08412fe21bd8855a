"""The token that a Ray cluster's components and its clients share: made once, kept as a secret."""

import secrets
from typing import Any

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider

from workload.provider_process import reported

_BYTES = 32


class RayAuthTokenProvider(ResourceProvider):
    """Makes the token. Pickled by reference: do not rename module or class."""

    serialize_as_secret_always = False

    @reported
    def create(self, _props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=secrets.token_hex(8), outs={"token": secrets.token_hex(_BYTES)})

    @reported
    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Never by itself. `pulumi up --replace URN` renews the token, and with it the pods that hold it."""
        return DiffResult(changes=False)


class RayAuthToken(Resource, module="infra", name="RayAuthToken"):
    """A random token of 64 hexadecimal digits."""

    token: pulumi.Output[str]

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        secret = pulumi.ResourceOptions(additional_secret_outputs=["token"])
        super().__init__(RayAuthTokenProvider(), name, {"token": None}, pulumi.ResourceOptions.merge(opts, secret))
