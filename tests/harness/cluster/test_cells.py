"""Cells on a Ray cluster of several nodes on this machine; each node offers the resource of one machine."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report, silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.plan import execution, tiers
from placerl.harness.platforms import available_memory, this_machine
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run, Store
from placerl.harness.validate import plan as validation_plan
from tests.harness.old_form import details_of, row_of

ray = pytest.importorskip("ray", reason="needs the extra 'cluster'")

from ray.cluster_utils import Cluster  # noqa: E402

from placerl.harness.cluster import cells as on_cluster  # noqa: E402
from placerl.harness.cluster import connection  # noqa: E402
from placerl.harness.cluster.connection import MACHINE, RESTARTS, connected  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
QUICK = tiers.tier("quick")
NODES = 2


def row(value: float, **details: object) -> Row:
    return row_of(
        suite="s", primitive="p", quantity="q", unit="1", provenance=Provenance.MEASURED, value=value,
        details=details,
    )  # fmt: skip


def counting(key: str, chain: str = "", delay_s: float = 0.0) -> Cell:
    """A cell whose value is the number of rows that the cells before it left; it says which node it ran on."""

    def measure(run: Run, report: Report) -> list[Row]:
        begun = time.monotonic()
        time.sleep(delay_s)
        node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"
        return [row(len(run.measurements(suite="s")), node=node, begun=begun, ended=time.monotonic())]

    return Cell(key, 1, measure, chain)


def failing(key: str, chain: str = "") -> Cell:
    def measure(run: Run, report: Report) -> list[Row]:
        raise ZeroDivisionError("as planned")

    return Cell(key, 1, measure, chain)


@pytest.fixture
def cluster(start_cluster: Callable[..., Cluster]) -> Cluster:
    return start_cluster(*[{MACHINE: 1}] * NODES)


def execute(cluster: Cluster, path: Path, cells: list[Cell]) -> list[str]:
    with connected(cluster.address), Store.open(path) as store:
        return on_cluster.execute(store, QUICK, cells, silent)


def stored(path: Path) -> dict[str, Row]:
    with Store.open(path, read_only=True) as store:
        (run,) = store.runs()
        assert run.fingerprint == this_machine.fingerprint()
        return {cell: store.measurements(run=run.id, cell=cell)[0] for cell in store.cells(run.id)}


def test_a_machine_gives_the_memory_of_each_cell_back(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    monkeypatch.setattr(available_memory, "release", lambda: released.append(1))
    here = SimpleNamespace(get_node_id=lambda: "here")
    monkeypatch.setattr(on_cluster.ray, "get_runtime_context", lambda: here)
    measure = on_cluster._measure._function
    for cell in (counting("a"), failing("b")):
        measure(cell, [], on_cluster._fingerprint(), on_cluster._revision())
    assert len(released) == 2


@pytest.mark.long
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
        assert len({details_of(each)["node"] for each in mine}) == 1
    for node in {details_of(each)["node"] for each in rows.values() if each.status == "ok"}:
        times = sorted(
            (details_of(r)["begun"], details_of(r)["ended"])
            for r in rows.values()
            if details_of(r).get("node") == node
        )
        assert all(end <= begin for (_, end), (begin, _) in pairwise(times)), (
            "a machine's cells one after the other"
        )

    assert execute(cluster, path, [*cells, counting("d0", "d"), counting("d1", "d")]) == []
    again = stored(path)
    assert again["d0#2"].status == "ok"
    assert {name: again[name] for name in rows} == rows, "what had finished was not measured again"


@pytest.mark.long
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

    with connected(cluster.address), Store.open(path) as store:
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


def measured_rates(key: str, item: workloads.Workload) -> Cell:
    """Stands for a comparison, with numbers that differ by the key, and of a workload's cell as the plan has it."""

    def measure(run: Run, report: Report) -> list[Row]:
        rates = np.random.default_rng(len(key)).uniform(100, 200, 2)
        before = run.measurements(suite="compare", workload=item.name)
        return [
            row_of(
                suite="compare", workload=item.name, primitive="training", backend=f"{key}{number}",
                batch_size=32, quantity="gradient_steps_per_s", unit="1/s", provenance=Provenance.MEASURED,
                value=rate + sum(each.value for each in before),
                details={"part": "theirs", "baseline": f"{key}{number}"},
            )
            for number, rate in enumerate(rates)
        ]  # fmt: skip

    return Cell(f"compare/{item.name}/{key}", 1, measure, item.name)


