"""What the Ray cluster's objects say, and which settings count as another cluster."""

import dataclasses
import json
import shlex
from typing import Any

import pytest

from infra.instances import known
from infra.ray_cluster_manifest import ray_cluster, spec_digest
from infra.ray_cluster_objects import image_pull, network_policy, volume_claim
from infra.ray_cluster_spec import RayClusterSpec, amount, worker_resources
from workload.errors import BadInputError


def spec(**changes: Any) -> RayClusterSpec:
    values: dict[str, Any] = {
        "namespace": "ray-train",
        "image": "public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v1.1",
        "ray_version": "2.58.0",
        "instance": known("g6.12xlarge"),
        "nodes": 2,
        "zone": "",
        "node_selector": {"role": "gpu-worker"},
        "head_cpu": "2",
        "head_memory": "8Gi",
        "worker_cpu": "",
        "worker_memory": "",
        "shm_size": "",
        "tmp_size": "50Gi",
        "trainers_per_node": 3,
        "env": {},
        **changes,
    }
    return RayClusterSpec(**values)


def without_gpus(**changes: Any) -> RayClusterSpec:
    return spec(**{"instance": None, "worker_cpu": "2", "worker_memory": "4Gi", "node_selector": {}, **changes})


def group(made: RayClusterSpec) -> dict[str, Any]:
    [only] = ray_cluster(made)["spec"]["workerGroupSpecs"]
    return dict(only)


def head_pod(made: RayClusterSpec) -> dict[str, Any]:
    return dict(ray_cluster(made)["spec"]["headGroupSpec"]["template"]["spec"])


def worker_pod(made: RayClusterSpec) -> dict[str, Any]:
    return dict(group(made)["template"]["spec"])


def container(pod: dict[str, Any]) -> dict[str, Any]:
    [only] = pod["containers"]
    return dict(only)


def env(pod: dict[str, Any]) -> dict[str, Any]:
    variables = container(pod)["env"]
    names = [variable["name"] for variable in variables]
    assert len(set(names)) == len(names), "a variable is there twice; server-side apply refuses that"
    return {variable["name"]: variable.get("value") for variable in variables}


def test_head_and_workers_run_the_same_unmodified_image() -> None:
    head, worker = container(head_pod(spec())), container(worker_pod(spec()))
    assert head["image"] == worker["image"] == spec().image
    assert not {"command", "args"} & (head.keys() | worker.keys())


def test_the_head_has_no_gpu_and_keeps_off_gpu_nodes() -> None:
    head = ray_cluster(spec())["spec"]["headGroupSpec"]
    pod = head["template"]["spec"]
    assert head["rayStartParams"]["num-gpus"] == "0"
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "tolerations" not in pod
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]} in term["matchExpressions"]
    by_type = {"key": "node.kubernetes.io/instance-type", "operator": "NotIn", "values": ["g6.12xlarge"]}
    assert by_type in term["matchExpressions"], "a GPU node without our label is one too"


@pytest.mark.parametrize("pod", [head_pod, worker_pod])
@pytest.mark.parametrize("made", [spec(), without_gpus()])
def test_every_container_is_guaranteed_its_resources(pod: Any, made: RayClusterSpec) -> None:
    resources = container(pod(made))["resources"]
    assert resources["requests"] == resources["limits"]
    assert {"cpu", "memory"} <= resources["limits"].keys()


def test_workers_get_what_the_seeds_manifest_gives_them_on_g6_12xlarge() -> None:
    assert container(worker_pod(spec()))["resources"]["limits"] == {
        "cpu": "40",
        "memory": "160Gi",
        "nvidia.com/gpu": "4",
        "vpc.amazonaws.com/efa": "1",
    }


