"""Simulates convolutions on the compute unit: images go through the layout transformation, the result is read back.

    unit = SimulatedConvolution(side=16)
    outcome = unit.forward(images, kernels, stride=2, padding=1, dataflow="IS")
    outcome.result, outcome.cycles, outcome.product_cycles

Images are (N, H, W, C), kernels (rows, columns, C, outputs), all integers. A convolution is computed in bands, each
of which has some of the windows. Cycles count from the first band's command to the end of the last product; loading
the memories and reading the result back are not counted.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.matrix_rows import read_back, row_writes
from placerl.primitives.fpga.compute_unit.unit import compute_unit
from placerl.primitives.fpga.convolution.layout_transform import Convolution
from placerl.primitives.fpga.cycles.convolution import Band, bands
from placerl.primitives.fpga.gemm.plan import (
    Integers,
    blocks,
    check_streamed,
    checked_dataflow,
    checked_operand,
    command_fields,
    padded,
)
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.convolution.golden import dilated
from tests.primitives.fpga.convolution.unit import BANDS, ConvolutionUnit
from tests.primitives.fpga.cycles.convolution import band_shape
from tests.primitives.fpga.interpreter import Start


@dataclass(frozen=True)
class ConvolutionOutcome:
    """The result of a simulated convolution, or of a gradient of one, and its cycles.

    A convolution is computed in bands, each of which has some of the windows.

    Attributes:
        result: the result or gradient, with four dimensions, int64.
        cycles: clock cycles from the first band's command to the end of the last product.
        product_cycles: the core's clock cycles for the product of each band.
    """

    result: Integers
    cycles: int
    product_cycles: tuple[int, ...]


class SimulatedConvolution:
    """A simulated convolution unit.

    Args:
        tensor_words: words of the tensor's memory, a power of two.
        start: starts a simulation of a design.
        options: arguments of `compute_unit`, such as `width=16`, except `layout` and those of the datapath; `side`,
            the rows and columns of the array, a power of two, is required.
    """

    def __init__(
        self,
        *,
        tensor_words: int = 1 << 16,
        start: Start = simulation.compiled,
        **options: Any,
    ):
        unit = compute_unit(**options, block_load=True)
        self.core, self.tensor_words = unit.core, tensor_words
        self.unit = ConvolutionUnit(unit=unit, tensor_lines=tensor_words // self.core.side)
        self._simulation = start(self.unit)

    def windows(
        self, convolution: Convolution, outputs: int, dataflow: str, *, transposed: bool = False
    ) -> int:
        """Return the largest number of windows in a band for which the unit has room.

        The memory of A limits it, and in "IS" also the accumulators, because there the windows stream.

        Args:
            outputs: number of output channels.
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
            transposed: whether the Toeplitz matrix is read transposed, as for the gradient of the kernels.
        """
        side, unit = self.core.side, self.unit.unit
        pitch = blocks(convolution.matrix_size[1], side)
        block_rows = unit.operand_blocks // BANDS // pitch
        if dataflow == "IS" and not transposed:
            block_rows = min(block_rows, self.core.accumulator_depth // side)
        return block_rows * side

    def forward(
        self,
        images: NDArray[np.integer],
        kernels: NDArray[np.integer],
        *,
        stride: int = 1,
        padding: int = 0,
        dataflow: str = "NS",
        windows: int = 0,
    ) -> ConvolutionOutcome:
        """Compute a convolution, whose result is (N, out rows, out columns, outputs).

        Args:
            images: integers, (N, H, W, C).
            kernels: integers, (rows, columns, C, outputs).
            stride, padding: in pixels.
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
            windows: most windows of a band; 0: as many as fit.

        Raises:
            ValueError: operands, dataflow or sizes that the unit does not take.
        """
        convolution = _convolution(images, kernels, stride, padding)
        b = checked_operand("kernels", kernels.reshape(-1, kernels.shape[-1]), self.core.width)
        sums = self._run(images, convolution, b, dataflow, windows, transposed=False)
        shape = (convolution.images, *convolution.out_size, kernels.shape[-1])
        return ConvolutionOutcome(np.concatenate(sums[0]).reshape(shape), *sums[1:])

    def backward(
        self, gradients: NDArray[np.integer], kernels: NDArray[np.integer], *, stride: int = 1, **options: Any
    ) -> ConvolutionOutcome:
        """Compute the gradient of the images from the gradient of an unpadded convolution's result.

        This is a transposed convolution, with dilated gradients and rotated kernels (PPO 3.2).

        Args:
            gradients: integers, (N, out rows, out columns, outputs).
            kernels: integers, (side, side, C, outputs).
            stride: stride of the convolution whose gradient is computed, in pixels.
            options: `dataflow`, what stays in the array ("NS", "WS" or "IS"), and `windows`, the most windows of a
                band, which is a part of the convolution that is computed at once.
        """
        rows, columns = kernels.shape[:2]
        if rows != columns:
            raise ValueError(f"kernels: found {rows} x {columns}; allowed: square ones")
        turned = kernels[::-1, ::-1].transpose(0, 1, 3, 2)
        wide = dilated(gradients.astype(np.int64), stride)
        return self.forward(wide, np.ascontiguousarray(turned), padding=rows - 1, **options)

    def weight_gradient(
        self,
        images: NDArray[np.integer],
        gradients: NDArray[np.integer],
        *,
        kernel: tuple[int, int],
        stride: int = 1,
        padding: int = 0,
        dataflow: str = "NS",
        windows: int = 0,
    ) -> ConvolutionOutcome:
        """Compute the gradient of the kernels, (rows, columns, C, outputs), from that of a convolution's result.

        The Toeplitz matrix is read transposed for it (PPO 3.2). Every band gives a part of the gradient. The parts
        are added in Python here; in hardware the weight update would add them.

        Args:
            images: integers, (N, H, W, C), the inputs of the convolution.
            gradients: integers, (N, out rows, out columns, outputs).
            kernel: (rows, columns).
            stride, padding: of the convolution, in pixels.
            dataflow: what stays in the array: "NS" (only sums), "WS" (weights) or "IS" (inputs).
            windows: most windows of a band; 0: as many as fit.
        """
        outputs = gradients.shape[-1]
        empty = np.zeros((*kernel, images.shape[-1], outputs), np.int64)
        convolution = _convolution(images, empty, stride, padding)
        b = checked_operand("gradients", gradients.reshape(-1, outputs), self.core.width)
        sums = self._run(images, convolution, b, dataflow, windows, transposed=True)
        return ConvolutionOutcome(sum(sums[0]).reshape(empty.shape), *sums[1:])  # type: ignore[union-attr]

    def _run(
        self,
        images: NDArray[np.integer],
        convolution: Convolution,
        b: Integers,
        dataflow: str,
        windows: int,
        *,
        transposed: bool,
    ) -> tuple[list[Integers], int, tuple[int, ...]]:
        outputs = b.shape[1]
        room = self.windows(convolution, outputs, checked_dataflow(dataflow), transposed=transposed)
        found = list(bands(convolution, windows=min(windows or room, room)))
        commands, at = [], []
        base_b = base_c = 0
        for number, band in enumerate(found):
            command = self._command(convolution, band, outputs, dataflow, transposed=transposed)
            half = self.unit.unit.operand_blocks // BANDS * (number % BANDS)
            commands.append(command | {"base_a": half, "base_b": base_b, "base_c": base_c})
            at.append(base_c)
            base_c += int(command["gemm"]["a_blocks"]) * int(command["gemm"]["c_blocks"])
            if transposed:
                base_b += int(command["gemm"]["b_blocks"]) * int(command["gemm"]["c_blocks"])
        self._check(convolution, base_c)
        self._load(images, b, found, transposed=transposed)
        transforms = [
            {
                "windows": convolution.command(
                    first_image=band.first_image, first_row=band.first_row, rows=band.rows, images=band.images
                ),
                "base": command["base_a"],
                "pitch": command["pitch_a"],
            }
            for band, command in zip(found, commands, strict=True)
        ]
        items = [{"unit": command, "transformed": 1} for command in commands]
        run = self._simulation.run(
            {"transforms": columns(transforms), "commands": columns(items)}, {"finished": len(found)}
        )
        cycles = int(run.output_cycles["finished"][-1] - run.input_cycles["transforms"][0])
        shapes = [band_shape(convolution, band, outputs, transposed=transposed) for band in found]
        sums = [
            read_back(self._simulation, shape.a, outputs, self.core, base)[:, :, 0]
            for shape, base in zip(shapes, at, strict=True)
        ]
        return sums, cycles, tuple(int(n) for n in run.outputs["finished"]["cycles"])

    def _command(
        self, convolution: Convolution, band: Band, outputs: int, dataflow: str, *, transposed: bool
    ) -> dict[str, Any]:
        side = self.core.side
        shape = band_shape(convolution, band, outputs, transposed=transposed)
        check_streamed(shape, dataflow, self.core.accumulator_depth)
        return {
            "gemm": command_fields(shape, side=side, dataflow=dataflow),
            "pitch_a": blocks(convolution.matrix_size[1], side),
            "pitch_b": blocks(outputs, side),
            "transposed_a": int(transposed),
        }

    def _check(self, convolution: Convolution, result_blocks: int) -> None:
        unit = self.unit.unit
        for name, found, allowed in (
            ("result", result_blocks, unit.result_blocks),
            ("images", convolution.words, self.tensor_words),
        ):
            if found > allowed:
                unit_name = "words" if name == "images" else "blocks"
                raise ValueError(f"{name}: found {found} {unit_name}; allowed: {allowed}")

    def _load(self, images: NDArray[np.integer], b: Integers, found: list[Band], *, transposed: bool) -> None:
        side = self.core.side
        flat = checked_operand("images", images.reshape(1, -1), self.core.width)[0]
        lines = np.pad(flat, (0, -len(flat) % side)).reshape(-1, side)
        self._simulation.run({"tensor": {"line": np.arange(len(lines)), "words": lines}}, {})
        ends = np.cumsum([band.windows for band in found])[:-1]
        base = 0
        for part in np.split(b, ends) if transposed else [b]:
            matrix = padded(part, side)
            self._simulation.run({"writes": row_writes(matrix, self.core, to_b=True, base=base)}, {})
            base += matrix.size // side**2


def _convolution(
    images: NDArray[np.integer], kernels: NDArray[np.integer], stride: int, padding: int
) -> Convolution:
    if images.ndim != 4 or kernels.ndim != 4 or images.shape[3] != kernels.shape[2]:
        raise ValueError(
            f"images, kernels: found shapes {images.shape}, {kernels.shape}; allowed: (N, H, W, C), "
            "(rows, columns, C, outputs)"
        )
    n, height, width, channels = images.shape
    return Convolution(channels, height, width, kernels.shape[:2], stride, padding, n)
