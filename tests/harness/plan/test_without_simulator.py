"""The quick tier's simulated devices need no simulator: every cycle comes from the table, the numbers from software."""

from collections.abc import Callable
from contextlib import closing

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth.hdl import _ir

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import STRICT
from placerl.harness.mapping import Mapping
from placerl.harness.plan import plan
from placerl.harness.plan.tiers import TIERS
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Training
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Run
from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cycles.timed_block import SIMULATE_VARIABLE
from placerl.primitives.fpga.export import toolchain


@pytest.fixture(autouse=True)
def no_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides Verilator, Yosys and every C++ compiler, and forbids to elaborate or to simulate a design."""

    def forbidden(what: str) -> Callable[..., None]:
        return lambda *_, **__: pytest.fail(f"forbidden: {what}")

    monkeypatch.delenv(SIMULATE_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(
        toolchain, "missing", lambda packages: ", ".join({*packages} - {*toolchain.DESCRIBES})
    )
    for name in ("built", "compiled"):
        monkeypatch.setattr(simulation, name, forbidden(f"simulation.{name}"))
    monkeypatch.setattr(_ir.Fragment, "get", forbidden("to elaborate a design"))


def simulated_cells() -> list[Cell]:
    """The cells of the quick tier whose rows are of a simulated device, or of a paper's hardware."""
    return [
        cell
        for cell in plan.plan(TIERS["quick"])
        if cell.provenance is Provenance.SIMULATED or cell.key.endswith("/fpga")
    ]


def rows_are_complete(run: Run, cell: Cell) -> None:
    rows = cell.measured(run, silent)
    assert rows
    for row in rows:
        fits = row.status == "ok" or "would need" in row.reason
        assert fits, (cell.key, row.primitive, row.reason)
    assert any(row.status == "ok" and row.value for row in rows)


def test_there_are_such_cells_and_the_tools_are_hidden() -> None:
    keys = {cell.key for cell in simulated_cells()}
    assert {
        "claim/FIX-F10",
        "claim/PPO-T2/hopper/fpga",
        "simulated_profile/hopper-ddpg/256/fpga:u200",
    } <= keys
    assert "verilator" in toolchain.unavailable_reason()
    assert toolchain.compiler() is None


def test_cells_of_one_workload_and_of_the_papers_are_measured(run: Run) -> None:
    for cell in simulated_cells():
        if "cartpole-ddpg" not in cell.key and "hopper-ddpg" not in cell.key:
            rows_are_complete(run, cell)


@pytest.mark.slow
def test_all_cells_are_measured(run: Run) -> None:
    for cell in simulated_cells():
        rows_are_complete(run, cell)


@pytest.mark.parametrize("mapping", ["fpga-fpga-cpu", "native-fpga-fpga", "fpga-native-cpu"])
def test_trainings_run_in_virtual_time(mapping: str) -> None:
    item = workloads.load("cartpole-dqn")
    for field, value in (("replay.capacity", 4096), ("training.learning_starts", 100)):
        item = workloads.override(item, field, value, "a test")
    with closing(Training(resolve(STRICT, item, Mapping.parse(mapping), batch_size=32))) as training:
        training.warm_up()
        progress = training.advance(8)
    assert progress.wall_s > 0
    assert training.provenance != Provenance.MEASURED
