"""A Ray cluster of several nodes on this machine."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

MachineCluster = Any


@pytest.fixture
def start_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., MachineCluster]]:
    """Starts a cluster whose head has no machine, and a node for each dict of resources."""
    import ray

    from placerl.harness.cli.bench.cluster_bench import head_alone
    from placerl.harness.cluster.connection import on_loopback

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    folder = tempfile.mkdtemp(prefix="placerl-ray-")
    made: list[MachineCluster] = []

    def start(*resources: dict[str, float]) -> MachineCluster:
        cluster = head_alone(folder)
        made.append(cluster)
        for offered in resources:
            cluster.add_node(num_cpus=1, resources=offered)
        return cluster

    with on_loopback():
        yield start
        ray.shutdown()
        for cluster in made:
            cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)
