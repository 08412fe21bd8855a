"""A Pulumi stack of this project, read and driven through the Pulumi CLI."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from capacity import file_backend
from capacity.file_backend import PROJECT as PROJECT
from capacity.file_backend import FileBackend
from capacity.pulumi_cli import PulumiCli, pulumi_command, pulumi_environment
from efactl.stack_names import FOLDER as FOLDER
from efactl.stack_names import file_of
from workload.errors import BadInputError, ReportedError
from workload.head import Head
from workload.kubernetes_access import KubernetesAccess
from workload.signal_handlers import handled

if TYPE_CHECKING:
    from capacity.aws import Access

JOB_TYPE = "pulumi-python:dynamic/workload:RayTrainJob"
GATE_TYPE = "pulumi-python:dynamic/workload:RunGate"
COMPARISON_TYPE = "pulumi-python:dynamic/workload:TransportComparison"
COMPARISON_GATE_TYPE = "pulumi-python:dynamic/workload:ComparisonGate"
LOCAL_CLUSTER_TYPE = "pulumi-python:dynamic/infra:LocalRayCluster"
KUBERNETES_PROVIDER_TYPE = "pulumi:providers:kubernetes"
CLUSTER_GUARD_TYPE = "pulumi-python:dynamic/infra:ClusterGuard"
RAY_CLUSTER_READY_TYPE = "pulumi-python:dynamic/infra:RayClusterReady"


class NoSuchStackError(ReportedError):
    """The backend has no such stack: it was never made, is kept in another backend, or is lost."""


class Stack:
    """One stack by name. Every call runs the `pulumi` that set-up put beside this interpreter, or the one on PATH."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.file = file_of(name, FOLDER)

    def config(self, key: str) -> Any:
        """A setting as the stack's file has it, else Pulumi.yaml's default."""
        declared = yaml.safe_load((FOLDER / "Pulumi.yaml").read_text())["config"]
        return self._configured().get(f"{PROJECT}:{key}", declared.get(key, {}).get("default"))

    def is_on(self, key: str) -> bool:
        """A yes-or-no setting, as a text or not."""
        return str(self.config(key)).lower() == "true"

    def foreign_config(self, name: str) -> Any:
        """A setting of another namespace (`aws:region`), as the stack's file has it."""
        return self._configured().get(name)

    def access(self) -> "Access":
        """As whom the stack's settings have AWS asked."""
        from capacity.aws import access_of

        return access_of(self.foreign_config)

    def _configured(self) -> dict[str, Any]:
        try:
            content = yaml.safe_load(self.file.read_text(encoding="utf-8")) or {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise BadInputError(f"{self.file} is no YAML: {' '.join(str(error).split())}") from None
        config = (content.get("config") or {}) if isinstance(content, dict) else None
        if not isinstance(config, dict):
            raise BadInputError(f"{self.file} holds no settings: they are `name: value` below `config:`")
        return config

    def run(self, command: Sequence[str], *, aside: bool) -> int:
        """Runs `pulumi COMMAND -s NAME` with this terminal; `aside` leaves standard output to the caller's facts.

        Returns its exit status. Raises KeyboardInterrupt, once pulumi has ended, where that kept it from its end.
        """
        arguments = [pulumi_command(), *command, "-s", self.name]
        # What lets the CLI know its own --event-log, as Pulumi's Automation API does it.
        environment = {**pulumi_environment(), "PULUMI_DEBUG_COMMANDS": "true"}
        process: subprocess.Popen[bytes] | None = None
        interrupted, owed = False, list[int]()

        def pass_on(number: int, _frame: object) -> None:
            nonlocal interrupted
            interrupted = True
            if process is None:
                owed.append(number)
            # A terminal's Ctrl-C reaches pulumi by itself; a TERM comes to this process alone.
            elif number == signal.SIGTERM:
                process.send_signal(number)

        with handled((signal.SIGINT, signal.SIGTERM), pass_on):
            process = subprocess.Popen(arguments, cwd=FOLDER, env=environment, stdout=sys.stderr if aside else None)
            for number in owed[:1]:  # came when there was no pulumi yet
                process.send_signal(number)
            status = process.wait()
        if interrupted and status != 0:
            raise KeyboardInterrupt
        return status

    def answer(self, command: Sequence[str]) -> str:
        """The standard output of `pulumi COMMAND -s NAME`. Raises ReportedError with what it said on failure, and its
        NoSuchStackError where the backend does not have the stack."""
        done = file_backend.read(lambda: self._ask(command), self._files())
        if done.returncode != 0:
            said = f"pulumi {' '.join(command)} -s {self.name}: {done.stderr.strip()[-800:]}"
            if "no stack named" in done.stderr:
                # It reads stacks itself.
                from efactl.region_stacks import hint

                raise NoSuchStackError(f"{said}; {hint(self.name, f'`pulumi stack init {self.name}` makes it')}")
            raise ReportedError(said)
        return done.stdout

    def _ask(self, command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [pulumi_command(), *command, "-s", self.name],
            cwd=FOLDER,
            env=pulumi_environment(),
            capture_output=True,
            text=True,
        )

    def resources(self) -> list[Mapping[str, Any]]:
        """The resources in the stack's state, secrets readable; empty where the stack holds none."""
        exported = json.loads(self.answer(["stack", "export", "--show-secrets"]))
        return (exported.get("deployment") or {}).get("resources") or []

    def resource(self, token: str) -> Mapping[str, Any] | None:
        return _newest(self.resources(), token)

    def head(self) -> Head | None:
        """The stack's Ray head, also while its job runs; None while there is none."""
        resources = self.resources()
        local = _newest(resources, LOCAL_CLUSTER_TYPE)
        if local is not None and local.get("outputs"):
            return _local_head(plain(local["outputs"]))
        # The job holds a head as well, but only from its end on.
        for token in (RAY_CLUSTER_READY_TYPE, JOB_TYPE):
            found = _newest(resources, token) or {}
            head = (found.get("outputs") or found.get("inputs") or {}).get("head")
            if head and plain(head).get("kind") == "kubernetes":
                return Head.from_inputs(plain(head))
        return None

    def cluster(self) -> KubernetesAccess | None:
        """The Kubernetes cluster that holds objects of the stack; None where none does."""
        provider = self.resource(KUBERNETES_PROVIDER_TYPE)
        if provider is None:
            return None
        inputs = plain(provider.get("inputs") or {})
        return KubernetesAccess(kubeconfig=inputs.get("kubeconfig") or "", context=inputs.get("context") or "")

    def release_dead_locks(self) -> list[str]:
        """Removes what a killed `pulumi` of this machine left in a file backend, locks and torn files; says which."""
        backend = self._files()
        return [*backend.release_dead_locks(), *backend.mend()] if backend else []

    def check_unlocked(self) -> None:
        """Raises ReportedError where another pulumi is at work on it (told by a file backend): what it has under way is
        not what a killed one left. Dead locks are released before."""
        backend = self._files()
        if backend and (holder := backend.holder()):
            raise ReportedError(
                f"another pulumi is at work on stack {self.name} ({holder}): nothing was changed. Run it again once "
                "that one has ended"
            )

    def settle(
        self, say: Callable[[str], None], *, region: str, name: str, access: "Access"
    ) -> list[Mapping[str, Any]]:
        """Ends what a killed `pulumi` left open in AWS (efactl/settle.py); returns the resources afterwards. Raises
        ReportedError where one is at work."""
        self.check_unlocked()
        from efactl.settle import settle

        return settle(PulumiCli(FOLDER), self.name, say, region=region, name=name, access=access)

    def _files(self) -> FileBackend | None:
        return file_backend.of_stack(FOLDER, self.name, own=self.config("platform") == "local")


def _newest(resources: Sequence[Mapping[str, Any]], token: str) -> Mapping[str, Any] | None:
    """The resource of a type, but for one that waits to be deleted after its replacement."""
    found = [resource for resource in resources if resource["type"] == token and not resource.get("delete")]
    return found[-1] if found else None


def _local_head(outputs: Mapping[str, Any]) -> Head:
    return Head(
        kind="local",
        namespace="",
        cluster_name=outputs["stack"],
        ray_version=outputs["ray_version"],
        spec_digest="",
        nodes=int(outputs["worker_nodes"]),
        accelerators_per_node=int(outputs["trainers_per_node"]),
        worker_resource="trainer",
        address=outputs["address"],
        token=outputs["token"],
    )


def plain(value: Any) -> Any:
    """A state's value with its secrets unwrapped (`--show-secrets` leaves their JSON text beside a marker)."""
    if isinstance(value, Mapping):
        if "plaintext" in value and any(str(key).startswith("4dabf18193072939") for key in value):
            return json.loads(value["plaintext"])
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
