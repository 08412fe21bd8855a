"""A test bed: Kubernetes with the KubeRay operator on one Linux machine, Ray's pods as its processes."""

from tools.bed.bed import Bed
from tools.bed.errors import BedError
from tools.bed.machine import why_not
from tools.bed.nodes import DEFAULT_NODES, NodeSpec, gpu_nodes, system_node
from tools.bed.start import start_bed

__all__ = ["DEFAULT_NODES", "Bed", "BedError", "NodeSpec", "gpu_nodes", "start_bed", "system_node", "why_not"]
