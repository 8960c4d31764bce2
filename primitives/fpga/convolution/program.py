"""The convolutional accelerator's program for a network: where tensors and weights lie, and the steps of its passes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from placerl.primitives.fpga.convolution.layer_shape import LayerShape, connected
from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles.convolution import Band, bands, transform_cycles
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.gemm.plan import GemmShape, blocks, command_fields

KINDS = ("OUTPUT", "ACTIVATE", "DERIVE", "ACCUMULATE", "APPLY")
ONES_LINE = 0
"""The line of the tensors of which the first number is 1 and the others 0: what biases are multiplied by."""
NOWHERE = {"first": 0, "columns": 1, "rows": 1, "column_step": 0, "row_step": 0, "image_step": 0}
"""The `step.Places` of a product whose rows go to no tensor."""
UNUSED = (
    "base_a",
    "pitch_a",
    "base_b",
    "pitch_b",
    "tap_rows",
    "tap_shift",
    "activations",
    "base_gradient",
    "first",
    "last",
)
"""The fields of a `step.ProductStep` that are 0 in the kinds that do not use them."""
LARGEST_SHIFT = 15
"""The `tap_shift` of a kernel of one tap: no row of blocks is of a second one."""
GRADIENT_DATAFLOW = "NS"
"""The dataflow of the gradients of weights, whose inner dimension is the longest: their sums stay in the array."""


@dataclass(frozen=True)
class BandTransform:
    """A step of the layout transformation.

    Attributes:
        moves: its lines, of which `reads` are read from the tensors.
        after: products of the run that are done before.
        fields: the fields of a `step.TransformStep`.
    """

    moves: int
    reads: int
    after: int
    fields: dict[str, Any]


@dataclass(frozen=True)
class BandProduct:
    """A product of a band, and the moves of its rows.

    Attributes:
        kind: the name of a `step.ProductKind`.
        shape, dataflow: sizes and dataflow of the product; None: there is none (APPLY).
        lines: lines that move.
        after: transformations of the run that are done before.
        fields: the fields of a `step.ProductStep`.
    """

    kind: str
    shape: GemmShape | None
    dataflow: str
    lines: int
    after: int
    fields: dict[str, Any]


@dataclass
class ImageRun:
    """The steps of a pass, in order.

    Attributes:
        transforms, products: the steps of the two queues.
        ends: number of products after each band.
    """

    transforms: list[BandTransform] = field(default_factory=list)
    products: list[BandProduct] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def free(self, barrier: int) -> int:
        """Return the products that must be done before the next band's part of the memories is filled.

        Args:
            barrier: those that must be done because they write the tensor.
        """
        return max(barrier, self.ends[-2]) if len(self.ends) > 1 else barrier


@dataclass(frozen=True)
class ImageProgram:
    """A network's places in the memories, and its steps.

    Attributes:
        layers: sizes of its layers; fully connected ones are convolutions of 1 x 1 maps.
        batch: M, samples.
        side: P, rows and columns of the array.
        window_blocks, delta_blocks: blocks of the memories of windows and of deltas; a band has half of each.
        dataflows: "NS", "WS" or "IS" for the processes FW and BW (PPO 4: one dataflow for all layers).
        accumulator_depth: most vectors that stream in a pass of WS or IS.

    Raises:
        ValueError: the layers do not fit each other, or a row of windows does not fit the memories.
    """

    layers: tuple[GemmLayer, ...]
    batch: int
    side: int
    window_blocks: int
    delta_blocks: int
    dataflows: tuple[str, str] = ("NS", "NS")
    accumulator_depth: int = 1024

    @cached_property
    def shapes(self) -> tuple[LayerShape, ...]:
        return connected(self.layers, self.side)

    def weight_base(self, layer: int) -> int:
        """Return the first block of W_l; that of L + 1 is the number of blocks of all weights."""
        return sum(shape.weight_rows * shape.out_lines for shape in self.shapes[: layer - 1])

    @property
    def weight_blocks(self) -> int:
        return self.weight_base(len(self.layers) + 1)

    def activation_line(self, layer: int) -> int:
        """Return the first line of a_l; a_0 are the observations."""
        return ONES_LINE + 1 + self.batch * sum(map(_in_lines, self.shapes[:layer]))

    def delta_line(self, layer: int) -> int:
        """Return the first line of d_l; that of L + 1 is the number of lines of all tensors."""
        first = self.activation_line(len(self.layers))
        return first + self.batch * sum(map(self._delta_lines, range(1, layer)))

    @property
    def tensor_lines(self) -> int:
        return self.delta_line(len(self.layers) + 1)

    @property
    def result_blocks(self) -> int:
        """Blocks of the largest product."""
        products = [*self.forward().products, *self.training().products]
        return max(
            blocks(one.shape.a, self.side) * blocks(one.shape.c, self.side) for one in products if one.shape
        )

    def dilation(self, layer: int) -> int:
        """Return by how much d_l is dilated: by the stride, which BW needs, and the first layer has none."""
        return self.shapes[layer - 1].stride if layer > 1 else 1

    def delta_size(self, layer: int) -> tuple[int, int]:
        """Return the rows and columns of pixels of d_l as stored."""
        shape = self.shapes[layer - 1]
        return shape.dilated_size if layer > 1 else shape.layer.out_size

    def forward(self) -> ImageRun:
        """Return the steps of the forward pass."""
        run = ImageRun()
        for layer, shape in enumerate(self.shapes, 1):
            convolution, barrier = shape.forward(self.batch), len(run.products)
            last = layer == len(self.shapes)
            for band in self._bands(convolution, shape.weight_rows, "FW"):
                base = self._windows(run, layer, convolution, band, barrier)
                to = self._places(band, self.activation_line(layer), convolution.out_size, 1, shape.out_lines)
                self._product(
                    run,
                    "OUTPUT" if last else "ACTIVATE",
                    GemmShape(band.windows, self._inner(shape), shape.out_lines * self.side),
                    base_a=base,
                    pitch_a=shape.weight_rows,
                    base_b=self.weight_base(layer),
                    pitch_b=shape.out_lines,
                    to=to,
                )
        return run

    def training(self) -> ImageRun:
        """Return the steps that follow once d_L is there: per layer from the last, its BW and WU, then Adam.

        The last product, Adam's, is a run of its own if gradients are clipped.
        """
        run = ImageRun()
        for layer in range(len(self.shapes), 0, -1):
            barrier = len(run.products)
            if layer > 1:
                self._backward(run, layer, barrier)
            self._gradient(run, layer, barrier)
        size = self.weight_blocks * self.side
        fields = self._fields("APPLY", None, "NS", size, lines=1, after=0)
        run.products.append(BandProduct("APPLY", None, "NS", size, 0, fields))
        return run

    def _backward(self, run: ImageRun, layer: int, barrier: int) -> None:
        shape, before = self.shapes[layer - 1], self.shapes[layer - 2]
        convolution, dilation = shape.backward(self.batch), self.dilation(layer - 1)
        size = shape.layer.in_size
        if dilation > 1 and size != before.layer.out_size:
            raise ValueError(f"stride: found {dilation} before a layer of other maps; allowed: 1")
        stored = self.delta_size(layer - 1) if size == before.layer.out_size else size
        pitch = shape.taps * shape.out_lines
        for band in self._bands(convolution, pitch, "BW"):
            base = self._half(run, self.window_blocks)
            command = _command(convolution, band)
            moves = transform_cycles(convolution, band, side=1)
            self._transform(run, moves, command, self.delta_line(layer), barrier, base=base, pitch=pitch)
            pixel = self._pixel(band, size)
            self._product(
                run,
                "DERIVE",
                GemmShape(band.windows, pitch * self.side, shape.in_lines * self.side),
                base_a=base,
                pitch_a=pitch,
                base_b=self.weight_base(layer) + (shape.taps - 1) * shape.in_lines * shape.out_lines,
                pitch_b=shape.out_lines,
                tap_rows=shape.in_lines,
                tap_shift=LARGEST_SHIFT if shape.taps == 1 else shape.out_lines.bit_length() - 1,
                to=self._places(band, self.delta_line(layer - 1), stored, dilation, shape.in_lines),
                activations=self.activation_line(layer - 1) + pixel * shape.in_lines,
            )

    def _gradient(self, run: ImageRun, layer: int, barrier: int) -> None:
        shape = self.shapes[layer - 1]
        convolution = shape.forward(self.batch)
        deltas = Convolution(
            shape.out_lines, *self.delta_size(layer), (1, 1), self.dilation(layer), 0, self.batch
        )
        most = self.delta_blocks // 2 // shape.out_lines * self.side
        found = list(self._bands(convolution, shape.weight_rows, "WU", most))
        for number, band in enumerate(found):
            at_deltas = self._half(run, self.delta_blocks)
            base = self._windows(run, layer, convolution, band, barrier)
            command = _command(deltas, band)
            moves = band.windows * shape.out_lines
            places = {"base": at_deltas, "pitch": shape.out_lines, "to_deltas": 1}
            self._transform(run, moves, command, self.delta_line(layer), barrier, **places)
            self._product(
                run,
                "ACCUMULATE",
                GemmShape(self._inner(shape), band.windows, shape.out_lines * self.side),
                base_a=base,
                pitch_a=shape.weight_rows,
                base_b=at_deltas,
                pitch_b=shape.out_lines,
                base_gradient=self.weight_base(layer),
                first=int(number == 0),
                last=int(number == len(found) - 1),
            )

    def _bands(
        self, convolution: Convolution, pitch: int, process: str, most: int | None = None
    ) -> Iterator[Band]:
        """Yield the bands of a convolution that fit half of the memories, and in IS the accumulators."""
        windows = self.window_blocks // 2 // pitch * self.side
        if most is not None:
            windows = min(windows, most)
        elif self._dataflow(process) == "IS":
            windows = min(windows, self.accumulator_depth)
        return bands(convolution, windows=windows)

    def _windows(self, run: ImageRun, layer: int, convolution: Convolution, band: Band, barrier: int) -> int:
        """Add the transformation of a band of a layer's inputs and of its ones; returns its first block."""
        base, pitch = self._half(run, self.window_blocks), self.shapes[layer - 1].weight_rows
        command = _command(convolution, band)
        ones = dict.fromkeys(command, 0) | {
            "images": band.images,
            "out_rows": band.rows,
            "out_columns": convolution.out_size[1],
            "kernel_rows": 1,
            "height": 1,
            "run": 1,
            "row_words": 1,
        }
        first = self.activation_line(layer - 1)
        moves = transform_cycles(convolution, band, side=1)
        self._transform(run, moves, command, first, barrier, base=base, pitch=pitch)
        self._transform(run, band.windows, ones, ONES_LINE, barrier, base=base + pitch - 1, pitch=pitch)
        return base

    def _transform(
        self, run: ImageRun, moves: int, command: dict[str, int], first: int, barrier: int, **fields: int
    ) -> None:
        windows = command | {"source": command["source"] + first}
        after = run.free(barrier)
        stated = {"to_deltas": 0, **fields, "windows": windows, "after": after}
        reads = 0 if first == ONES_LINE else moves
        run.transforms.append(BandTransform(moves, reads, after, stated))

    def _product(self, run: ImageRun, kind: str, shape: GemmShape, **fields: Any) -> None:
        dataflow = GRADIENT_DATAFLOW
        if kind != "ACCUMULATE":
            dataflow = self._dataflow("BW" if kind == "DERIVE" else "FW")
        lines, after = blocks(shape.c, self.side), len(run.transforms)
        stated = self._fields(kind, shape, dataflow, shape.a, lines, after, **fields)
        run.products.append(BandProduct(kind, shape, dataflow, shape.a * lines, after, stated))
        run.ends.append(len(run.products))

    def _fields(
        self,
        kind: str,
        shape: GemmShape | None,
        dataflow: str,
        size: int,
        lines: int,
        after: int,
        **fields: Any,
    ) -> dict[str, Any]:
        """Return the fields of a `step.ProductStep`, of which `fields` are those that only some kinds use."""
        gemm = shape or GemmShape(1, 1, 1)
        return {
            **dict.fromkeys(UNUSED, 0),
            "kind": KINDS.index(kind),
            "gemm": command_fields(gemm, side=self.side, dataflow=dataflow),
            "size": size,
            "row_lines": lines,
            "to": NOWHERE,
            "after": after,
            **fields,
        }

    def _places(
        self, band: Band, first: int, size: tuple[int, int], dilation: int, lines: int
    ) -> dict[str, int]:
        """Return the lines of a band's pixels in a tensor of rows and columns of pixels as stored."""
        rows, columns = size
        image, row = rows * columns * lines, dilation * columns * lines
        return {
            "first": first + band.first_image * image + band.first_row * row,
            "columns": -(-columns // dilation),
            "rows": band.rows,
            "column_step": dilation * lines,
            "row_step": row,
            "image_step": image,
        }

    def _pixel(self, band: Band, size: tuple[int, int]) -> int:
        """Return the number of a band's first pixel."""
        return (band.first_image * size[0] + band.first_row) * size[1]

    def _half(self, run: ImageRun, memory: int) -> int:
        """Return the first block of the part of a memory that the next band takes."""
        return memory // 2 * (len(run.ends) % 2)

    def _inner(self, shape: LayerShape) -> int:
        return shape.taps * shape.in_lines * self.side + 1

    def _dataflow(self, process: str) -> str:
        return self.dataflows[("FW", "BW").index(process)]

    def _delta_lines(self, layer: int) -> int:
        rows, columns = self.delta_size(layer)
        return rows * columns * self.shapes[layer - 1].out_lines


def _in_lines(shape: LayerShape) -> int:
    return shape.in_lines * shape.layer.in_size[0] * shape.layer.in_size[1]


def _command(convolution: Convolution, band: Band) -> dict[str, int]:
    return convolution.command(
        first_image=band.first_image, first_row=band.first_row, rows=band.rows, images=band.images
    )
