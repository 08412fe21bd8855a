"""The kubernetes platform's settings: what cannot be is said before a cluster is asked anything."""

from typing import Any

import pytest

from infra.kubernetes_settings import KubernetesSettings
from infra.settings import Settings, SettingsError
from tests.pure.test_settings import empty_config, load

__all__ = ["empty_config"]


def on_kubernetes(secret: tuple[str, ...] = (), **changes: Any) -> Settings:
    return load(secret, **{"platform": "kubernetes", **changes})


def kubernetes(secret: tuple[str, ...] = (), **changes: Any) -> KubernetesSettings:
    settings = on_kubernetes(secret, **changes).kubernetes
    assert settings is not None
    return settings


def test_the_defaults_are_two_g6_nodes_the_published_image_and_a_namespace_of_its_own() -> None:
    settings = kubernetes()
    assert (settings.instance_type, settings.nodes) == ("g6.12xlarge", 2)
    assert settings.ray.image == "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1"
    assert (settings.namespace, settings.namespace_mode) == ("ray-train", "create")
    assert settings.node_selector == {"role": "gpu-worker"}
    assert {settings.nvidia_plugin.mode, settings.efa_plugin.mode, settings.kuberay.mode} == {"auto"}


def test_other_platforms_have_none() -> None:
    assert load().kubernetes is None


def test_checkpoints_go_to_the_claim_or_to_s3() -> None:
    assert on_kubernetes(storagePath="team/runs").storage_path == "/mnt/ray-train/team/runs"
    assert on_kubernetes(storagePath="s3://bucket/prefix").storage_path == "s3://bucket/prefix"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpuInstanceType": "g6.13xlarge"}, "ray-train-efa:gpuInstanceType: 'g6.13xlarge' "),
        ({"gpuNodes": 0}, "ray-train-efa:gpuNodes: '0' must be between 1 and 512"),
        ({"gpuNodeSelector": {"role": 1}}, "ray-train-efa:gpuNodeSelector: 'role: 1' is not a label"),
        ({"gpuNodeSelector": {"role": "a b"}}, "ray-train-efa:gpuNodeSelector: 'role: a b' is not a label"),
        ({"kubeNamespace": "Ray_Train"}, "ray-train-efa:kubeNamespace: 'Ray_Train' is not a namespace"),
        ({"kubeNamespace": ""}, "ray-train-efa:kubeNamespace: must not be empty"),
        ({"kubeNamespaceMode": "make"}, "ray-train-efa:kubeNamespaceMode: 'make' is none of create, existing"),
        ({"addonKubeRay": "none"}, "ray-train-efa:addonKubeRay: 'none' is none of auto, install, existing"),
        ({"addonKubeRayRepository": "ftp://x"}, "ray-train-efa:addonKubeRayRepository: 'ftp://x' is not a chart"),
        ({"rayImage": "Has Spaces"}, "ray-train-efa:rayImage: 'Has Spaces' is not an image reference"),
        ({"rayVersion": "latest"}, "ray-train-efa:rayVersion: 'latest' is not a version like 2.58.0"),
        ({"rayHeadMemory": "8GB"}, "ray-train-efa:rayHeadMemory: '8GB' is not a Kubernetes quantity"),
        ({"rayPrePull": "yes"}, "ray-train-efa:rayPrePull: 'yes' is none of true, false"),
        ({"rayEnv": {"A B": "1"}}, "ray-train-efa:rayEnv: 'A B' is not the name of an environment variable"),
        ({"rayEnv": {"RAY_AUTH_MODE": "x"}}, "ray-train-efa:rayEnv: 'RAY_AUTH_MODE' is set by the cluster itself"),
        ({"storagePath": "/data"}, "ray-train-efa:storagePath: '/data' is neither s3://bucket/prefix nor a folder"),
        ({"storagePath": "../up"}, "ray-train-efa:storagePath: '../up' is neither"),
        ({"storagePath": "s3://b"}, "ray-train-efa:storagePath: 's3://b' is neither"),
        ({"storagePath": "s3://bucket/x", "storageClaim": "c"}, "ray-train-efa:storageClaim: 'c' is not used beside"),
        ({"storageSize": ""}, "ray-train-efa:storageSize: must not be empty"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        on_kubernetes(**changes)
    assert message in str(caught.value)


def test_what_kubernetes_alone_reads_is_no_problem_elsewhere() -> None:
    assert load(rayHeadMemory="8GB").platform == "local"


def test_the_hugging_face_token_must_be_encrypted_and_is_never_shown() -> None:
    with pytest.raises(SettingsError, match="hfToken: '\\*\\*\\*' is kept in clear; encrypt it") as caught:
        on_kubernetes(hfToken="hf_swordfish")
    assert "hf_swordfish" not in str(caught.value)
    settings = on_kubernetes(("hfToken",), hfToken="hf_swordfish")
    assert settings.kubernetes is not None
    assert settings.kubernetes.hf_token is not None
    assert "hf_swordfish" not in repr(settings) + repr(settings.declared)
