"""The bed's programs, built from their published Go modules into the cache, where clones share them."""

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.setup import cache, go, pins
from tools.setup.console import SetupError, answer, elapsed, run_visibly, say

CONTROL_PLANE = pins.PROJECT / "tools" / "kubernetes" / "control-plane"
NODES = pins.PROJECT / "tools" / "kubernetes" / "nodes"
AGENT = CONTROL_PLANE / "podagent"
KUBERAY = "github.com/ray-project/kuberay/ray-operator"
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Change it when the commands below change.
RECIPE = 1


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Folders: `kubernetes` has etcd, kube-*, manager (the KubeRay operator) and kuberay/ (its manifests)."""

    kubernetes: Path
    nodes: Path
    agent: Path

    @property
    def kwok(self) -> Path:
        return self.nodes / "kwok"

    @property
    def podagent(self) -> Path:
        return self.agent / "podagent"

    @property
    def operator(self) -> Path:
        return self.kubernetes / "manager"

    def complete(self) -> bool:
        last = (self.kubernetes / "kuberay" / "complete", self.kwok, self.podagent)
        return all(file.exists() for file in last)


def kubernetes_version() -> str:
    return pins.module_version(CONTROL_PLANE / "go.mod", "k8s.io/kubernetes")


def kuberay_version() -> str:
    return pins.module_version(CONTROL_PLANE / "go.mod", KUBERAY)


def kwok_version() -> str:
    return pins.module_version(NODES / "go.mod", "sigs.k8s.io/kwok")


def _named() -> Programs:
    control_plane, nodes = _module_files(CONTROL_PLANE), _module_files(NODES)
    agent = [*control_plane, *sorted(file for file in AGENT.rglob("*.go") if not file.name.endswith("_test.go"))]
    return Programs(
        kubernetes=cache.root() / f"kubernetes-v{kubernetes_version()}-{_digest(control_plane)}",
        nodes=cache.root() / f"kwok-v{kwok_version()}-{_digest(nodes)}",
        agent=cache.root() / f"podagent-{_digest(agent)}",
    )


def cached() -> Programs | None:
    """The programs, if all of them are built."""
    found = _named()
    return found if found.complete() else None


def compiler() -> Path:
    """The Go toolchain to build with. Raises SetupError where there is none and none can be had."""
    return go.find(pins.module_version(CONTROL_PLANE / "go.mod", "go"))


def build() -> Programs:
    """Builds what is missing; with an empty Go cache a quarter of an hour on 2 cores. Raises SetupError."""
    if found := cached():
        return found
    named = _named()
    go_binary = compiler()
    cache.provide(named.kubernetes.name, "bed", "kuberay/complete", lambda target: _make_kubernetes(go_binary, target))
    cache.provide(named.nodes.name, "bed", "kwok", lambda target: _make_kwok(go_binary, target))
    cache.provide(named.agent.name, "bed", "podagent", lambda target: _make_agent(go_binary, target))
    return named


def _module_files(module: Path) -> list[Path]:
    return [module / "go.mod", module / "go.sum"]


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {RECIPE}".encode())
    for file in files:
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _environment() -> dict[str, str]:
    return {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}


def _compile(go_binary: Path, module: Path, package: str, output: Path, stamps: str = "") -> None:
    # A package's compilation does not depend on the linker's flags, so every program here shares one build cache.
    options = ["-v", "-buildvcs=false", "-ldflags", f"-s -w{stamps}", "-o", str(output)]

    def compiled(text: str) -> str:
        lines = text.splitlines()
        fetched = sum(line.startswith("go: downloading") for line in lines)
        return f"{fetched} modules fetched, {len(lines) - fetched} packages compiled"

    say("bed", f"building {output.name} ({package})")
    run_visibly("bed", [go_binary, "build", *options, package], cwd=module, env=_environment(), progress=compiled)


def _make_kubernetes(go_binary: Path, target: Path) -> None:
    began = time.monotonic()
    version = kubernetes_version()
    say(
        "bed", f"building Kubernetes {version} and KubeRay {kuberay_version()}; with an empty Go cache: 12 min, 2 cores"
    )
    major, minor, _ = version.split(".")
    stamp = "k8s.io/component-base/version"
    facts = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamps = "".join(f" -X {stamp}.{name}={value}" for name, value in facts.items())
    _compile(go_binary, CONTROL_PLANE, "go.etcd.io/etcd/server/v3", target / "etcd")
    _compile(go_binary, CONTROL_PLANE, KUBERAY, target / "manager")
    for name in KUBERNETES:
        _compile(go_binary, CONTROL_PLANE, f"k8s.io/kubernetes/cmd/{name}", target / name, stamps)
    copy_manifests(_module_folder(go_binary, KUBERAY), target / "kuberay")
    say("bed", f"Kubernetes built in {elapsed(began)}")


def _make_kwok(go_binary: Path, target: Path) -> None:
    _compile(go_binary, NODES, "sigs.k8s.io/kwok/cmd/kwok", target / "kwok")


def _make_agent(go_binary: Path, target: Path) -> None:
    _compile(go_binary, CONTROL_PLANE, f"./{AGENT.relative_to(CONTROL_PLANE)}", target / "podagent")


def _module_folder(go_binary: Path, module: str) -> Path:
    command: list[str | Path] = [
        "env",
        "GOTOOLCHAIN=local",
        "GOWORK=off",
        go_binary,
        "list",
        "-C",
        CONTROL_PLANE,
        "-m",
        "-f",
        "{{.Dir}}",
    ]
    folder = answer([*command, module], seconds=120)
    if not folder:
        raise SetupError(f"`go list -m {module}` in {CONTROL_PLANE} names no directory of the module")
    return Path(folder)


def copy_manifests(module: Path, target: Path) -> None:
    """KubeRay's own manifests: CRDs (as YAML for Helm, as JSON for quick reading), RBAC, the operator's Deployment."""
    import yaml

    for folder, files in {
        "crds": sorted((module / "config" / "crd" / "bases").glob("*.yaml")),
        "operator": [
            *(module / "config" / "rbac" / f"{name}.yaml" for name in ("role", "role_binding", "service_account")),
            *(module / "config" / "rbac" / f"leader_election_{name}.yaml" for name in ("role", "role_binding")),
            module / "config" / "manager" / "manager.yaml",
        ],
    }.items():
        (target / folder).mkdir(parents=True)
        for file in files:
            copy = target / folder / file.name
            # Files of the module cache are read-only.
            shutil.copyfile(file, copy)
            content = yaml.safe_load(copy.read_text())
            copy.with_suffix(".json").write_text(json.dumps(content))
    (target / "complete").touch()
