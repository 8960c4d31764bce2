"""Clusters on this machine listen on the loopback interface alone."""

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import psutil
import pytest

ray = pytest.importorskip("ray", reason="needs the extra 'cluster'")

from ray._private import ray_constants  # noqa: E402

from placerl.harness.cli.bench import cluster_bench  # noqa: E402
from placerl.harness.cluster import connection  # noqa: E402
from placerl.harness.cluster.connection import MACHINE, connected, on_loopback  # noqa: E402
from placerl.harness.core.errors import UserError  # noqa: E402


def setting() -> tuple[bool, str | None]:
    """Return what decides on which interfaces Ray listens: in this process, and in those that it starts."""
    variable = os.environ.get(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR)
    return ray_constants.ENABLE_RAY_CLUSTER, variable


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


@contextmanager
def of_the_benchmark() -> Iterator[None]:
    with cluster_bench.nodes(1) as address, connected(address):
        yield


@pytest.mark.parametrize("variable", [None, "0", "1"])
def test_rays_setting_is_as_before_after_the_block_whether_or_not_it_fails(
    monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    monkeypatch.delenv(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, raising=False)
    if variable is not None:
        monkeypatch.setenv(ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR, variable)
    before = setting()
    with on_loopback():
        assert setting() == (False, "0")
    with pytest.raises(ZeroDivisionError), on_loopback():
        raise ZeroDivisionError
    assert setting() == before


@pytest.mark.parametrize(
    ("answer", "said"),
    [("token", "asks for a token; allowed: RAY_AUTH_MODE=token"), ("", "is no Ray; allowed: local")],
)
def test_a_cluster_that_asks_for_a_token_is_not_taken_for_another_program(
    monkeypatch: pytest.MonkeyPatch, answer: str, said: str
) -> None:
    monkeypatch.setattr(connection, "_ASK", f"print('ready', flush=True); print({answer!r}, flush=True)")
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(UserError, match=said):
        connection.check_address(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("start", [partial(connected, "local"), of_the_benchmark], ids=["local", "benchmark"])
def test_no_process_of_a_cluster_on_this_machine_listens_beyond_it(
    start: Callable[[], AbstractContextManager[None]],
) -> None:
    before = setting()
    with start():
        # A worker listens too, from its first task on.
        assert ray.get(ray.remote(process_id).options(resources={MACHINE: 1}).remote()) != os.getpid()
        found = listening()
    assert setting() == before
    assert {"gcs_server", "raylet"} <= found.keys()
    beyond = {name: [one for one in each if not loopback(one)] for name, each in found.items()}
    assert not any(beyond.values()), beyond
