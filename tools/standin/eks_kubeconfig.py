"""PURE: the kubeconfig that pulumi-eks gives out: the `aws` command is asked for every token."""

from collections.abc import Mapping
from typing import Any


def kubeconfig(
    *,
    cluster: str,
    endpoint: str,
    region: str,
    certificate: str,
    credentials: Mapping[str, str] | None,
    with_profile: bool,
) -> dict[str, Any]:
    """`credentials` is providerCredentialOpts: roleArn, profileName; the latter is left out of what users get."""
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"]
    if credentials and credentials.get("roleArn"):
        arguments += ["--role", credentials["roleArn"]]
    if with_profile and credentials and credentials.get("profileName"):
        arguments += ["--profile", credentials["profileName"]]
    version = "client.authentication.k8s.io/v1beta1"
    return {
        "apiVersion": "v1",
        "clusters": [
            {"cluster": {"server": endpoint, "certificate-authority-data": certificate}, "name": "kubernetes"}
        ],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [
            {
                "name": "aws",
                "user": {
                    "exec": {
                        "apiVersion": version,
                        "command": "aws",
                        "args": arguments,
                        "env": [{"name": "KUBERNETES_EXEC_INFO", "value": f'{{"apiVersion": "{version}"}}'}],
                    }
                },
            }
        ],
    }


def region_of(arn: str) -> str:
    """Raises ValueError for what is no ARN."""
    parts = arn.split(":")
    if len(parts) < 4 or parts[0] != "arn":
        raise ValueError(f"invalid ARN: '{arn}'")
    return parts[3]
