"""The product with a stack of the eks platform, driven through the real Pulumi CLI with AWS and EKS as stand-ins."""

import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.support.bed_project import SETTINGS
from tests.support.project import ROOT, Project
from tools.bed import Bed
from tools.bed.charts import chart_folder
from tools.bed.volumes import STORAGE_CLASS
from tools.standin import bed_nodes, calls, commands, endpoint, plugins
from tools.standin.account import Account, Entry
from tools.standin.aws_cli import VARIABLE
from tools.standin.bed_keeper import described
from tools.standin.overrides import ENDPOINT_CIDRS

STACK = "dev"
# Of the bed's settings, those that are not about a cluster that is there before.
ON_BED: dict[str, Any] = {
    **{key: value for key, value in SETTINGS.items() if not key.startswith(("addon", "platform"))},
    "eksStorage": "claim",
    "storageClass": STORAGE_CLASS,
}


class StandinProject(Project):
    """The example stack `dev`. `scenario` is the account's (tools/standin/scenario.py).

    With a `bed` that has no nodes and no operator (`start_bed(folder, nodes=(), operator=False, devices="by plugin")`)
    an `up` goes all the way: node groups bring the nodes. Without one previews work, and an `up` until something asks
    the cluster itself.
    """

    def __init__(
        self,
        folder: Path,
        *,
        bed: Bed | None = None,
        scenario: Mapping[str, Any] | None = None,
        quick: bool = True,
        **settings: Any,
    ) -> None:
        home = folder.with_name(f"{folder.name}-pulumi")
        self.account_folder = home / "account"
        for made in (self.account_folder, home / "bin", home / "tmp"):
            made.mkdir(parents=True, exist_ok=True)
        plugins.install(home)
        commands.write(home / "bin")
        self.set_scenario(**(scenario or {}))
        if bed is not None:
            self.use_bed(bed)
        super().__init__(
            folder,
            stack=STACK,
            quick=quick,
            variables={
                "PULUMI_HOME": str(home),
                "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
                "TMPDIR": str(home / "tmp"),
                VARIABLE: str(self.account_folder),
                # What efactl itself asks AWS goes to the same account.
                **endpoint.environment(endpoint.start(self.account_folder)),
            },
        )
        self._start_from_the_example()
        later = (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
        own = {"trainSteps": 4, "capacityUntil": later, "eksEndpointCidrs": ENDPOINT_CIDRS}
        self.set(**{**own, **(on_bed() if bed else {}), **settings})
        # Before everything else on PATH: a real `aws` would ask AWS.
        self.environment["PATH"] = f"{home / 'bin'}:{self.environment['PATH']}"

    def _start_from_the_example(self) -> None:
        """A project starts from the local stack's settings; this one from those of the stack it is named after."""
        file = self.folder / f"Pulumi.{STACK}.yaml"
        example = yaml.safe_load((ROOT / file.name).read_text())
        file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **example}, sort_keys=False))

    def set_scenario(self, **scenario: Any) -> None:
        (self.account_folder / "scenario.json").write_text(json.dumps(scenario))

    def use_bed(self, bed: Bed) -> None:
        told = json.dumps(dataclasses.asdict(described(bed)))
        (self.account_folder / bed_nodes.BED_FILE).write_text(told)

    def remaining(self) -> list[Entry]:
        """What the account still has."""
        return Account(self.account_folder).remaining()

    def calls(self) -> list[dict[str, Any]]:
        """Every call that the stand-in account has seen."""
        return calls.read(self.account_folder)

    def clean(self) -> None:
        for lock in (self.folder / ".state").rglob("locks/**/*.json"):
            lock.unlink()
        self.pulumi("destroy", "--yes", "--skip-preview")


def on_bed() -> dict[str, Any]:
    """The settings with which the whole stack runs on a bed; its job is the quick one, or a tiny model's."""
    charts = str(chart_folder())
    repositories = ("addonNvidiaPluginRepository", "addonEfaPluginRepository", "addonKubeRayRepository")
    training = {"trainModelId": "tiny-qwen2", "trainDataset": "pydoc", "trainSeqLen": 64, "trainEvalBatches": 1}
    return {**ON_BED, **training, **dict.fromkeys(repositories, charts)}
