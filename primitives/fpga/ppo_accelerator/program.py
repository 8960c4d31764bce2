"""The accelerator's program for a network: where its matrices lie, and the steps of inference and of training."""

from dataclasses import dataclass
from typing import Any

from placerl.primitives.fpga.gemm.plan import GemmShape, blocks, command_fields

PROCESSES = ("FW", "BW", "WU")
KINDS = ("OUTPUT", "ACTIVATE", "DERIVE", "UPDATE")


@dataclass(frozen=True)
class LayerStep:
    """A step of the program, as sizes.

    Attributes:
        kind: the name of a `step.PpoStepKind`.
        layer: l, 1 for the first layer with weights.
        process: "FW", "BW" or "WU" (PPO 3.2).
        shape: sizes of the product.
        row_blocks, column_blocks: blocks of rows and columns that the step writes or sends.
        fields: the fields of a `step.Step`, integers by name; `gemm` is a dict of integers.
    """

    kind: str
    layer: int
    process: str
    shape: GemmShape
    row_blocks: int
    column_blocks: int
    fields: dict[str, Any]


@dataclass(frozen=True)
class NetworkProgram:
    """A network's places in the memories, and its steps.

    Attributes:
        sizes: numbers of neurons, n_0 (inputs) to n_L (outputs).
        batch: M, samples that one unit processes.
        side: P, rows and columns of the array.
        dataflows: "NS", "WS" or "IS" for the processes FW, BW and WU (PPO 4: one dataflow for all layers).
        clips: whether the gradients of weights are computed in whole blocks, so that the norm of all that moves is
            theirs: WS and IS leave numbers of an earlier product beyond what they stream.
    """

    sizes: tuple[int, ...]
    batch: int
    side: int
    dataflows: tuple[str, str, str] = ("NS", "NS", "NS")
    clips: bool = False

    @property
    def layers(self) -> range:
        """The numbers of the layers with weights, 1 to L."""
        return range(1, len(self.sizes))

    @property
    def batch_blocks(self) -> int:
        """Blocks that cover the samples."""
        return blocks(self.batch, self.side)

    @property
    def streamed(self) -> int:
        """The samples filled up to whole blocks."""
        return self.batch_blocks * self.side

    def dataflow(self, process: str) -> str:
        """Return the dataflow of a process, "FW", "BW" or "WU"."""
        return self.dataflows[PROCESSES.index(process)]

    def weight_size(self, layer: int) -> tuple[int, int]:
        """Return the blocks of W_l in rows and columns."""
        return blocks(self.sizes[layer], self.side), blocks(self.sizes[layer - 1] + 1, self.side)

    def weight_base(self, layer: int) -> int:
        """Return the first block of W_l; that of L + 1 is the number of blocks of all weights."""
        return sum(rows * columns for rows, columns in map(self.weight_size, range(1, layer)))

    def activation_base(self, layer: int) -> int:
        """Return the first block of a_l; a_0 are the inputs. That of L is the number of blocks of all activations."""
        return sum(blocks(size + 1, self.side) for size in self.sizes[:layer]) * self.batch_blocks

    def delta_base(self, layer: int) -> int:
        """Return the first block of d_l in the deltas; that of L + 1 is the number of blocks of all deltas."""
        return sum(blocks(size, self.side) for size in self.sizes[1:layer]) * self.batch_blocks

    @property
    def result_blocks(self) -> int:
        """Blocks of the largest product, or of the activations that are written from it."""
        return max(max(step.row_blocks * step.column_blocks for step in self.forward + self.training(0)), 1)

    @property
    def forward(self) -> tuple[LayerStep, ...]:
        """The steps of the forward pass."""
        steps = []
        for layer in self.layers:
            last = layer == len(self.sizes) - 1
            size, inputs = self.sizes[layer], self.sizes[layer - 1]
            step = self._step(
                "OUTPUT" if last else "ACTIVATE",
                layer,
                GemmShape(size, inputs + 1, self.batch),
                row_blocks=blocks(size + (not last), self.side),
                base_a=self.weight_base(layer),
                pitch_a=self.weight_size(layer)[1],
                base_b=self.activation_base(layer - 1),
                pitch_b=self.batch_blocks,
                base_to=0 if last else self.activation_base(layer),
                size=size,
            )
            steps.append(step)
        return tuple(steps)

    def training(self, delta_offset: int) -> tuple[LayerStep, ...]:
        """Return the steps that follow once d_L is there: per layer, from the last, its backward and weight steps.

        Args:
            delta_offset: the block of the activations' memory at which the deltas begin.
        """
        steps = []
        for layer in reversed(self.layers):
            size, inputs = self.sizes[layer], self.sizes[layer - 1]
            if layer > 1:
                # WS computes the columns that it streams, and d_{l-1} must be 0 beyond the samples: the row of ones of
                # a_{l-2} is not, and would add what an earlier product has left there to the gradient of the biases.
                whole = self.dataflow("BW") == "WS"
                back = self._step(
                    "DERIVE",
                    layer,
                    GemmShape(inputs, size, self.streamed if whole else self.batch),
                    row_blocks=blocks(inputs, self.side),
                    base_a=self.weight_base(layer),
                    pitch_a=self.weight_size(layer)[1],
                    base_b=delta_offset + self.delta_base(layer),
                    pitch_b=self.batch_blocks,
                    base_to=self.delta_base(layer - 1),
                    base_activation=self.activation_base(layer - 1),
                    size=inputs,
                )
                steps.append(back)
            gradient = self._step(
                "UPDATE",
                layer,
                self._gradient(size, inputs + 1),
                row_blocks=blocks(size, self.side),
                base_a=self.delta_base(layer),
                pitch_a=self.batch_blocks,
                base_b=self.activation_base(layer - 1),
                pitch_b=self.batch_blocks,
                base_to=self.weight_base(layer),
                size=size,
            )
            steps.append(gradient)
        return tuple(steps)

    def updates(self, delta_offset: int) -> tuple[LayerStep, ...]:
        """Return the weight steps of `training` alone, which apply gradients that were measured."""
        return tuple(step for step in self.training(delta_offset) if step.kind == "UPDATE")

    def _gradient(self, outputs: int, inputs: int) -> GemmShape:
        if not self.clips:
            return GemmShape(outputs, self.batch, inputs)
        rows, columns = (self.side * blocks(size, self.side) for size in (outputs, inputs))
        return GemmShape(rows, self.batch, columns)

    def _step(self, kind: str, layer: int, shape: GemmShape, *, row_blocks: int, **fields: int) -> LayerStep:
        process = {"DERIVE": "BW", "UPDATE": "WU"}.get(kind, "FW")
        dataflow = self.dataflow(process)
        columns = blocks(shape.c, self.side)
        stated = {
            "kind": KINDS.index(kind),
            "gemm": command_fields(shape, side=self.side, dataflow=dataflow),
            "base_activation": 0,
            "row_blocks": row_blocks,
            "column_blocks": columns,
            **fields,
        }
        return LayerStep(kind, layer, process, shape, row_blocks, columns, stated)
