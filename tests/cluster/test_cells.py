"""Cells on a Ray cluster of several nodes on this machine; each node offers the resource of one machine."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import machine, reproduce, tiers
from harness.errors import UserError
from harness.measurement import Measurement
from harness.progress import Report, silent
from harness.provenance import Provenance
from harness.reproduce import Cell
from harness.store import Run, Store

ray = pytest.importorskip("ray", reason="needs the extra 'cluster'")

from ray.cluster_utils import Cluster  # noqa: E402

from harness.cluster import cells as on_cluster  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
QUICK = tiers.tier("quick")
NODES = 2


def row(value: float, **details: object) -> Measurement:
    return Measurement(
        suite="s", primitive="p", quantity="q", unit="1", provenance=Provenance.MEASURED, value=value,
        details=details,
    )  # fmt: skip


def counting(key: str, chain: str = "", delay_s: float = 0.0) -> Cell:
    """A cell whose value is the number of rows that the cells before it left; it says which process it ran in."""

    def measure(run: Run, report: Report) -> list[Measurement]:
        time.sleep(delay_s)
        return [row(len(run.measurements()), process=os.getpid(), begun=time.monotonic())]

    return Cell(key, 1, measure, chain)


def failing(key: str, chain: str = "") -> Cell:
    def measure(run: Run, report: Report) -> list[Measurement]:
        raise ZeroDivisionError("as planned")

    return Cell(key, 1, measure, chain)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(NODES):
        made.add_node(num_cpus=1, resources={on_cluster.MACHINE: 1})
    yield made
    ray.shutdown()
    made.shutdown()


def execute(cluster: Cluster, path: Path, cells: list[Cell]) -> list[str]:
    with on_cluster.connected(cluster.address), Store.open(path) as store:
        return on_cluster.execute(store, QUICK, cells, silent)


def stored(path: Path) -> dict[str, Measurement]:
    with Store.open(path, read_only=True) as store:
        (run,) = store.runs()
        assert run.fingerprint == machine.fingerprint()
        return {cell: store.measurements(run=run.id, cell=cell)[0] for cell in store.cells(run.id)}


def test_chains_stay_together_failures_are_kept_and_a_second_run_completes(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    cells = [counting(f"{chain}{number}", chain) for chain in "abc" for number in range(3)]
    assert execute(cluster, path, [*cells, failing("d0", "d"), counting("d1", "d")]) == ["d0"]
    rows = stored(path)
    assert rows["d0"].status == "failed"
    assert "ZeroDivisionError: as planned" in rows["d0"].reason
    assert rows["d1"].value == 0, "what failed leaves no row to use"
    for chain in "abc":
        mine = [rows[f"{chain}{number}"] for number in range(3)]
        assert [each.value for each in mine] == [0, 1, 2]
        assert len({each.details["process"] for each in mine}) == 1

    assert execute(cluster, path, [*cells, counting("d0", "d"), counting("d1", "d")]) == []
    again = stored(path)
    assert again["d0#2"].status == "ok"
    assert {name: again[name] for name in rows} == rows, "what had finished was not measured again"


def test_a_node_that_dies_costs_no_finished_cell(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    (victim, *_) = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    cells = [counting(f"{chain}{number}", chain, delay_s=0.5) for chain in "abcd" for number in range(3)]
    killed = False

    def kill_once(done: float, total: float, what: str) -> None:
        nonlocal killed
        if done and not killed:
            killed = True
            cluster.remove_node(victim, allow_graceful=False)

    with on_cluster.connected(cluster.address), Store.open(path) as store:
        failed = on_cluster.execute(store, QUICK, cells, kill_once)
    assert killed
    rows = stored(path)
    finished = {name for name, each in rows.items() if each.status == "ok"}
    assert finished == {cell.key for cell in cells} - set(failed)
    assert execute(cluster, path, cells) == []
    complete = stored(path)
    assert {name.partition("#")[0] for name, each in complete.items() if each.status == "ok"} == {
        cell.key for cell in cells
    }
    assert all(complete[name] == rows[name] for name in finished)


def test_the_same_rows_as_without_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    cells = [counting(f"a{number}", "a") for number in range(4)]
    execute(cluster, tmp_path / "cluster.sqlite", cells)
    with Store.open(tmp_path / "here.sqlite") as store:
        reproduce.execute(store.begin_run("quick", "r", machine.describe()), cells, silent)
    values = [
        [each.value for each in stored(tmp_path / f"{name}.sqlite").values()] for name in ("cluster", "here")
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:http"])
def test_an_address_where_nothing_answers_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="--ray"), on_cluster.connected(address):
        pass
