"""PPO's accelerator with its host interface: AXI4-Lite registers, and AXI4-Streams of rows.

Golden model: the tests' `GoldenNetwork`; its host in a simulation is the tests' `HostedAccelerator`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from placerl.primitives.fpga.floating_point.words import WORD_BITS
from placerl.primitives.fpga.gemm.control import INDEX_BITS
from placerl.primitives.fpga.gemm.plan import blocks
from placerl.primitives.fpga.host import AxiLite, RegisterFile, axi_stream, run_control
from placerl.primitives.fpga.ppo_accelerator.accelerator import AcceleratorSizes, HostMemory, PpoAccelerator
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS
from placerl.primitives.fpga.ppo_accelerator.host_registers import REGISTERS, registers
from placerl.primitives.fpga.ppo_accelerator.memory_banks import memory_blocks, programs_for
from placerl.primitives.fpga.ppo_accelerator.program import NetworkProgram

# The first transfer of a packet of rows: where its rows go, one after another.
RowsHeader = data.StructLayout({"owner": 1, "memory": HostMemory, "unused": 12, "block": INDEX_BITS})


class PpoAcceleratorTop(wiring.Component):
    """Two float32 compute units with registers and streams for a host (PPO Fig. 2).

    Attributes:
        register_map: its registers; with clipping it has more of them.
        programs: of the networks that its sizes are for, if they are known.

    Ports:
        s_axil: In(AxiLite), the registers.
        s_axis_rows: In(AXI4-Stream of P x 32 bits): packets; the first transfer is a `RowsHeader`, each other one a row
            of P float32 numbers, for consecutive rows of blocks. A packet without a row, or that ends within a block,
            sets `events.packet`, and so do rows beyond the memory, which are dropped.
        m_axis_outputs_k: Out(AXI4-Stream of P x 32 bits), for unit k of 0 and 1: a packet of z_L for each forward pass:
            its blocks, row by row, without rows that do not exist.
        m_axis_weights: Out(AXI4-Stream of P x 32 bits): a packet of P rows for each block that the host asks for.
    """

    register_map = REGISTERS

    def __init__(self, sizes: AcceleratorSizes, programs: Sequence[NetworkProgram] = ()):
        self.accelerator, self.programs = PpoAccelerator(sizes), tuple(programs)
        self.sizes, self.register_map = sizes, registers(clips=sizes.clips)
        rows = axi_stream(sizes.side * WORD_BITS)
        super().__init__(
            {
                "s_axil": In(AxiLite(self.register_map.address_bits)),
                "s_axis_rows": In(rows),
                "m_axis_outputs_0": Out(rows),
                "m_axis_outputs_1": Out(rows),
                "m_axis_weights": Out(rows),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.accelerator = accelerator = self.accelerator
        m.submodules.registers = registers = RegisterFile(self.register_map)
        wiring.connect(m, wiring.flipped(self.s_axil), registers.bus)
        self._runs(m, accelerator, registers)
        self._program(m, accelerator, registers)
        self._rows_in(m, accelerator, registers)
        self._weights_out(m, accelerator, registers)
        for k in range(2):
            sent, source = getattr(self, f"m_axis_outputs_{k}"), getattr(accelerator, f"outputs_{k}")
            m.d.comb += [
                sent.valid.eq(source.valid),
                source.ready.eq(sent.ready),
                sent.payload.data.eq(source.payload.words.as_value()),
                sent.payload.last.eq(source.payload.last),
            ]
        return m

    def _runs(self, m: Module, accelerator: Any, registers: Any) -> None:
        """Start the runs, and keep their cycles and their end."""
        control, running = run_control(m, registers), Signal(2)
        if self.sizes.clips:
            self._clipping(m, accelerator, registers)
        works = running.any()
        m.d.comb += [control.works.eq(works), control.takes.eq(control.wanted & ~works)]
        for k in range(2):
            runs, finished = getattr(accelerator, f"runs_{k}"), getattr(accelerator, f"finished_{k}")
            offered, cycles = Signal(name=f"offered_{k}"), Signal(32, name=f"kept_cycles_{k}")
            steps = getattr(registers, f"steps_{k}")
            m.d.comb += [
                runs.valid.eq(offered),
                runs.payload.first.eq(steps.first),
                runs.payload.count.eq(steps["count"]),
                runs.payload.shared.eq(registers.runs[f"shared_{k}"]),
                finished.ready.eq(1),
                getattr(registers, f"cycles_{k}").eq(cycles),
                getattr(accelerator, f"rate_{k}").eq(getattr(registers, f"rate_{k}")),
                getattr(accelerator, f"root_{k}").eq(getattr(registers, f"root_{k}")),
            ]
            with m.If(runs.ready):
                m.d.sync += offered.eq(0)
            with m.If(finished.valid):
                m.d.sync += [cycles.eq(finished.payload), running[k].eq(0)]
            with m.If(control.takes & registers.runs[f"run_{k}"]):
                m.d.sync += [offered.eq(1), running[k].eq(1)]

    def _clipping(self, m: Module, accelerator: Any, registers: Any) -> None:
        """Connect what the host writes and reads to clip gradients."""
        for k in range(2):
            m.d.comb += [
                getattr(accelerator, f"measures_{k}").eq(registers.measures[f"measures_{k}"]),
                getattr(accelerator, f"scale_{k}").eq(getattr(registers, f"scale_{k}")),
            ]
            parts = getattr(accelerator, f"parts_{k}")
            m.d.comb += [getattr(registers, f"square_{k}_{n}").eq(parts[n]) for n in range(PARTS)]

    def _program(self, m: Module, accelerator: Any, registers: Any) -> None:
        """Store a step that the host has written into registers."""
        program, place = accelerator.program, Signal.like(registers.store_step)
        words = [
            getattr(registers, register.name)
            for register in REGISTERS.registers
            if register.name.startswith("step_word_")
        ]
        with m.If(registers.store_step.store):
            m.d.sync += place.eq(registers.store_step)
        with m.Elif(program.ready):
            m.d.sync += place.store.eq(0)
        m.d.comb += [
            program.valid.eq(place.store),
            program.payload.network.eq(place.network),
            program.payload.index.eq(place.index),
            program.payload.step.as_value().eq(Cat(words)),
        ]

    def _rows_in(self, m: Module, accelerator: Any, registers: Any) -> None:
        """Write the rows of a packet to consecutive places."""
        rows, writes = self.s_axis_rows, accelerator.writes
        header, inside, row = Signal(RowsHeader), Signal(), Signal(range(self.sizes.side))
        last_row = row == self.sizes.side - 1
        beyond, taken = Signal(init=1), rows.valid & rows.ready
        with m.Switch(header.memory):
            for memory, count in self._memory_blocks().items():
                with m.Case(memory):
                    m.d.comb += beyond.eq(header.block >= count)
        m.d.comb += [
            registers.events.packet.eq(
                taken & Mux(inside, beyond | (rows.payload.last & ~last_row), rows.payload.last)
            ),
            writes.valid.eq(rows.valid & inside & ~beyond),
            rows.ready.eq(~inside | beyond | writes.ready),
            writes.payload.owner.eq(header.owner),
            writes.payload.memory.eq(header.memory),
            writes.payload.block.eq(header.block),
            writes.payload.row.eq(row),
            writes.payload.words.as_value().eq(rows.payload.data),
        ]
        with m.If(taken):
            m.d.sync += inside.eq(~rows.payload.last)
            with m.If(inside):
                m.d.sync += [
                    row.eq(Mux(last_row, 0, row + 1)),
                    header.block.eq(header.block + last_row),
                ]
            with m.Else():
                m.d.sync += [header.as_value().eq(rows.payload.data[: RowsHeader.size]), row.eq(0)]

    def _memory_blocks(self) -> dict[Any, int]:
        """Return the blocks of each memory that the host writes."""
        of_weights = (HostMemory.WEIGHTS, HostMemory.MEANS, HostMemory.SQUARES)
        return {
            HostMemory.ACTIVATIONS: self.sizes.activation_blocks,
            HostMemory.DELTAS: self.sizes.delta_blocks,
            **dict.fromkeys(of_weights, self.sizes.weight_blocks),
        }

    def _weights_out(self, m: Module, accelerator: Any, registers: Any) -> None:
        """Send the rows of a block of weights, one after another."""
        reads, rows, sent = accelerator.reads, accelerator.rows, self.m_axis_weights
        wanted, row = Signal.like(registers.read_weights), Signal(range(self.sizes.side))
        arrived = Signal(range(self.sizes.side))
        last = self.sizes.side - 1
        m.d.comb += [
            reads.valid.eq(wanted.read),
            reads.payload.owner.eq(wanted.network),
            reads.payload.block.eq(wanted.block),
            reads.payload.row.eq(row),
            sent.valid.eq(rows.valid),
            rows.ready.eq(sent.ready),
            sent.payload.data.eq(rows.payload.as_value()),
            sent.payload.last.eq(arrived == last),
        ]
        with m.If(registers.read_weights.read & ~wanted.read):
            m.d.sync += [wanted.eq(registers.read_weights), row.eq(0)]
        with m.If(reads.valid & reads.ready):
            m.d.sync += [row.eq(row + 1), wanted.read.eq(row != last)]
        with m.If(rows.valid & rows.ready):
            m.d.sync += arrived.eq(Mux(arrived == last, 0, arrived + 1))


def sizes_for(*programs: NetworkProgram, **options: Any) -> AcceleratorSizes:
    """Return the sizes of an accelerator that holds these networks.

    Args:
        programs: of networks with the same side.
        options: other attributes of `AcceleratorSizes`, such as `relu`.
    """
    whole = programs[0].side if options.get("clips") else 1
    depth = max(  # most vectors of a stationary pass
        whole * blocks(size + 1, whole) for p in programs for size in (*p.sizes, p.streamed)
    )
    stated: dict[str, Any] = {**memory_blocks(programs), "accumulator_depth": depth, **options}
    return AcceleratorSizes(side=programs[0].side, **stated)


def accelerator_for(
    network: str, *, side: int, batch: int, relu: bool = False, clips: bool = False
) -> PpoAcceleratorTop:
    """Return an accelerator for a benchmark's policy and value network (PPO 5.1).

    Args:
        network: "hopper" or "humanoid".
        relu: whether the activation function is ReLU; otherwise tanh.
        clips: whether it clips gradients by their norm.
    """
    programs = programs_for(network, side=side, batch=batch)
    sizes = sizes_for(*programs, relu=relu, clips=clips)
    return PpoAcceleratorTop(sizes, [replace(program, clips=clips) for program in programs])
