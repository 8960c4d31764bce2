"""A gradient step on MAP's learner pipeline, as an executable: the cycles of the pipeline, and float32 numbers.

The cycles are those of `pipeline.gradient_step`, simulated once for each size. The numbers are the float32 reference's,
because the hardware's fixed point (`fpga.learner_pipeline.layer_shape.FORMAT`) has a datapath for a network with given
targets alone; the tests of `fpga.learner_pipeline` compare it with its golden model bit by bit.
"""

from collections.abc import Mapping

from primitives.algorithms import Algorithm
from primitives.fpga.devices import catalogue
from primitives.graph.executable import Array
from primitives.graph.graph import Graph
from primitives.graph.interpreter import ReferenceExecutable
from primitives.learner.fpga import pipeline


class PipelineExecutable(ReferenceExecutable):
    """Executes the step graph in float32, and counts the cycles of MAP's pipeline.

    Attributes:
        clock_hz: assumed clock frequency.
    """

    def __init__(
        self, graphs: Mapping[str, Graph], algorithm: Algorithm, *, batch_size: int, device: str
    ) -> None:
        """Check that the algorithm fits the device; the state starts at zero.

        Args:
            graphs: each variant's graph. Every variant takes the cycles of the full step, the only one of MAP's
                algorithms.
            algorithm: one without a `pipeline.refusal`.
            batch_size: transitions per gradient step.
            device: one of `catalogue.clocks_hz()`.

        Raises:
            ValueError: the pipeline does not run the algorithm, or does not fit the device.
        """
        self._arguments = algorithm, batch_size, catalogue.device(device)
        self.design = pipeline.best_design(*self._arguments)
        super().__init__(graphs)
        self.clock_hz = catalogue.clocks_hz()[device]
        self._steps = dict.fromkeys(graphs, 0)
        self._step_cycles: int | None = None

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step."""
        outputs = super().step(variant, inputs)
        self._steps[variant] += 1
        return outputs

    def step_cycles(self, variant: str) -> int:
        """Return the clock cycles of one gradient step, `simulated` at the first call; all variants take the same."""
        if self._step_cycles is None:
            self._step_cycles = pipeline.gradient_step(*self._arguments).cycles
        return self._step_cycles

    @property
    def cycles(self) -> int:
        """Clock cycles of all steps so far."""
        return sum(count * self.step_cycles(variant) for variant, count in self._steps.items() if count)
