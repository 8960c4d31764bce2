"""The layout transformation module, which generates a tensor's addresses in the order of its Toeplitz matrix.

This is im2col in hardware (PPO 3.2.1). The tensor is stored row by row, with the channels of a pixel next to each
other, as the core's products leave it. The Toeplitz matrix has a row for each window of the convolution, and a column
for each position in the kernel and channel. The numbers that one row of the kernel covers are therefore consecutive
words, a run, both in the tensor's memory and in the matrix. The module moves P words of a run per cycle.

"""

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

SIZE_BITS = 12  # of a side, a stride, a count of images
WORD_BITS = 16  # of a run, a row or a column of the matrix
ADDRESS_BITS = 28
_address = signed(ADDRESS_BITS)
_side = signed(SIZE_BITS + 2)

# The description of a band of a convolution; lengths in words. The fields are those of `Convolution.command`.
WindowCommand = data.StructLayout(
    {
        "images": SIZE_BITS,
        "out_rows": SIZE_BITS,
        "out_columns": SIZE_BITS,
        "kernel_rows": SIZE_BITS,
        "height": SIZE_BITS,  # rows of the tensor
        "stride": SIZE_BITS,
        "top": _side,  # the tensor's row at which the first window begins; negative in the padding
        "left": _address,  # the word of its row at which it begins
        "source": _address,  # the address there
        "run": WORD_BITS,  # words of a window's row
        "row_words": ADDRESS_BITS,  # from row to row of the tensor
        "column_step": ADDRESS_BITS,  # from window to window
        "band_step": ADDRESS_BITS,  # from a row of windows to the next
        "image_step": ADDRESS_BITS,
    }
)


@dataclass(frozen=True)
class Convolution:
    """The sizes of a convolution: images of (height, width, channels), over which a kernel moves.

    Attributes:
        channels, height, width: sizes of an image.
        kernel: (rows, columns).
        stride: pixels from window to window, in both directions.
        padding: pixels of zeros on each of the four sides.
        images: number of images.
    """

    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: int = 1
    padding: int = 0
    images: int = 1

    def __post_init__(self) -> None:
        limit = 1 << SIZE_BITS
        values = (self.channels, self.height, self.width, *self.kernel, self.stride, self.images)
        if not all(1 <= value < limit for value in values) or not 0 <= self.padding < limit:
            raise ValueError(f"convolution: found {self}; allowed: sizes from 1 to {limit - 1}")
        if min(self.out_size) < 1:
            raise ValueError(f"kernel: found {self.kernel}; allowed: one that fits the padded image")
        if self.matrix_size[1] >= 1 << WORD_BITS or self.words >= 1 << (ADDRESS_BITS - 1):
            raise ValueError(f"convolution: found {self}; allowed: windows below {1 << WORD_BITS} words")

    @property
    def out_size(self) -> tuple[int, int]:
        rows, columns = self.height + 2 * self.padding, self.width + 2 * self.padding
        return (rows - self.kernel[0]) // self.stride + 1, (columns - self.kernel[1]) // self.stride + 1

    @property
    def matrix_size(self) -> tuple[int, int]:
        """Return the size of the Toeplitz matrix: (rows, which are windows; columns)."""
        windows = self.images * self.out_size[0] * self.out_size[1]
        return windows, self.kernel[0] * self.run

    @property
    def run(self) -> int:
        """Number of words in one row of a window: the kernel's columns times the channels."""
        return self.kernel[1] * self.channels

    @property
    def words(self) -> int:
        """Number of words of the tensor, which holds all images."""
        return self.images * self.height * self.width * self.channels

    def command(
        self, *, first_image: int = 0, first_row: int = 0, rows: int = 0, images: int = 0
    ) -> dict[str, int]:
        """Return the fields of the `WindowCommand` for a band.

        A band is the part of a convolution that is transformed at once: some rows of windows, of some images.

        Args:
            first_image, first_row: start of the band.
            rows: number of rows of windows; 0: all from `first_row` on.
            images: number of images; 0: all from `first_image` on.
        """
        row_words, top = self.width * self.channels, first_row * self.stride - self.padding
        left = -self.padding * self.channels
        image_step = self.height * row_words
        return {
            "images": images or self.images - first_image,
            "out_rows": rows or self.out_size[0] - first_row,
            "out_columns": self.out_size[1],
            "kernel_rows": self.kernel[0],
            "height": self.height,
            "stride": self.stride,
            "top": top,
            "left": left,
            "source": first_image * image_step + top * row_words + left,
            "run": self.run,
            "row_words": row_words,
            "column_step": self.stride * self.channels,
            "band_step": self.stride * row_words,
            "image_step": image_step,
        }


