"""The three columns of a table: what stands in a cell, which device is best, and what is missing."""

from pathlib import Path

import pandas as pd
import pytest

from placerl.harness import papers
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import device_table, device_times
from placerl.harness.papers.device_table import COLUMNS, DeviceTable, Entry, OfDevices
from placerl.harness.papers.number import Number
from placerl.harness.profile import simulated
from tests.harness.papers.device_rows import SIZES, on, steps
from tests.harness.papers.rows import frame_of, profiled

WITH_TABLES = [claim for claim in papers.claims() if isinstance(claim, OfDevices)]


def entry(
    value: float, unit: str = "s", spread: float | None = 0.1, machine: str = "a", run: str = ""
) -> Entry:
    low, high = (None, None) if spread is None else (value * (1 - spread), value * (1 + spread))
    return Entry(Number("n", value, unit, Provenance.MEASURED, "", low, high), machine=machine, run=run)


def table(**ours: Entry) -> DeviceTable:
    return DeviceTable("t", "time (s)", {kind: {8: [one]} for kind, one in ours.items()}, {}, [8])


def test_a_cell_has_the_fastest_backend_with_its_design_and_clock(tmp_path: Path) -> None:
    counted = {"cycles": 570, "clock_mhz": 285.0}
    pipeline = on("fpga", simulated.PIPELINE, 32, 2e-6)
    rows = [*steps(fpga_s=1e-5), profiled("learner.step", 1e-9, 32, backend="slower", device="cpu"), pipeline]
    frame = frame_of(tmp_path, *rows)
    frame.loc[frame["primitive"] == simulated.PIPELINE, list(counted)] = list(counted.values())
    drawn = device_table.of_times(
        device_times.learner_times(frame, "hopper-ddpg"), "hopper-ddpg", "step", (7, 32), {32: "FPGA"}
    )
    assert drawn.rows == [7, *SIZES], "the paper's sizes and the measured ones"
    cells = {kind: [(one.number.value, one.how) for one in drawn.at(kind, 32)] for kind in COLUMNS}
    assert cells == {
        "cpu": [(1e-9, "slower")],
        "cuda": [(1e-4, "torch")],
        "fpga": [(2e-6, "pipeline: 570 cycles at 285 MHz")],
    }
    cpu, *_, fpga = drawn.gaps()
    assert cpu == "CPU not run at 7: `placerl profile hopper-ddpg --batch-size 7`."
    assert fpga == "FPGA not run at 7: `placerl profile hopper-ddpg --batch-size 7 --device fpga:u200`."


@pytest.mark.parametrize(("unit", "best", "other"), [("s", "CPU", "GPU"), ("IPS", "GPU", "CPU")])
def test_the_best_device_has_the_shortest_time_or_the_highest_rate(unit: str, best: str, other: str) -> None:
    said = f"{best}, 4 times as fast as the {other}"
    assert table(cpu=entry(1.0, unit), cuda=entry(4.0, unit)).said(8) == f"{said} (FPGA not run)"
    worst = entry(99.0 if unit == "s" else 0.01, unit)
    assert table(cpu=entry(1.0, unit), cuda=entry(4.0, unit), fpga=worst).said(8) == said


def test_devices_are_told_apart_by_their_intervals() -> None:
    overlap = "CPU or GPU: their intervals overlap, or one has none (FPGA not run)"
    assert table(cpu=entry(1.0), cuda=entry(1.1)).said(8) == overlap
    assert table(cpu=entry(1.0), cuda=entry(9.0, spread=None)).said(8) == overlap, "timed in too few rounds"
    exact = entry(9.0, spread=None, machine="")
    assert table(cpu=entry(1.0), fpga=exact).said(8) == "CPU, 9 times as fast as the FPGA (GPU not run)"
    assert table(cpu=entry(1.0)).said(8) == ""


def test_numbers_of_different_runs_say_when_these_began() -> None:
    old, new = "2026-11-27T18:37:51Z", "2026-11-29T13:20:51Z"
    said = "CPU, 9 times as fast as the FPGA (GPU not run)"
    for others in (new, ""):  # cycles depend on no run
        assert table(cpu=entry(1.0, run=new), fpga=entry(9.0, run=others)).said(8) == said
    note = "; different runs: CPU 2026-11-29 13:20, FPGA 2026-11-27 18:37"
    assert table(cpu=entry(1.0, run=new), fpga=entry(9.0, run=old)).said(8) == said + note
    assert table(cpu=entry(1.0, run=new), fpga=entry(1.1, run=old)).said(8).endswith(note)


def test_a_chart_needs_two_devices_and_a_line(tmp_path: Path) -> None:
    def panel(*rows: object) -> object:
        times = device_times.learner_times(frame_of(tmp_path / str(len(rows)), *rows), "hopper-ddpg")
        return device_table.of_times(times, "hopper-ddpg", "step", SIZES).panel()

    assert panel(*steps()) is not None
    assert panel(*(row for row in steps() if row.device == "cpu")) is None
    assert panel(*(row for row in steps() if row.batch_size == 32)) is None


@pytest.mark.parametrize("claim", WITH_TABLES, ids=lambda claim: claim.key)
def test_the_tables_of_a_claim_without_measurements_say_what_would_fill_them(
    claim: OfDevices, empty: pd.DataFrame
) -> None:
    tables = claim.device_tables(empty)
    assert len({one.title for one in tables}) == len(tables) > 0
    for one in tables:
        listed = ", ".join(f"{size:,}" for size in one.rows)
        assert [gap.partition(": `")[0] for gap in one.gaps()] == [
            f"{name} not run at {listed}" for name in COLUMNS.values()
        ]
        units = {
            e.number.unit for by_size in one.published.values() for some in by_size.values() for e in some
        }
        assert units <= {"s" if one.quantity.endswith("(s)") else "IPS"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    frame = frame_of(tmp_path_factory.mktemp("store"), profiled("nothing", 1.0))
    return frame.iloc[:0]
