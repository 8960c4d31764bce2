"""A local cluster is reached from this machine alone."""

import ipaddress
import os

import psutil
import pytest

from harness.cluster.connection import connected

pytestmark = pytest.mark.slow


def listening() -> dict[str, set[str]]:
    """Return the addresses on which this process and its descendants accept connections, by the process's name."""
    found: dict[str, set[str]] = {}
    this = psutil.Process()
    for process in (this, *this.children(recursive=True)):
        try:
            sockets = process.net_connections("inet")
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        for each in sockets:
            if each.status == psutil.CONN_LISTEN:
                found.setdefault(process.name(), set()).add(each.laddr.ip)
    return found


def process_id() -> int:
    return os.getpid()


def loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    within = getattr(found, "ipv4_mapped", None)
    return (within or found).is_loopback


def test_no_process_of_a_local_cluster_listens_beyond_this_machine() -> None:
    import ray
    from ray._private import ray_constants

    variables, setting = dict(os.environ), ray_constants.ENABLE_RAY_CLUSTER
    with connected("local"):
        assert ray.get(ray.remote(process_id).remote()) != os.getpid()
        assert setting == ray_constants.ENABLE_RAY_CLUSTER, "other clusters are reached as before"
        assert ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR not in os.environ.keys() - variables.keys()
        found = listening()
    assert {"gcs_server", "raylet"} <= found.keys()
    beyond = {name: [a for a in each if not loopback(a)] for name, each in found.items()}
    assert not any(beyond.values()), beyond
