"""PURE: the kubeconfig of an EKS cluster, which holds no token: each client asks the AWS CLI for one of its own."""

import json
from collections.abc import Sequence

_EXEC_VERSION = "client.authentication.k8s.io/v1beta1"


def eks_kubeconfig(
    *, name: str, endpoint: str, certificate_authority: str, region: str, profile: str, assume_roles: Sequence[str]
) -> str:
    """JSON text, the same for the same cluster and caller. `certificate_authority` is base64, as EKS gives it.

    `profile` and the one role of `assume_roles` may be empty: then it is who the environment says.
    """
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": endpoint, "certificate-authority-data": certificate_authority}}
            ],
            "users": [
                {
                    "name": name,
                    "user": {
                        "exec": {
                            "apiVersion": _EXEC_VERSION,
                            "command": "aws",
                            "args": _token_arguments(name, region, profile, assume_roles),
                        }
                    },
                }
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )


def _token_arguments(name: str, region: str, profile: str, assume_roles: Sequence[str]) -> list[str]:
    """A profile goes as an argument: of AWS_PROFILE, keys in the environment would take precedence."""
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
    for role in assume_roles[:1]:
        arguments += ["--role-arn", role]
    return [*arguments, "--profile", profile] if profile else arguments
