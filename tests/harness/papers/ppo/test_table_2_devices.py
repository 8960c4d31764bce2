"""PPO Table 2 with three columns, from made-up rows."""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.papers.ppo import table_2_devices
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from tests.harness.papers.ppo.test_table_2 import SMALL, rows
from tests.harness.papers.ppo.test_virtual_iterations import joined
from tests.harness.papers.rows import frame_of


def test_rates_stand_by_the_size_that_varies(tmp_path: Path) -> None:
    few = PpoIteration(4, 512, 512, 10)
    made = [
        *rows("Hopper", SMALL, 1.0, 0.0, 0.0),
        *rows("Hopper", few, 2.0, 0.0, 0.0, "cuda"),
        *joined(SMALL, 0.5),
    ]
    found = {table.title: table for table in table_2_devices.tables(frame_of(tmp_path, *made), "Hopper")}
    minibatches = found["Hopper, N = 16, T = 512"]
    assert (minibatches.along, minibatches.rows, minibatches.drawn) == (
        "mini-batch M",
        [64, 128, 256, 512],
        True,
    )
    on_cpu, on_fpga = (minibatches.at(kind, 64)[0] for kind in ("cpu", "fpga"))
    assert on_cpu.number.value == pytest.approx(SMALL.samples / 1.0, rel=0.02)
    assert on_cpu.number.unit == "IPS"
    assert on_fpga.number.value == pytest.approx(SMALL.samples / 0.5, rel=0.02)
    assert "in virtual time, at " in on_fpga.how
    printed = [(one.how, one.number.value) for one in minibatches.published["fpga"][64]]
    assert printed == [("Spinning Up", 13_800), ("Baselines", 3_630)]
    agents = found["Hopper, M = 512, T = 512"]
    assert agents.at("cuda", 4)[0].number.value == pytest.approx(few.samples / 2.0, rel=0.02), (
        "without cycles, too"
    )
    assert [one.number.value for one in agents.published["cuda"][4]] == [2_860]
    assert not agents.drawn
