"""An executable that counts the cycles of MAP's learner pipeline, and computes the numbers in float32 on the host.

The cycles are those of `pipeline.gradient_step`, looked up in the table of cycles, or simulated once. The numbers come
from the float32 reference, because the hardware's datapath (`fpga.learner_pipeline`, in fixed point) computes a network
with given targets only, not a whole algorithm. The tests of `fpga.learner_pipeline` compare this datapath with its
golden model bit by bit.
"""

from collections.abc import Mapping

from placerl.primitives.algorithms import Algorithm
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.graph.executable import Array
from placerl.primitives.graph.graph import Graph
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner.fpga import pipeline


class PipelineExecutable(ReferenceExecutable):
    """Runs the step graph in float32, and counts the clock cycles that MAP's pipeline would take.

    Attributes:
        clock_hz: assumed clock frequency.
    """

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        algorithm: Algorithm,
        *,
        batch_size: int,
        device: str,
        pipelines: int | None = None,
    ) -> None:
        """Check that the algorithm fits the device; the state starts at zero.

        Args:
            graphs: each variant's graph. Every variant counts the cycles of the full step, because MAP describes no
                other kind of step.
            algorithm: an algorithm that the pipeline runs (`pipeline.refusal`).
            device: one of `catalogue.clocks_hz()`.
            pipelines: number of pipelines, which divide a batch; by default that of the fastest design.

        Raises:
            ValueError: the pipeline does not run the algorithm, or does not fit the device.
        """
        self._arguments = algorithm, batch_size, catalogue.device(device)
        self.design = pipeline.best_design(*self._arguments, pipelines=pipelines)
        super().__init__(graphs)
        self.clock_hz = catalogue.clocks_hz()[device]
        self._steps = dict.fromkeys(graphs, 0)
        self._step_cycles: int | None = None

    def step(self, variant: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run one gradient step in float32, add its clock cycles to `cycles`, and return the outputs by name."""
        outputs = super().step(variant, inputs)
        self._steps[variant] += 1
        return outputs

    def step_cycles(self, variant: str) -> int:
        """Return the clock cycles of a gradient step of any variant, found at the first call."""
        if self._step_cycles is None:
            self._step_cycles = pipeline.gradient_step(*self._arguments, self.design.pipelines).cycles
        return self._step_cycles

    @property
    def cycles(self) -> int:
        """The clock cycles of all gradient steps so far."""
        return sum(count * self.step_cycles(variant) for variant, count in self._steps.items() if count)
