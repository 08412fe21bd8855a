"""PURE: the names by which NCCL's lines call networks and libfabric's providers."""

# What aws-ofi-nccl calls its network: up to 1.12, from 1.13 on, and with NCCL_NET=OFI.
LIBFABRIC_NETWORKS = frozenset({"AWS Libfabric", "Libfabric", "OFI"})
SOCKET_NETWORKS = frozenset({"Socket"})
KNOWN_NETWORKS = frozenset({*LIBFABRIC_NETWORKS, *SOCKET_NETWORKS, "IB"})
# Plugins that come with NCCL: that one of them found no device is how a search for networks goes.
BUILT_IN_PLUGINS = frozenset({"IB", "Socket"})
KNOWN_PROVIDERS = frozenset(
    {"efa", "efa-direct", "tcp", "sockets", "udp", "verbs", "shm", "tcp;ofi_rxm", "verbs;ofi_rxm"}
)
