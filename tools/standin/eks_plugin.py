"""Stand-in for the `eks` provider plugin: pulumi-eks's Cluster over whatever answers as the `aws` provider.

`python -m tools.standin.eks_plugin ENGINE`: prints its port and serves, as the engine expects of a plugin.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_eks
from pulumi.errors import InputPropertiesError, InputPropertyError
from pulumi.provider import ConstructResult, Provider
from pulumi.provider import main as serve

from tools.standin import eks_rules
from tools.standin.eks_arguments import names
from tools.standin.eks_cluster import Cluster
from tools.standin.eks_rules import ArgumentError

# The SDK's: the engine asks for a plugin of exactly that version.
VERSION = "4.4.0"


class EksProvider(Provider):
    def __init__(self) -> None:
        super().__init__(VERSION)

    # The engine's server calls this with exactly these keywords.
    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        if resource_type != "eks:index:Cluster":
            raise refusal(f"{resource_type} is not modelled by the stand-in; only eks:index:Cluster is")
        try:
            eks_rules.check_cli(_cli_version())
            eks_rules.check_known(inputs, names(pulumi_eks.ClusterArgs))
            eks_rules.check(inputs)
            eks_rules.check_modelled(inputs)
        except ArgumentError as refused:
            if not refused.argument:
                raise refusal(refused.reason) from None
            raise InputPropertyError(refused.argument, refused.reason) from None
        cluster = Cluster(name, inputs, options)
        return ConstructResult(urn=cluster.urn, state=cluster.state)


def refusal(reason: str) -> InputPropertiesError:
    # Without a list, be it empty, the SDK's server fails to tell it.
    return InputPropertiesError(reason, [])


def _cli_version() -> str | None:
    command = shutil.which("aws")
    if command is None:
        return None
    return subprocess.run([command, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def main() -> None:
    serve(EksProvider(), sys.argv[1:])


if __name__ == "__main__":
    main()
