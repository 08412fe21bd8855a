"""PURE: what a bring-up consists of, what each step cannot do without, and how the seed put the same steps in a row.

Written down by hand: the program's own dependencies would hide those that carry no need.
"""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.parts.critical_path import Step, length, longest_chain
from tools.standin import durations, tokens

# (type, what the steps below call it)
MODELLED = {
    "capacity reservation": tokens.CAPACITY_RESERVATION,
    "VPC": tokens.VPC,
    "subnet": tokens.SUBNET,
    "elastic address": tokens.EIP,
    "NAT gateway": tokens.NAT_GATEWAY,
    "route": tokens.ROUTE,
    "key for Secrets": tokens.KEY,
    "role": tokens.ROLE,
    "policy attachment": tokens.ROLE_POLICY_ATTACHMENT,
    "control plane": tokens.CLUSTER,
    "OIDC provider": tokens.OIDC_PROVIDER,
    "add-on": tokens.ADDON,
    "node group": tokens.NODE_GROUP,
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Real seconds of what really runs, each from the moment in which it could begin.

    The device plugins and the pull of the workers' image from ready GPU nodes; the pull of the head's image from ready
    system nodes; the operator from these and the RayCluster's appearance until it makes Ray's pods; Ray from there to
    every pod Ready; the job from its submission to its collected evidence.
    """

    devices: float
    worker_image: float
    head_image: float
    operator: float
    ray: float
    job: float


def modelled(token: str) -> float:
    """Of a creation, in modelled seconds."""
    return durations.seconds(token, "create")


def needed(measured: Measured, *, scale: float) -> list[Step]:
    """In real seconds, with `scale` of them in a modelled one."""

    def step(name: str, what: str, *needs: str) -> Step:
        return Step(name=name, seconds=scale * modelled(MODELLED[what]), needs=needs)

    return [
        step("reservation", "capacity reservation"),
        step("VPC", "VPC"),
        step("subnets", "subnet", "VPC"),
        # What bills waits for the reservation: that is the product's promise, and so a need.
        step("NAT address", "elastic address", "reservation"),
        step("NAT gateway", "NAT gateway", "NAT address", "subnets"),
        step("routes", "route", "NAT gateway"),
        step("key for Secrets", "key for Secrets", "reservation"),
        step("cluster role", "role"),
        step("cluster role's policy", "policy attachment", "cluster role"),
        step("control plane", "control plane", "reservation", "subnets", "key for Secrets", "cluster role's policy"),
        # eks.Cluster tells nothing of itself before all that is in it is there.
        step("OIDC provider", "OIDC provider", "control plane"),
        step("node add-ons", "add-on", "OIDC provider"),
        step("GPU nodes", "node group", "node add-ons", "routes"),
        step("system nodes", "node group", "node add-ons", "routes"),
        # Pods look for the head by name until they find it: they need not be made after it.
        step("coredns", "add-on", "system nodes"),
        Step(name="device plugins", seconds=measured.devices, needs=("GPU nodes",)),
        Step(name="workers' image", seconds=measured.worker_image, needs=("GPU nodes",)),
        Step(name="head's image", seconds=measured.head_image, needs=("system nodes",)),
        Step(name="operator", seconds=measured.operator, needs=("system nodes",)),
        Step(
            name="Ray ready",
            seconds=measured.ray,
            needs=("device plugins", "workers' image", "head's image", "operator"),
        ),
        Step(name="job", seconds=measured.job, needs=("Ray ready", "coredns")),
    ]


def in_a_row(measured: Measured, *, scale: float) -> list[Step]:
    """The seed's five scripts under the same durations, each as quick inside as its own needs allow."""
    steps = {step.name: step for step in needed(measured, scale=scale)}

    def script(name: str, does: str) -> Step:
        return Step(name=name, seconds=steps[does].seconds)

    until_nodes = _until(list(steps.values()), "system nodes", without="reservation")
    return [
        script("find_gpu_capacity: a reservation as a probe", "reservation"),
        Step(name="deploy_cluster: network, control plane, system nodes", seconds=until_nodes),
        script("deploy_cluster: coredns", "coredns"),
        script("deploy_node_group: GPU nodes", "GPU nodes"),
        script("install_gpu_plugins", "device plugins"),
        script("install_kuberay", "operator"),
        Step(
            name="deploy_ray_train_job: images pulled, Ray ready",
            seconds=max(measured.worker_image, measured.head_image) + measured.ray,
        ),
        script("deploy_ray_train_job: the job", "job"),
    ]


def _until(steps: list[Step], name: str, *, without: str) -> float:
    """How long the longest chain to that step is, where another one has been done before."""
    left = [
        Step(name=step.name, seconds=step.seconds, needs=tuple(need for need in step.needs if need != without))
        for step in steps
        if step.name != without
    ]
    by_name = {step.name: step for step in left}
    behind: set[str] = set()
    ahead = [name]
    while ahead:
        behind.add(found := ahead.pop())
        ahead += by_name[found].needs
    return length(longest_chain([by_name[one] for one in behind]))


def listed(say: Callable[[str], None]) -> None:
    """The durations used and where they come from."""
    say("modelled seconds (tools/standin/durations.py):")
    say("  " + ", ".join(f"{name} {modelled(token):g}" for name, token in MODELLED.items()))
    for line in (durations.__doc__ or "").strip().splitlines()[2:]:
        say(f"  {line}")