@dataclass(frozen=True)
class _Place:
    """The registers of the current move. Each of its outputs is at most one addition or comparison away from them.

    Attributes:
        run_left: words of the run from the move's first on.
        run_ends: whether the move is the run's last, because no more than P are left.
        source: address of its first word.
        tensor_row: row of the tensor from which it takes words; outside the tensor in the padding.
        word: position of its first word in that row; negative in the padding.
        behind: words from there to the end of the row; negative behind it.
    """

    run_left: Signal
    run_ends: Signal
    source: Signal
    tensor_row: Signal
    word: Signal
    behind: Signal


class LayoutTransform(wiring.Component):
    """Generates the moves of words from a tensor to its Toeplitz matrix, for one band after another.

    The first move is ready in the cycle after the command was taken, followed by one per cycle while `moves` is
    ready. The next command is taken one cycle after the last move.

    Args:
        lanes: P, the words that a move may have.

    Ports:
        commands: In(stream of WindowCommand): bands, which are some rows of windows of some images each.
        moves: Out(stream): `count` words from address `source` of the tensor go to `row` of the matrix, from `column`
            on. Lanes from `low` to below `high` carry the tensor's words, the other lanes carry zeros. `last` marks
            the last move of the band.
    """

    def __init__(self, *, lanes: int = 16):
        if lanes < 1:
            raise ValueError(f"lanes: found {lanes}; allowed: 1 or more")
        self.lanes = lanes
        lane = range(lanes + 1)
        move = {"source": _address, "count": lane, "low": lane, "high": lane, "row": WORD_BITS}
        super().__init__(
            {
                "commands": In(stream.Signature(WindowCommand)),
                "moves": Out(stream.Signature(data.StructLayout({**move, "column": WORD_BITS, "last": 1}))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        c = Signal(WindowCommand)
        running = Signal()
        row, column = Signal(WORD_BITS), Signal(WORD_BITS)
        at = _Place(
            run_left=Signal(WORD_BITS),
            run_ends=Signal(),
            source=Signal(_address),
            tensor_row=Signal(_side),
            word=Signal(_address),
            behind=Signal(_address),
        )
        # Counters of the turns that are left, innermost first: the kernel's row, the window's column, row and image.
        lefts = [Signal(SIZE_BITS, name=f"{n}s_left") for n in ("kernel_row", "column", "row", "image")]
        limits = [c.kernel_rows, c.out_columns, c.out_rows, c.images]
        # The address at which each counter's current turn began: of the run, window, row of windows and image.
        bases = [Signal(_address, name=f"{n}_base") for n in ("run", "window", "band", "image")]
        steps = [c.row_words, c.column_step, c.band_step, c.image_step]
        # Of the window in the tensor: its row, its word of that row, and the words from there to the row's end. Of
        # the first window of a row of windows, the last is in `first_behind`.
        top, left, behind = Signal(_side), Signal(_address), Signal(_address)
        first_behind = Signal(_address)

        carry: Any = at.run_ends
        wraps = []
        for counter in lefts:
            carry = carry & (counter == 0)
            wraps.append(carry)
        self._offer(m, c, running, at)
        payload = self.moves.payload
        m.d.comb += [payload.row.eq(row), payload.column.eq(column), payload.last.eq(wraps[-1])]
        m.d.comb += self.commands.ready.eq(~running)

        with m.If(running & self.moves.ready):
            m.d.sync += column.eq(column + payload.count)
            for turn, counter, limit, wrap in zip(
                [at.run_ends, *wraps[:-1]], lefts, limits, wraps, strict=True
            ):
                with m.If(turn):
                    m.d.sync += counter.eq(Mux(wrap, limit, counter) - 1)
            # The next move of the run, or the first of the next run of the window, or of the next window.
            with m.If(~at.run_ends):
                m.d.sync += [
                    at.run_left.eq(at.run_left - self.lanes),
                    at.run_ends.eq(at.run_left <= 2 * self.lanes),
                    at.source.eq(at.source + self.lanes),
                    at.word.eq(at.word + self.lanes),
                    at.behind.eq(at.behind - self.lanes),
                ]
            with m.Else():
                m.d.sync += [
                    at.run_left.eq(c.run),
                    at.run_ends.eq(c.run <= self.lanes),
                    at.tensor_row.eq(at.tensor_row + 1),
                    at.word.eq(left),
                    at.behind.eq(behind),
                ]
            with m.If(wraps[0]):
                m.d.sync += [column.eq(0), row.eq(row + 1), at.tensor_row.eq(top)]
                m.d.sync += [register.eq(left + c.column_step) for register in (left, at.word)]
                m.d.sync += [register.eq(behind - c.column_step) for register in (behind, at.behind)]
            with m.If(wraps[1]):
                m.d.sync += [register.eq(c.left) for register in (left, at.word)]
                m.d.sync += [register.eq(first_behind) for register in (behind, at.behind)]
                m.d.sync += [register.eq(top + c.stride) for register in (top, at.tensor_row)]
            with m.If(wraps[2]):
                m.d.sync += [register.eq(c.top) for register in (top, at.tensor_row)]
            with m.If(wraps[3]):
                m.d.sync += running.eq(0)
            # The outermost counter that advances also sets the base addresses of the inner ones.
            for depth, turn in enumerate([at.run_ends, *wraps[:-1]]):
                with m.If(turn):
                    m.d.sync += [
                        base.eq(bases[depth] + steps[depth]) for base in (at.source, *bases[: depth + 1])
                    ]

        incoming = self.commands.payload
        with m.If(self.commands.valid & self.commands.ready):
            m.d.sync += [c.eq(incoming), running.eq(1), row.eq(0), column.eq(0)]
            m.d.sync += [register.eq(incoming.top) for register in (top, at.tensor_row)]
            m.d.sync += [register.eq(incoming.left) for register in (left, at.word)]
            words_behind = incoming.row_words - incoming.left
            m.d.sync += [register.eq(words_behind) for register in (first_behind, behind, at.behind)]
            m.d.sync += [register.eq(incoming.source) for register in (at.source, *bases)]
            m.d.sync += [at.run_left.eq(incoming.run), at.run_ends.eq(incoming.run <= self.lanes)]
            counts = (incoming.kernel_rows, incoming.out_columns, incoming.out_rows, incoming.images)
            m.d.sync += [counter.eq(count - 1) for counter, count in zip(lefts, counts, strict=True)]
        return m

    def _offer(self, m: Module, c: Any, running: Signal, at: _Place) -> None:
        """Compute the move of this cycle: its address, its words, and which of them are in the tensor."""
        payload, lanes = self.moves.payload, self.lanes
        inside = (at.tensor_row >= 0) & (at.tensor_row < c.height)
        high = Mux(at.behind < 0, 0, Mux(at.behind > lanes, lanes, at.behind))
        m.d.comb += [
            self.moves.valid.eq(running),
            payload.source.eq(at.source),
            payload.count.eq(Mux(at.run_ends, at.run_left, lanes)),
            payload.low.eq(Mux(at.word >= 0, 0, Mux(at.word < -lanes, lanes, -at.word))),
            payload.high.eq(Mux(inside, high, 0)),
        ]