@pytest.mark.parametrize("name", ["g6.8xlarge", "g6.12xlarge", "g6e.48xlarge", "p5.48xlarge"])
def test_gpus_and_interfaces_come_from_the_instance_type(name: str) -> None:
    limits = container(worker_pod(spec(instance=known(name))))["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == group(spec(instance=known(name)))["rayStartParams"]["num-gpus"]
    assert limits["vpc.amazonaws.com/efa"] == str(known(name).efa_interfaces)


def test_a_type_without_efa_asks_for_none_and_sets_no_provider() -> None:
    made = spec(instance=known("g6.4xlarge"))
    assert "vpc.amazonaws.com/efa" not in container(worker_pod(made))["resources"]["limits"]
    assert env(worker_pod(made)).keys() & {"FI_PROVIDER", "NCCL_NET_PLUGIN"} == set()
    assert env(worker_pod(made))["NCCL_DEBUG"] == "INFO"


def test_set_quantities_win_over_derived_ones() -> None:
    limits = container(worker_pod(spec(worker_cpu="8", worker_memory="32Gi")))["resources"]["limits"]
    assert (limits["cpu"], limits["memory"]) == ("8", "32Gi")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"worker_cpu": "64"}, "rayWorkerCpu 64 is more than g6.12xlarge's 48 vCPUs"),
        ({"worker_memory": "300Gi"}, "rayWorkerMemory 300Gi is more than g6.12xlarge's 192 GiB"),
        ({"worker_memory": "8Gi", "shm_size": "8Gi"}, "rayShmSize 8Gi"),
        ({"instance": None, "worker_cpu": "2"}, "rayWorkerMemory is empty"),
        ({"instance": None}, "rayWorkerCpu is empty"),
    ],
)
def test_a_worker_that_cannot_be_is_refused_with_its_setting(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        ray_cluster(spec(**changes))


@pytest.mark.parametrize(
    ("quantity", "number"), [("2", 2), ("500m", 0.5), ("1.5Gi", 1.5 * 1024**3), ("4G", 4e9), ("80Mi", 80 * 1024**2)]
)
def test_quantities_are_read_as_kubernetes_reads_them(quantity: str, number: float) -> None:
    assert amount(quantity) == number


@pytest.mark.parametrize("quantity", ["", "ten", "5Pi", "-1"])
def test_other_text_is_no_quantity(quantity: str) -> None:
    with pytest.raises(BadInputError, match="not a Kubernetes quantity"):
        amount(quantity)


def test_shared_memory_is_a_part_of_the_memory_and_half_of_it_stays_free_of_ray() -> None:
    worker = worker_resources(spec())
    assert amount(worker.shm) == 40 * 1024**3
    assert worker.object_store == 20 * 1024**3
    assert {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": worker.shm}} in worker_pod(spec())["volumes"]
    assert worker_resources(spec(shm_size="64Mi")).object_store >= 75 * 1024**2, "Ray refuses a smaller one"


def test_every_disk_volume_has_a_limit() -> None:
    for pod in (head_pod(spec()), worker_pod(spec())):
        assert all(volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume)
        assert {"name": "tmp", "mountPath": "/tmp/ray"} in container(pod)["volumeMounts"]


def test_the_group_is_as_many_workers_as_nodes_and_never_another_number() -> None:
    made = group(spec(nodes=5))
    assert made["replicas"] == made["minReplicas"] == made["maxReplicas"] == 5
    assert ray_cluster(spec())["spec"]["enableInTreeAutoscaling"] is False


def test_workers_without_gpus_offer_trainers_and_ask_for_no_device() -> None:
    made = without_gpus()
    pod, params = worker_pod(made), group(made)["rayStartParams"]
    assert params["num-gpus"] == "0"
    [word] = shlex.split(f"--resources={params['resources']}")
    assert json.loads(word.removeprefix("--resources=")) == {"trainer": 3}
    assert container(pod)["resources"]["limits"] == {"cpu": "2", "memory": "4Gi"}
    assert not {"tolerations", "nodeSelector"} & pod.keys()
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NCCL_DEBUG" not in env(pod)
    assert (made.worker_resource, made.ranks_per_node) == ("trainer", 3)
    assert (spec().worker_resource, spec().ranks_per_node) == ("GPU", 4)


def test_workers_stand_on_the_selected_nodes_tolerate_their_taint_and_take_a_node_each() -> None:
    pod = worker_pod(spec())
    assert pod["nodeSelector"] == {"role": "gpu-worker"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    [apart] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"


def test_workers_stay_in_the_zone_that_is_set() -> None:
    pod = worker_pod(spec(zone="us-east-1b"))
    assert pod["nodeSelector"]["topology.kubernetes.io/zone"] == "us-east-1b"
    assert "podAffinity" not in pod["affinity"]


def test_workers_stay_in_one_zone_where_none_is_set() -> None:
    [together] = worker_pod(spec())["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert together["topologyKey"] == "topology.kubernetes.io/zone"
    assert together["labelSelector"]["matchLabels"] == {"ray.io/cluster": "ray", "ray.io/group": "gpu-workers"}


def test_the_transport_is_set_where_there_is_efa() -> None:
    variables = env(worker_pod(spec()))
    expected = {"FI_PROVIDER": "efa", "NCCL_NET_PLUGIN": "ofi", "NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"}
    assert {name: variables[name] for name in expected} == expected
    assert variables["FI_EFA_USE_HUGE_PAGE"] == "0"
    assert variables["NCCL_SHM_USE_CUDA_MEMCPY"] == "1"
    assert "NCCL_SHM_USE_CUDA_MEMCPY" not in env(worker_pod(spec(instance=known("p5.48xlarge"))))
    assert not any(name.startswith("RDMAV_") for name in variables)


def test_the_users_variables_win_but_for_those_the_cluster_works_through() -> None:
    users = {"NCCL_DEBUG": "WARN", "MINE": "1", "RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "x", "RAY_ADDRESS": "y"}
    variables = env(worker_pod(spec(env=users)))
    assert (variables["NCCL_DEBUG"], variables["MINE"]) == ("WARN", "1")
    assert variables["RAY_AUTH_MODE"] == "token"
    assert variables["RAY_AUTH_TOKEN"] is None, "it comes from the Secret"
    assert "RAY_ADDRESS" not in variables
    assert int(variables["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"]) > 60


def test_tokens_come_from_secrets_and_never_stand_in_the_pods() -> None:
    for pod in (head_pod(spec(hf_token=True)), worker_pod(spec(hf_token=True))):
        sources = {v["name"]: v["valueFrom"] for v in container(pod)["env"] if "valueFrom" in v}
        assert sources == {
            "RAY_AUTH_TOKEN": {"secretKeyRef": {"name": "ray-auth-token", "key": "token"}},
            "HF_TOKEN": {"secretKeyRef": {"name": "ray-hf-token", "key": "token"}},
        }
        assert pod["automountServiceAccountToken"] is False
    assert "HF_TOKEN" not in env(head_pod(spec()))


def test_a_hugging_face_token_of_the_users_own_replaces_the_secret() -> None:
    assert env(head_pod(spec(hf_token=True, env={"HF_TOKEN": "mine"})))["HF_TOKEN"] == "mine"


@pytest.mark.parametrize("pod", [head_pod, worker_pod])
def test_probes_need_no_program_of_the_image(pod: Any) -> None:
    """KubeRay's own are wget in the container; it adds none where both are there."""
    made = container(pod(spec()))
    assert "httpGet" in made["readinessProbe"]
    assert "httpGet" in made["livenessProbe"]


def test_the_claim_is_mounted_in_every_pod_where_there_is_one() -> None:
    mount = {"name": "storage", "mountPath": "/mnt/ray-train"}
    for pod in (head_pod, worker_pod):
        assert mount in container(pod(spec(claim="checkpoints")))["volumeMounts"]
        assert mount not in container(pod(spec()))["volumeMounts"]
    claim = volume_claim(spec(claim="checkpoints"), storage_class="efs", size="1Ti")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "efs",
        "resources": {"requests": {"storage": "1Ti"}},
    }
    default = volume_claim(spec(claim="checkpoints"), storage_class=None, size="1Ti")
    assert "storageClassName" not in default["spec"], "a class that is named, if only by an empty text, is asked for"


def test_pull_secrets_are_named_in_every_pod() -> None:
    made = spec(pull_secret="registry")
    for pod in (head_pod(made), worker_pod(made), image_pull(made)["spec"]["template"]["spec"]):
        assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_nothing_but_the_clusters_own_pods_may_reach_its_ports() -> None:
    policy = network_policy(spec())["spec"]
    own = {"matchLabels": {"ray.io/cluster": "ray"}}
    assert policy == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    }, "a peer without a namespaceSelector means this namespace; a rule without ports means all of them"
    assert ray_cluster(spec())["spec"]["headGroupSpec"]["serviceType"] == "ClusterIP"


def test_the_image_is_pulled_where_the_workers_will_stand_and_takes_nothing_from_them() -> None:
    pod = image_pull(spec(zone="us-east-1b"))["spec"]["template"]["spec"]
    worker = worker_pod(spec(zone="us-east-1b"))
    assert (pod["nodeSelector"], pod["tolerations"]) == (worker["nodeSelector"], worker["tolerations"])
    made = container(pod)
    assert made["image"] == spec().image
    assert amount(made["resources"]["requests"]["cpu"]) <= amount("10m")
    assert env(pod)["NVIDIA_VISIBLE_DEVICES"] == "void", "the image asks for all GPUs, request or not"


@pytest.mark.parametrize(
    "change",
    [
        {"image": "other:1"},
        {"ray_version": "2.59.0"},
        {"nodes": 3},
        {"instance": known("g6.24xlarge")},
        {"env": {"A": "1"}},
        {"head_memory": "16Gi"},
        {"worker_cpu": "8"},
        {"shm_size": "1Gi"},
        {"hf_token": True},
    ],
)
def test_what_runs_in_the_pods_decides_the_digest(change: dict[str, Any]) -> None:
    assert spec_digest(spec(**change)) != spec_digest(spec())


@pytest.mark.parametrize(
    "change",
    [
        {"zone": "us-east-1b"},
        {"node_selector": {"pool": "a"}},
        {"namespace": "other"},
        {"pull_secret": "registry"},
        {"trainers_per_node": 7},
        {"env": {"RAY_AUTH_TOKEN": "ignored"}},
    ],
)
def test_where_they_stand_and_what_is_not_used_does_not(change: dict[str, Any]) -> None:
    assert spec_digest(spec(**change)) == spec_digest(spec())


def test_trainers_of_a_worker_without_gpus_do() -> None:
    assert spec_digest(without_gpus(trainers_per_node=2)) != spec_digest(without_gpus(trainers_per_node=3))


def test_the_specification_cannot_be_changed_by_accident() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec().nodes = 3  # type: ignore[misc]
