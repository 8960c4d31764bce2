"""`placerl reproduce`: what it says before it measures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import machine, reproduce, tiers
from harness.cli import reproduce_command
from harness.measurement import Measurement
from harness.provenance import Provenance
from harness.reproduce import Cell
from harness.revision import revision
from harness.store import Store
from tests.harness.cli.command_line import Placerl

ROW = Measurement(suite="s", primitive="p", quantity="q", unit="s", provenance=Provenance.MEASURED, value=1.0)
CELLS = [Cell(f"a/{number}", 60, lambda run, report: [ROW]) for number in range(3)]


@pytest.mark.parametrize("arguments", [(), ("--ray", "local")])
def test_the_plan_its_time_and_what_is_left_out_are_told_first(
    arguments: tuple[str, ...], placerl: Placerl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a cluster as on one machine; the cluster's own part is tested in `tests/cluster`."""
    cells = pytest.importorskip("harness.cluster.cells")
    connection = pytest.importorskip("harness.cluster.connection")

    @contextmanager
    def connected(address: str) -> Iterator[None]:
        yield

    monkeypatch.setattr(connection, "connected", connected)
    monkeypatch.setattr(cells, "execute", lambda *_, **__: [])
    monkeypatch.setattr(reproduce, "plan", lambda tier: CELLS)
    monkeypatch.setattr(reproduce_command, "write_report", lambda *_: None)
    monkeypatch.setattr(reproduce_command.plan_table, "left_out", lambda _: iter(["everything on a GPU"]))
    described: Any = machine.describe(measure_links=False).to_json()
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run(tiers.tier("quick").name, revision(), described).finish("a/1", [ROW])
    outcome = placerl("reproduce", "--results", str(tmp_path), *arguments)
    assert outcome.status == 0, outcome.err
    told = " ".join(outcome.err.split())  # lines are broken where the terminal ends
    assert "Plan of the quick tier" in told
    assert "3 cells, 1 finished before" in told
    assert "about 2 minutes to go." in told
    assert "Left out here: everything on a GPU" in told
