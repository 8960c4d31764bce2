"""Cells counted by Yosys, and blocks by name."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.export.ram import Ram
from placerl.primitives.fpga.export.ram_verilog import RAM_VERILOG
from placerl.primitives.fpga.tools import resources
from placerl.primitives.fpga.tools.blocks import BLOCKS
from placerl.primitives.fpga.tools.resources import Resources


class Sampler(wiring.Component):
    """A registered product of 16 bits and a memory of 4096 words of 32; of one address, if `shared`."""

    def __init__(self, shared: bool = False) -> None:
        self._shared = shared
        super().__init__(
            {
                "a": In(signed(16)),
                "b": In(signed(16)),
                "address": In(12),
                "written": In(12),
                "out": Out(32),
                "word": Out(32),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = Ram(width=32, depth=4096)
        product = Signal(signed(32))
        m.d.sync += [product.eq(self.a * self.b), self.out.eq(product)]
        m.d.comb += [
            ram.read_enable.eq(1),
            ram.read_address.eq(self.address),
            ram.write_enable.eq(1),
            ram.write_address.eq(self.address if self._shared else self.written),
            ram.write_data.eq(product),
            self.word.eq(ram.read_data),
        ]
        return m


@pytest.mark.slow
@pytest.mark.timeout(1800)  # Yosys' first call compiles it
def test_a_multiplier_and_a_memory_are_found() -> None:
    found = resources.count(Sampler())
    assert found.dsps == 1
    assert found.block_rams + found.ultra_rams * 8 >= 4  # 128 Kib
    assert found == resources.count(Sampler())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_modules_are_counted_as_often_as_they_stand_there() -> None:
    whole, by_module = (
        resources.count(BLOCKS["gemm-core"].make(side=2, width=16, accumulator_width=40), by_module=chosen)
        for chosen in (False, True)
    )
    assert whole.dsps == by_module.dsps == 4  # one of each element
    assert (whole.block_rams, whole.ultra_rams) == (by_module.block_rams, by_module.ultra_rams)
    synthesis = resources.count_cells(
        BLOCKS["gemm-core"].make(side=2, width=16, accumulator_width=40), by_module=True
    )[1]
    assert {"array", "controller"} <= set(synthesis.parts)
    assert resources.of_cells(synthesis.parts["array"].cells).dsps == 4
    assert synthesis.cpu_s is not None
    # Nothing is shared across borders: never less, and not much more.
    assert whole.flip_flops <= by_module.flip_flops <= 1.2 * whole.flip_flops
    assert whole.luts <= by_module.luts <= 1.2 * whole.luts


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_memory_that_is_read_and_written_at_one_address_is_found() -> None:
    found = resources.count(Sampler(shared=True))
    assert found.block_rams + found.ultra_rams * 8 >= 4
    assert found.dsps == 1


def test_addresses_are_told_apart_in_text() -> None:
    text = resources._addresses_apart("module top;\nendmodule\n" + RAM_VERILOG)
    assert "words[address_apart]" in text
    assert "words[read_address]" not in text
    assert "placerl_address #(.WIDTH(ADDRESS_WIDTH)) apart" in text
    assert resources._addresses_apart("module top;\nendmodule\n") == "module top;\nendmodule\n"


def test_memories_that_ask_for_ultra_ram_have_a_module_that_yosys_reads() -> None:
    text = resources._ultra_asked(verilog.export(Ram(width=40, depth=3, ultra=True)))
    assert "placerl_ultra_ram #(" in text
    assert '  (* ram_style = "ultra" *)\n  reg [WIDTH-1:0] words [0:DEPTH-1];' in text
    plain = verilog.export(Ram(width=40, depth=3))
    assert resources._ultra_asked(plain) == plain


def test_cells_are_added_up() -> None:
    cells = {
        "LUT6": 3,
        "LUT2": 1,
        "RAM64M8": 2,
        "FDRE": 5,
        "RAMB18E2": 1,
        "RAMB36E2": 2,
        "URAM288": 1,
        "DSP48E2": 4,
    }
    assert resources.of_cells(cells | {"CARRY8": 9}) == Resources(20, 5, 2.5, 1, 4)
    with pytest.raises(RuntimeError, match="cell: found XYZ"):
        resources.of_cells({"XYZ": 1})


@pytest.mark.parametrize("name", BLOCKS)
def test_every_parameter_says_what_it_may_be_and_is_held_to_it(name: str) -> None:
    block = BLOCKS[name]
    for parameter, default in block.defaults.items():
        assert block.parameters({parameter: str(default).lower()})[parameter] == default
        allowed = block.allowed[parameter]
        wrong = ["", "-1", "1.5", str(10**30)]
        for text in wrong:
            with pytest.raises(ValueError, match=f"{parameter}: found '{text}'; allowed: {allowed}$"):
                block.parameters({parameter: text})


QUICK = (
    "lane-route",
    "bank-queues",
    "processing-element",
    "float-operator",
    "float-element",
    "layout-transform",
    "weight-update",
    "cartpole-agent",
)
"""Blocks that are converted in a second or two; the others take up to half a minute."""
LARGE = (
    "map-accelerator",
    "ppo-accelerator",
    "fixar",
    "learner-pipeline",
    "replay-pipeline",
    "banked-replay-pipeline",
)
"""Blocks that take longer, of which `test_counted` converts the committed ones, too."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] * (name not in QUICK) + [pytest.mark.long] * (name in LARGE)


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in BLOCKS])
def test_every_block_is_made_with_its_defaults(name: str) -> None:
    from amaranth.back import rtlil

    from placerl.primitives.fpga.export.platform import ExportPlatform

    design = BLOCKS[name].make(**BLOCKS[name].parameters({}))
    assert "module" in rtlil.convert(design, platform=ExportPlatform(), emit_src=False)
    assert BLOCKS[name].description


def test_parameters_are_read_from_text() -> None:
    block = BLOCKS["gemm-core"]
    assert block.parameters({"side": "4", "configurable": "true"}) == block.defaults | {
        "side": 4,
        "configurable": True,
    }
    with pytest.raises(ValueError, match="parameter: found 'sides'; allowed: side, width"):
        block.parameters({"sides": "4"})
    with pytest.raises(ValueError, match="side: found 'four'; allowed: 2 to 64"):
        block.parameters({"side": "four"})
    with pytest.raises(ValueError, match="configurable: found 'yes'; allowed: true, false"):
        block.parameters({"configurable": "yes"})