def test_the_same_rows_as_without_a_cluster(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def validated(*arguments: Any) -> list[Row]:
        """In place of the measurement, which is not the same twice: what it is given to judge by."""
        *_, baselines, _ = arguments  # the last ones are the precisions
        return [row(rate, baseline=name) for name, rate in baselines.items()]

    monkeypatch.setattr(validation_plan, "validate", validated)
    item = workloads.load("cartpole-dqn")
    cells = [
        *(counting(f"a{number}", "a") for number in range(4)),
        *(measured_rates(key, item) for key in ("x", "yy")),
        validation_plan.cell(item, 32, 1.0),
    ]
    assert execute(cluster, tmp_path / "cluster.sqlite", cells) == []
    with Store.open(tmp_path / "here.sqlite") as store:
        execution.execute(store.begin_run("quick", "r", this_machine.describe()), cells, silent)

    def values(name: str) -> dict[str, list[float | None]]:
        with Store.open(tmp_path / f"{name}.sqlite", read_only=True) as store:
            return {cell: [each.value for each in store.measurements(cell=cell)] for cell in store.cells(1)}

    assert values("cluster") == values("here")
    assert len(set(values("here")[cells[-1].key])) == 4, "a number of each baseline was there to be read"


def dying(key: str, folder: Path, times: int) -> Cell:
    """A cell whose worker is killed, as the kernel does that runs out of memory, the first so many times."""

    def measure(run: Run, report: Report) -> list[Row]:
        died = len(list(folder.iterdir()))
        if died < times:
            (folder / str(died)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [row(died)]

    return Cell(key, 1, measure)


@pytest.mark.long
def test_a_worker_that_dies_is_replaced_and_a_cell_that_always_kills_it_fails_by_name(
    cluster: Cluster, tmp_path: Path
) -> None:
    path, once, always = tmp_path / "store.sqlite", tmp_path / "once", tmp_path / "always"
    once.mkdir()
    always.mkdir()
    cells = [counting("a"), dying("b", once, 1), dying("c", always, 1000), counting("d")]
    assert execute(cluster, path, cells) == ["c"]
    rows = stored(path)
    assert rows["b"].value == 1
    assert rows["c"].status == "failed"
    assert "WorkerCrashedError" in rows["c"].reason
    assert rows["a"].status == rows["d"].status == "ok"
    assert len(list(always.iterdir())) == RESTARTS + 1
    assert execute(cluster, path, [*cells[:2], counting("c"), cells[3]]) == []


@pytest.mark.long
def test_a_machine_with_other_code_is_refused_by_name(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, theirs = tmp_path / "store.sqlite", on_cluster.revision()
    host = socket.gethostname()
    with monkeypatch.context() as patched:
        patched.setattr(on_cluster, "revision", lambda: "ours")  # the machines' own remain
        with pytest.raises(UserError) as refused:
            execute(cluster, path, [counting("a")])
    for said in (host, theirs, "ours"):
        assert said in str(refused.value)
    with Store.open(path, read_only=True) as store:
        assert store.runs() == []

    with connected(cluster.address), Store.open(path) as store:
        plan = on_cluster.ClusterPlan(store, QUICK, [counting("a", "c"), counting("b", "c")])
        plan._revision = "ours"  # as if the machines had joined since, with another checkout
        assert plan.execute(silent).failed == ["a", "b"]
    rows = stored(path)
    assert {each.status for each in rows.values()} == {"failed"}
    assert all(f"machine {host} has revision {theirs}" in each.reason for each in rows.values())
    assert execute(cluster, path, [counting("a", "c"), counting("b", "c")]) == []


def test_a_cell_is_told_once_its_rows_are_stored(cluster: Cluster, tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []

    def telling(cell: Cell) -> Cell:
        return replace(cell, stored=lambda run: told.append((cell.key, run.finished(cell.key))))

    cells = [telling(counting("a")), telling(failing("b"))]
    assert execute(cluster, tmp_path / "store.sqlite", cells) == ["b"]
    assert told == [("a", True)]


@pytest.mark.long
def test_a_comparison_goes_on_where_it_was_begun(
    start_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    path, cluster = tmp_path / "store.sqlite", start_cluster({MACHINE: 1})
    cells = [counting("a0", "a")]
    execute(cluster, path, cells)
    first = details_of(stored(path)["a0"])["node"]
    cluster.add_node(num_cpus=1, resources={MACHINE: 1})
    for number in range(1, 4):  # each time a new driver, whose first cell keeps one of the machines busy
        busy = counting(f"busy{number}", delay_s=3.0)
        cells.append(counting(f"a{number}", "a"))
        assert execute(cluster, path, [busy, *cells]) == []
    rows = stored(path)
    nodes = {name: details_of(each)["node"] for name, each in rows.items()}
    assert {nodes[f"a{number}"] for number in range(4)} == {first}
    assert all(details_of(each)["ray_node"] == nodes[name] for name, each in rows.items())


@pytest.mark.long
def test_a_comparison_stays_where_it_is_when_a_worker_dies_in_it(cluster: Cluster, tmp_path: Path) -> None:
    path, always = tmp_path / "store.sqlite", tmp_path / "always"
    always.mkdir()
    cells = [counting("a0", "a"), dying("a1", always, 1000), counting("a2", "a")]
    cells[1] = replace(cells[1], chain="a")

    busy: list[Any] = []

    @ray.remote(num_cpus=0, resources={MACHINE: 1})
    def sleep() -> None:
        time.sleep(5.0)

    def occupy(done: float, total: float, what: str) -> None:
        """Another driver's cell keeps the comparison's machine busy when its next one is due."""
        if what == "a1":
            there = on_cluster._on(details_of(stored(path)["a0"])["node"], or_another=False)
            busy.append(sleep.options(scheduling_strategy=there).remote())

    with connected(cluster.address), Store.open(path) as store:
        assert on_cluster.execute(store, QUICK, cells, occupy) == ["a1"]
        assert len(busy) == 1
    rows = stored(path)
    assert details_of(rows["a0"])["node"] == details_of(rows["a2"])["node"]


@pytest.mark.long
def test_cells_that_were_made_stale_are_measured_again(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    execute(cluster, path, [counting("a")])
    execute(cluster, path, [replace(counting("a"), stale=lambda run: True)])
    assert set(stored(path)) == {"a", "a#2"}


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "127.0.0.1:http"])
def test_an_address_where_nothing_answers_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="--ray"), connected(address):
        pass


@pytest.mark.parametrize(
    ("says", "said", "auto"),
    [
        (b"", "what listens there is no Ray", False),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "what listens there is no Ray", False),
        (b"", "'auto': no Ray answers", True),
    ],
)
def test_another_service_is_refused_in_one_line_and_without_ray_s_own(
    says: bytes, said: str, auto: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(connection, "ANSWER_LIMIT_S", 1.0)

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):  # the test is over
            while True:
                client, _ = listening.accept()
                client.sendall(says)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=[listening], daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        if auto:
            monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UserError, match=said) as refused, connected("auto" if auto else address):
            pass
        listening.shutdown(socket.SHUT_RDWR)
    assert len(str(refused.value).splitlines()) == 1
    assert capfd.readouterr() == ("", "")
    assert not ray.is_initialized()
