"""A stack stays on its cluster."""

import pytest

from infra.cluster_guard import ClusterGuardProvider
from workload.errors import ReportedError


def test_the_same_cluster_is_no_change() -> None:
    made = ClusterGuardProvider().create({"cluster_id": "ca-1"})
    assert not ClusterGuardProvider().diff(made.id, made.outs or {}, {"cluster_id": "ca-1"}).changes


def test_another_cluster_is_refused_with_both_names_and_a_way_out() -> None:
    with pytest.raises(ReportedError, match="on cluster ca-1, and the settings lead to ca-2") as caught:
        ClusterGuardProvider().diff("ca-1", {"cluster_id": "ca-1"}, {"cluster_id": "ca-2"})
    assert "kubeContext" in str(caught.value)
