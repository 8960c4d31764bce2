"""The layout transformation module: addresses of a tensor in the order of its Toeplitz matrix (im2col; PPO 3.2.1).

The matrix has a column for each window of the convolution and a row for each channel and place in the kernel. The
module goes through it column by column, an address a cycle, so that a convolution is a matrix product on the core.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

SIZE_BITS = 12  # of a side, a count of channels, a stride
ADDRESS_BITS = 32

# What a convolution is to the module. `plane` is height x width; `row_step` is stride x width.
WindowCommand = data.StructLayout(
    {
        "channels": SIZE_BITS,
        "height": SIZE_BITS,
        "width": SIZE_BITS,
        "kernel_rows": SIZE_BITS,
        "kernel_columns": SIZE_BITS,
        "stride": SIZE_BITS,
        "padding": SIZE_BITS,
        "out_rows": SIZE_BITS,
        "out_columns": SIZE_BITS,
        "plane": ADDRESS_BITS,
        "row_step": ADDRESS_BITS,
    }
)

# From where in the tensor (external memory) to where in the matrix (on chip); `zero`: from the padding, not the tensor.
Move = data.StructLayout({"source": ADDRESS_BITS, "target": ADDRESS_BITS, "zero": 1, "last": 1})


@dataclass(frozen=True)
class Convolution:
    """A tensor (channels, height, width) and a kernel that is moved over it in steps of `stride`.

    Attributes:
        kernel: (rows, columns). padding: zeros on each of the four sides.
    """

    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: int = 1
    padding: int = 0

    def __post_init__(self) -> None:
        limit = 1 << SIZE_BITS
        values = (self.channels, self.height, self.width, *self.kernel, self.stride)
        if not all(1 <= value < limit for value in values) or not 0 <= self.padding < limit:
            raise ValueError(f"convolution: found {self}; allowed: sizes from 1 to {limit - 1}")
        if min(self.out_size) < 1:
            raise ValueError(f"kernel: found {self.kernel}; allowed: one that fits the padded tensor")

    @property
    def out_size(self) -> tuple[int, int]:
        rows, columns = self.height + 2 * self.padding, self.width + 2 * self.padding
        return (rows - self.kernel[0]) // self.stride + 1, (columns - self.kernel[1]) // self.stride + 1

    @property
    def matrix_size(self) -> tuple[int, int]:
        """Rows and columns of the Toeplitz matrix."""
        return self.channels * self.kernel[0] * self.kernel[1], self.out_size[0] * self.out_size[1]

    def command(self) -> dict[str, int]:
        """The fields of a `WindowCommand`."""
        return {
            "channels": self.channels,
            "height": self.height,
            "width": self.width,
            "kernel_rows": self.kernel[0],
            "kernel_columns": self.kernel[1],
            "stride": self.stride,
            "padding": self.padding,
            "out_rows": self.out_size[0],
            "out_columns": self.out_size[1],
            "plane": self.height * self.width,
            "row_step": self.stride * self.width,
        }


def moves_golden(convolution: Convolution) -> Iterator[tuple[int | None, int]]:
    """(source, target) of every element of the matrix, column by column; source is None in the padding."""
    c, target = convolution, 0
    for out_row in range(c.out_size[0]):
        for out_column in range(c.out_size[1]):
            for channel in range(c.channels):
                for i in range(c.kernel[0]):
                    for j in range(c.kernel[1]):
                        row = out_row * c.stride + i - c.padding
                        column = out_column * c.stride + j - c.padding
                        inside = 0 <= row < c.height and 0 <= column < c.width
                        yield ((channel * c.height + row) * c.width + column if inside else None), target
                        target += 1


class LayoutTransform(wiring.Component):
    """Generates the moves of one convolution after the other.

    The first move is there in the cycle after the command was taken, then one a cycle while `moves` is ready; the next
    command is taken a cycle after the last move.

    Ports:
        commands: In(stream of WindowCommand). moves: Out(stream of Move); `source` means nothing where `zero`.
    """

    def __init__(self) -> None:
        super().__init__(
            {"commands": In(stream.Signature(WindowCommand)), "moves": Out(stream.Signature(Move))}
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        c = Signal(WindowCommand)
        running = Signal()
        position = signed(ADDRESS_BITS + 1)
        side = signed(SIZE_BITS + 2)
        # Counters, innermost first: column and row in the kernel, channel, window column, window row.
        counters = [
            Signal(SIZE_BITS, name=n) for n in ("kernel_column", "kernel_row", "channel", "column", "row")
        ]
        limits = [c.kernel_columns, c.kernel_rows, c.channels, c.out_columns, c.out_rows]
        # The address at which each counter's current turn began: of the kernel row, channel, window and window row.
        row_base, channel_base, window_base, band_base = (
            Signal(position, name=n) for n in ("a", "b", "w", "r")
        )
        source = Signal(position)
        # Where the window lies in a padded plane, less the padding.
        top, left = Signal(side), Signal(side)
        target = Signal(ADDRESS_BITS)

        ends, wraps = [], []
        carry: Any = 1
        for counter, limit in zip(counters, limits, strict=True):
            at_end = counter == limit - 1
            wraps.append(carry & at_end)
            ends.append(carry)
            carry = carry & at_end
        finished = carry

        tensor_row, tensor_column = top + counters[1], left + counters[0]
        inside_rows = (tensor_row >= 0) & (tensor_row < c.height)
        inside_columns = (tensor_column >= 0) & (tensor_column < c.width)
        payload = self.moves.payload
        m.d.comb += [
            self.moves.valid.eq(running),
            payload.source.eq(source),
            payload.target.eq(target),
            payload.zero.eq(~(inside_rows & inside_columns)),
            payload.last.eq(finished),
            self.commands.ready.eq(~running),
        ]

        with m.If(running & self.moves.ready):
            m.d.sync += target.eq(target + 1)
            for counter, turn, wrap in zip(counters, ends, wraps, strict=True):
                with m.If(turn):
                    m.d.sync += counter.eq(counter + 1)
                with m.If(wrap):
                    m.d.sync += counter.eq(0)
            next_row, next_channel = row_base + c.width, channel_base + c.plane
            next_window, next_band = window_base + c.stride, band_base + c.row_step
            with m.If(wraps[3]):
                m.d.sync += [
                    base.eq(next_band) for base in (source, row_base, channel_base, window_base, band_base)
                ]
                m.d.sync += [top.eq(top + c.stride), left.eq(-c.padding)]
            with m.Elif(wraps[2]):
                m.d.sync += [base.eq(next_window) for base in (source, row_base, channel_base, window_base)]
                m.d.sync += left.eq(left + c.stride)
            with m.Elif(wraps[1]):
                m.d.sync += [base.eq(next_channel) for base in (source, row_base, channel_base)]
            with m.Elif(wraps[0]):
                m.d.sync += [base.eq(next_row) for base in (source, row_base)]
            with m.Else():
                m.d.sync += source.eq(source + 1)
            with m.If(finished):
                m.d.sync += running.eq(0)

        incoming = self.commands.payload
        with m.If(self.commands.valid & self.commands.ready):
            corner = Signal(position)
            m.d.comb += corner.eq(-(incoming.padding * incoming.width) - incoming.padding)
            m.d.sync += [
                c.eq(incoming),
                running.eq(1),
                target.eq(0),
                *(counter.eq(0) for counter in counters),
            ]
            m.d.sync += [base.eq(corner) for base in (source, row_base, channel_base, window_base, band_base)]
            m.d.sync += [top.eq(-incoming.padding), left.eq(-incoming.padding)]
        return m
