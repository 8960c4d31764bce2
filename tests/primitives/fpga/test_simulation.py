"""Both simulators: the same values in the same cycles, of ports of every kind."""

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth import Module, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives import disk_cache
from primitives.fpga import simulation
from primitives.fpga.export import verilog
from primitives.fpga.export.ram import Ram
from primitives.fpga.simulation import SimulationStalledError
from primitives.fpga.simulation.ports import pack, unpack

PAYLOAD = data.StructLayout({"tag": 5, "value": signed(40), "row": data.ArrayLayout(signed(9), 7)})


class Adder(wiring.Component):
    """Adds `offset` to each value, one item a cycle, a cycle later; keeps the last sum in a memory."""

    def __init__(self) -> None:
        super().__init__(
            {
                "items": In(stream.Signature(PAYLOAD)),
                "sums": Out(stream.Signature(PAYLOAD)),
                "offset": In(signed(20)),
                "count": Out(unsigned(16)),
                "last": Out(signed(40)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = Ram(width=40, depth=3)
        m.d.comb += [ram.read_enable.eq(1), self.last.eq(ram.read_data)]
        m.d.comb += self.items.ready.eq(self.sums.ready | ~self.sums.valid)
        with m.If(self.items.ready):
            m.d.sync += self.sums.valid.eq(self.items.valid)
            m.d.sync += self.sums.payload.eq(self.items.payload)
            m.d.sync += self.sums.payload.value.eq(self.items.payload.value + self.offset)
        with m.If(self.sums.valid & self.sums.ready):
            m.d.sync += self.count.eq(self.count + 1)
            m.d.comb += [ram.write_enable.eq(1), ram.write_data.eq(self.sums.payload.value)]
        return m


SIMULATORS = pytest.mark.parametrize("simulator", [simulation.interpreted, simulation.compiled])


def items(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "tag": rng.integers(0, 32, count),
        "value": rng.integers(-(2**38), 2**38, count),
        "row": rng.integers(-256, 256, (count, 7)),
    }


@SIMULATORS
def test_values_and_cycles(simulator: Any) -> None:
    model = simulator(Adder())
    model.write("offset", -7)
    given_items = items(50)
    run = model.run({"items": given_items}, {"sums": 50})
    assert run.outputs["sums"]["tag"].tolist() == given_items["tag"].tolist()
    assert run.outputs["sums"]["value"].tolist() == (given_items["value"] - 7).tolist()
    assert run.outputs["sums"]["row"].tolist() == given_items["row"].tolist()
    assert run.input_cycles["items"].tolist() == list(range(50))
    assert run.output_cycles["sums"].tolist() == list(range(1, 51))
    assert run.cycles == 51
    assert model.read("count") == 50
    model.step(2)
    assert model.read("last") == given_items["value"][-1] - 7
    again = model.run({"items": items(3)}, {"sums": 3})
    assert (again.cycles, model.read("count")) == (4, 53)


def test_the_simulators_agree_under_gaps_and_back_pressure() -> None:
    gaps = {"items": np.random.default_rng(1).integers(0, 4, 40)}
    ready = {"sums": [True, False, False, True, False]}
    runs = [
        simulator(Adder()).run({"items": items(40)}, {"sums": 40}, gaps=gaps, ready=ready)
        for simulator in (simulation.interpreted, simulation.compiled)
    ]
    assert runs[0].cycles == runs[1].cycles
    assert runs[0].input_cycles["items"].tolist() == runs[1].input_cycles["items"].tolist()
    assert runs[0].output_cycles["sums"].tolist() == runs[1].output_cycles["sums"].tolist()
    for field in ("tag", "value", "row"):
        assert runs[0].outputs["sums"][field].tolist() == runs[1].outputs["sums"][field].tolist()


@SIMULATORS
def test_a_stalled_design_is_told(simulator: Any) -> None:
    with pytest.raises(SimulationStalledError, match="after 100 cycles"):
        simulator(Adder()).run({"items": items(3)}, {"sums": 4}, limit_cycles=100)


@SIMULATORS
def test_wrong_names_are_refused(simulator: Any) -> None:
    model = simulator(Adder())
    with pytest.raises(ValueError, match="input stream: found 'sums'; allowed: items"):
        model.run({"sums": items(1)}, {})
    with pytest.raises(ValueError, match="port: found 'count'; allowed: offset"):
        model.write("count", 1)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_packing_is_undone_by_unpacking(data_source: st.DataObject) -> None:
    widths = data_source.draw(st.lists(st.tuples(st.integers(1, 64), st.booleans()), min_size=1, max_size=6))
    shape = data.StructLayout(
        {f"f{i}": signed(width) if sign else unsigned(width) for i, (width, sign) in enumerate(widths)}
    )
    values: dict[str, Any] = {}
    for i, (width, sign) in enumerate(widths):
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if sign else (0, 2**width - 1)
        numbers = data_source.draw(st.lists(st.integers(low, high), min_size=3, max_size=3))
        values[f"f{i}"] = np.array(numbers, np.int64 if sign or width < 64 else np.uint64)
    found = unpack(shape, pack(shape, values))
    assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in values.items()}


def test_memories_of_an_export_are_instances() -> None:
    text = verilog.export(Adder(), name="adder")
    assert "module adder(" in text
    assert "placerl_ram #(" in text
    assert "module placerl_ram" in text


def _make(name: str, folder: str, made: Any) -> None:
    import os

    os.environ[disk_cache.CACHE_VARIABLE] = folder

    def make(path: Path) -> None:
        made.put(name)
        path.write_text(name)

    assert disk_cache.made("x/one", make).read_text()


def test_one_process_makes_what_several_ask_for(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    made = context.SimpleQueue()
    processes = [context.Process(target=_make, args=(str(i), str(tmp_path), made)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "x/one").read_text() == made.get()
    assert made.empty()


def test_what_was_left_half_made_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))

    def killed(path: Path) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        disk_cache.made("x/one", killed)
    assert not (tmp_path / "x/one").exists()
    assert disk_cache.made("x/one", lambda path: path.write_text("whole") and None).read_text() == "whole"
    assert sorted(path.name for path in (tmp_path / "x").iterdir()) == ["one", "one.lock"]
