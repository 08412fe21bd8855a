"""The nodes that a Ray cluster's workers need, and what is seen of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra.device_plugins import EFA, NVIDIA, PluginKind
from infra.kubernetes_objects import Object


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """What must be there: `nodes`, each offering exactly `gpus` and `efa`, in `zone` if given, in one zone with EFA.

    `tolerations` are those of the worker pods.
    """

    nodes: int
    selector: Mapping[str, str]
    zone: str
    instance_type: str
    gpus: int
    efa: int
    tolerations: Sequence[Object] = ()

    @property
    def plugins(self) -> list[tuple[PluginKind, int]]:
        """The devices that each node must offer, and how many."""
        return [(kind, count) for kind, count in ((NVIDIA, self.gpus), (EFA, self.efa)) if count]


@dataclass(frozen=True, kw_only=True)
class SeenNodes:
    """The cluster now. None where this user may not look; `slices` are ResourceSlices, empty where none are served.

    `plugin_pods` holds, by namespace/name of a DaemonSet, its pods.
    """

    nodes: Sequence[Object] | None
    daemonsets: Sequence[Object] | None = None
    plugin_pods: Mapping[str, Sequence[Object]] | None = None
    slices: Sequence[Object] = ()
