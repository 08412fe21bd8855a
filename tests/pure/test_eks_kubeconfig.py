"""The kubeconfig of an EKS cluster: complete, and without a token."""

import json
from typing import Any

import pytest
from kubernetes import config

from infra.eks_kubeconfig import eks_kubeconfig
from workload.kubernetes_access import is_kubeconfig_text

CLUSTER = {
    "name": "ray-dev",
    "endpoint": "https://ABC.gr7.us-west-2.eks.amazonaws.com",
    "certificate_authority": "Q0E=",
    "region": "us-west-2",
}


def made(profile: str = "", assume_roles: tuple[str, ...] = ()) -> str:
    return eks_kubeconfig(**CLUSTER, profile=profile, assume_roles=assume_roles)


def command(text: str) -> list[str]:
    execution: dict[str, Any] = json.loads(text)["users"][0]["user"]["exec"]
    return [execution["command"], *execution["args"]]


def test_clients_ask_the_aws_cli_for_a_token_of_the_cluster() -> None:
    expected = ["aws", "--region", "us-west-2", "eks", "get-token", "--cluster-name", "ray-dev", "--output", "json"]
    assert command(made()) == expected
    assert json.loads(made())["users"][0]["user"].keys() == {"exec"}, "anything beside it would be a secret at rest"


@pytest.mark.parametrize(
    ("profile", "roles", "expected"),
    [
        ("dev", (), ["--profile", "dev"]),
        ("", ("arn:aws:iam::111122223333:role/ci",), ["--role-arn", "arn:aws:iam::111122223333:role/ci"]),
        (
            "dev",
            ("arn:aws:iam::111122223333:role/ci",),
            ["--role-arn", "arn:aws:iam::111122223333:role/ci", "--profile", "dev"],
        ),
    ],
)
def test_they_sign_in_as_the_stack_does(profile: str, roles: tuple[str, ...], expected: list[str]) -> None:
    assert command(made(profile, roles))[-len(expected) :] == expected


def test_the_same_cluster_and_caller_give_the_same_text() -> None:
    assert made("dev") == made("dev")
    assert made("dev") != made("prod")


def test_the_kubernetes_client_takes_it_as_text() -> None:
    assert is_kubeconfig_text(made())
    loader = config.kube_config.KubeConfigLoader(json.loads(made()))
    assert loader.current_context["name"] == "ray-dev"
    assert loader._cluster["server"] == CLUSTER["endpoint"]
