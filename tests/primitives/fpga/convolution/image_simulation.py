"""The host of a simulated convolutional accelerator: loads a network and its program, runs it, and reads weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.compute_unit.matrix_rows import row_places
from placerl.primitives.fpga.convolution.accelerator import ConvolutionalAccelerator, ImageMemory, ImageSizes
from placerl.primitives.fpga.convolution.program import ONES_LINE, ImageProgram
from placerl.primitives.fpga.host import float_word
from placerl.primitives.fpga.learner_pipeline.update_unit import corrections
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import clip_scale
from placerl.primitives.fpga.simulation.ports import columns
from tests.primitives.fpga.convolution.image_golden import padded_lines
from tests.primitives.fpga.gemm.float_golden import Floats, floats
from tests.primitives.fpga.interpreter import Start
from tests.primitives.fpga.ppo_accelerator.simulation import row_items


def sizes_for(*programs: ImageProgram, **options: Any) -> ImageSizes:
    """Return the sizes of an accelerator for programs, with the same memories of windows and deltas.

    Args:
        options: other fields of `ImageSizes`.
    """
    runs = [(one.forward(), one.training()) for one in programs]
    first = programs[0]
    return ImageSizes(
        side=first.side,
        tensor_lines=max(one.tensor_lines for one in programs),
        window_blocks=first.window_blocks,
        delta_blocks=first.delta_blocks,
        weight_blocks=max(one.weight_blocks for one in programs),
        result_blocks=max(one.result_blocks for one in programs),
        transforms=max(sum(len(run.transforms) for run in pair) for pair in runs),
        products=max(sum(len(run.products) for run in pair) for pair in runs),
        accumulator_depth=first.accumulator_depth,
        **options,
    )


class SimulatedImages:
    """A simulated accelerator, and the host that uses it.

    Args:
        start: starts a simulation of a design.
    """

    def __init__(self, sizes: ImageSizes, *, start: Start = simulation.compiled):
        self.sizes = sizes
        self.simulation = start(ConvolutionalAccelerator(sizes))

    def load(self, program: ImageProgram, weights: Sequence[Floats]) -> None:
        """Load a network's steps and weights; moments, and the zeros between dilated gradients, are those of a reset.

        Args:
            weights: W_1 to W_L as stored.
        """
        self.program, self._runs = program, (program.forward(), program.training())
        for queue in ("transforms", "products"):
            steps = [step.fields for run in self._runs for step in getattr(run, queue)]
            items = [{"index": index, "step": step} for index, step in enumerate(steps)]
            self.simulation.run({queue: columns(items)}, {})
        for layer, matrix in enumerate(weights, 1):
            self._write(ImageMemory.WEIGHTS, row_items(matrix, program.side, program.weight_base(layer)))
        self._lines(ONES_LINE, np.eye(1, program.side, dtype=np.float32))

    def forward(self, images: Floats) -> tuple[Floats, int]:
        """Run the forward pass of observations, (M, H, W, C).

        Returns:
            Z_L, (M, outputs filled up), and the cycles.
        """
        side = self.program.side
        self._lines(self.program.activation_line(0), padded_lines(images, side).reshape(-1, side))
        count = self.program.batch * self.program.shapes[-1].out_lines
        outputs = self._run(0, {"outputs": count})
        return floats(outputs["outputs"]).reshape(self.program.batch, -1), int(outputs["finished"][0])

    def train(
        self, deltas: Floats, *, learning_rate: float, step: int, clip: float | None = None
    ) -> tuple[int, list[float]]:
        """Run the backward pass and Adam's step; returns the cycles, and the partial sums of the gradients' squares.

        Args:
            deltas: d_L, (M, outputs filled up): the gradient of the loss, which the host computes.
            step: the number of the update, from 1 on.
            clip: the norm that gradients are clipped to, which then are the first of two runs.
        """
        for name, value in zip(("rate", "root"), corrections(learning_rate, step), strict=True):
            self.simulation.write(name, float_word(value))
        line = self.program.delta_line(len(self.program.shapes))
        self._lines(line, deltas.reshape(-1, self.program.side))
        if clip is None:
            return int(self._run(1, {})["finished"][0]), []
        cycles = int(self._run(1, {}, slice(-1))["finished"][0])
        parts = floats(self.simulation.read("parts")).tolist()
        self.simulation.write("scale", float_word(clip_scale(parts, clip)))
        return cycles + int(self._run(1, {}, slice(-1, None))["finished"][0]), parts

    def weights(self) -> list[Floats]:
        """Return W_1 to W_L as stored, with whole blocks of the biases."""
        found, side = [], self.program.side
        for layer, shape in enumerate(self.program.shapes, 1):
            rows, base = shape.weight_rows * side, self.program.weight_base(layer)
            reads = row_places(rows, shape.out_lines, side=side, base=base)
            words = self.simulation.run({"reads": reads}, {"rows": rows * shape.out_lines}).outputs["rows"]
            found.append(floats(words).reshape(rows, -1))
        return found

    def _run(self, number: int, expected: dict[str, int], part: slice = slice(None)) -> dict[str, Any]:
        """Run a pass, or a part of its products; the last ones need no transformation."""
        before, steps = self._runs[:number], self._runs[number]
        first, end, _ = part.indices(len(steps.products))
        run = {
            "first_transform": sum(len(each.transforms) for each in before),
            "transforms": 0 if first else len(steps.transforms),
            "first_product": sum(len(each.products) for each in before) + first,
            "products": end - first,
        }
        return self.simulation.run({"runs": columns([run])}, {"finished": 1, **expected}).outputs

    def _lines(self, first: int, lines: Floats) -> None:
        places = {"block": first + np.arange(len(lines)), "row": np.zeros(len(lines), np.int64)}
        words = np.ascontiguousarray(lines, np.float32).view(np.uint32)
        self._write(ImageMemory.TENSORS, {**places, "words": words})

    def _write(self, memory: ImageMemory, items: dict[str, NDArray[Any]]) -> None:
        fixed = {"memory": np.full(len(items["row"]), memory.value)}
        self.simulation.run({"writes": {**fixed, **items}}, {})
