"""How the bed's daemons are called: the control plane of Kubernetes, KWOK and the pod agent, on loopback."""

import base64
import csv
import json
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bed import certificates
from tools.bed.programs import Programs

AGENT_PORT_FILE = "kubelet-port"
POD_CIDR = "10.64.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
# A node that says nothing for so long is lost; its pods are evicted after the toleration. Kubernetes' own values are
# 50 and 300 s; not much shorter here, where heart-beats compete with training for two cores.
NODE_GRACE_S, LOST_NODE_TOLERATION_S = 20, 10
LEASE_S = 16
NODE_LABEL, HEART_BEAT_LABEL = "bed.ray-train-efa/node", "bed.ray-train-efa/heart-beat"
# user -> groups, as the RBAC rules that Kubernetes itself brings expect them.
USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
}
STAGES = Path(__file__).with_name("stages.yaml")
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/readyz*", "/livez*"]},
        {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True, kw_only=True)
class ControlPlane:
    """One bed's daemons: their files in `folder`, their ports, their command lines."""

    folder: Path
    programs: Programs
    bed_id: str
    api_port: int
    etcd_port: int
    peer_port: int

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def audit_log(self) -> Path:
        return self.folder / "logs" / "audit.log"

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user.removeprefix('system:')}.kubeconfig"

    def write_files(self) -> None:
        """Certificate, tokens, kubeconfigs, audit policy."""
        certificates.write(self.folder)
        tokens = {user: secrets.token_urlsafe(24) for user in USERS}
        with (self.folder / "tokens.csv").open("w", newline="") as file:
            csv.writer(file).writerows([token, user, user, USERS[user]] for user, token in tokens.items())
        for user, token in tokens.items():
            self.write_kubeconfig(self.kubeconfig(user), user, token)
        (self.folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))

    def write_kubeconfig(self, path: Path, user: str, token: str, namespace: str = "default") -> None:
        authority = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        name = f"bed-{self.bed_id}"
        content: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.server, "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
            "current-context": name,
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=1))

    def etcd(self) -> list[str | Path]:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.peer_port}"
        return [
            self.programs.kubernetes / "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # Nothing here has to survive the machine.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def api_server(self) -> list[str | Path]:
        return [
            self.programs.kubernetes / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # A loopback address is refused as an endpoint; the pod agent leads pods to the API server by another way.
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.api_port}",
            f"--tls-cert-file={self.folder / 'tls.crt'}",
            f"--tls-private-key-file={self.folder / 'tls.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-account.pub'}",
            f"--service-account-signing-key-file={self.folder / 'service-account.key'}",
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--kubelet-preferred-address-types=InternalIP",
            "--allow-privileged=true",
            f"--default-not-ready-toleration-seconds={LOST_NODE_TOLERATION_S}",
            f"--default-unreachable-toleration-seconds={LOST_NODE_TOLERATION_S}",
            f"--audit-policy-file={self.folder / 'audit-policy.json'}",
            f"--audit-log-path={self.audit_log}",
            "--profiling=false",
        ]

    def controller_manager(self) -> list[str | Path]:
        return [
            self.programs.kubernetes / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.folder / 'service-account.key'}",
            f"--root-ca-file={self.folder / 'tls.crt'}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--node-monitor-grace-period={NODE_GRACE_S}s",
            "--node-monitor-period=2s",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--profiling=false",
        ]

    def scheduler(self) -> list[str | Path]:
        return [
            self.programs.kubernetes / "kube-scheduler",
            f"--kubeconfig={self.kubeconfig('system:kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--profiling=false",
        ]

    def kwok(self) -> list[str | Path]:
        return [
            self.programs.kwok,
            f"--kubeconfig={self.kubeconfig('admin')}",
            f"--config={STAGES}",
            f"--manage-nodes-with-label-selector={HEART_BEAT_LABEL}=on",
            "--node-ip=127.0.0.1",
            f"--node-lease-duration-seconds={LEASE_S}",
        ]

    def agent(self, images: Path) -> list[str | Path]:
        # What `pip install` put beside this Python comes first: Ray's own programs are among it.
        path = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        wget = shutil.which("wget")
        if wget and str(Path(wget).parent) not in path.split(":"):
            path += f":{Path(wget).parent}"
        return [
            self.programs.podagent,
            f"--kubeconfig={self.kubeconfig('admin')}",
            f"--state-dir={self.folder / 'agent'}",
            f"--bed-id={self.bed_id}",
            f"--pod-cidr={POD_CIDR}",
            "--listen=127.0.0.1:0",
            f"--container-path={path}",
            f"--images={images}",
            f"--api=127.0.0.1:{self.api_port}",
        ]
