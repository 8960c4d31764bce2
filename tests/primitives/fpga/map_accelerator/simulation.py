"""The host's side of a simulated accelerator: writes registers, transitions and weights, and starts runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from placerl.primitives.fpga.floating_point.golden import Array
from placerl.primitives.fpga.host import HostAccess, float_word
from placerl.primitives.fpga.map_accelerator.accelerator import transition
from placerl.primitives.fpga.map_accelerator.registers import REGISTERS, fraction_word
from placerl.primitives.fpga.map_accelerator.settings import AcceleratorSettings
from placerl.primitives.fpga.simulation.base import Simulation, SimulationStalledError
from placerl.primitives.fpga.simulation.ports import pack
from tests.primitives.fpga.gemm.float_golden import floats
from tests.primitives.fpga.learner_pipeline.golden import words as memory_words
from tests.primitives.fpga.map_accelerator.golden import StepHyperparameters


class AcceleratorHost:
    """Drives a simulated `MapAccelerator` as its host does.

    Args:
        simulation: of the accelerator.
        settings: its sizes.
    """

    def __init__(self, simulation: Simulation, settings: AcceleratorSettings):
        self.simulation, self.settings = simulation, settings
        self.registers = HostAccess(simulation, REGISTERS)

    def load(self, weights: Sequence[Array]) -> None:
        """Send the weights of all layers, (outputs, inputs + 1) float32 each."""
        layers = zip(self.settings.networks, weights, strict=True)
        numbers = np.concatenate([memory_words(layer, weight).ravel() for layer, weight in layers])
        self._send("s_axis_weights", numbers.view(np.uint32))

    def insert(self, transitions: Mapping[str, Array], priorities: Array) -> None:
        """Store transitions, raw values by the names of `transition`'s fields, with their priorities in `PRIORITY`."""
        rows = pack(transition(self.settings), transitions)
        first = np.asarray(priorities).astype(np.uint32)[:, None]
        self._send("s_axis_transitions", np.concatenate([first, rows], axis=1).ravel())

    def configure(self, batch_size: int, hyper: StepHyperparameters) -> None:
        """Write the batch size and all hyper-parameters."""
        self.registers.write(
            batch=batch_size,
            inverse_batch=float_word(1 / batch_size),
            gamma=fraction_word(hyper.gamma),
            target_interval=hyper.target_interval,
            options=int(hyper.huber),
            **{
                name: float_word(getattr(hyper, name))
                for name in ("learning_rate", "actor_learning_rate", "tau", "alpha", "beta", "epsilon")
            },
        )

    def run(self, steps: int = 1, *, limit_cycles: int = 10_000_000) -> int:
        """Do gradient steps, and return their clock cycles.

        Raises:
            SimulationStalledError: they are not done after `limit_cycles`.
        """
        self.registers.write(steps=steps, control=1)
        waited = 0
        while self.registers.read("status"):
            self.simulation.step(100)
            waited += 100
            if waited > limit_cycles:
                raise SimulationStalledError(f"a run of {steps} steps takes more than {limit_cycles} cycles")
        return self.registers.read("cycles")

    def weights(self, *, target: bool = False) -> list[Array]:
        """Return the weights of all layers, (outputs, inputs + 1) float32 each, or those of the target network."""
        self.registers.write(send=2 if target else 1)
        run = self.simulation.run({}, {"m_axis_weights": self.settings.weight_words})
        beats = run.outputs["m_axis_weights"]
        assert isinstance(beats, Mapping)
        numbers = floats(beats["data"])
        found, at = [], 0
        for layer in self.settings.networks:
            part = numbers[at : at + layer.words * layer.lanes]
            blocks = part.reshape(layer.blocks, layer.inputs + 1, layer.lanes).transpose(0, 2, 1)
            found.append(blocks.reshape(-1, layer.inputs + 1)[: layer.outputs])
            at += part.size
        return found

    def _send(self, port: str, words: Array) -> None:
        self.simulation.run({port: {"data": words, "last": np.zeros(len(words), np.int64)}}, {})
