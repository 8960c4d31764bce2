"""Runs a simulated accelerator: gives it weights and samples, and reads its weights back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.fixar.accelerator import FixarCommand
from placerl.primitives.fpga.fixar.shape import FixarShape, group_size, groups_of
from placerl.primitives.fpga.simulation.base import Simulation
from tests.primitives.fpga.fixar.golden import PARTS, GoldenFixar, RawBatch, UpdateSettings

Integers = NDArray[np.int64]


def words_of(golden: GoldenFixar) -> dict[str, Integers]:
    """Return a golden model's weights, targets and moments as the accelerator's words, (words, P) by part."""
    side = golden.shape.side
    parts: dict[str, list[Integers]] = {part: [] for part in PARTS}
    for places, layers in zip((golden.shape.actor, golden.shape.critic), golden.layers, strict=True):
        for place, layer in zip(places, layers, strict=True):
            for part in PARTS:
                whole = np.zeros((place.out_blocks * side, place.in_blocks * side), np.int64)
                whole[: place.outputs, : place.inputs + 1] = layer[part]
                tiles = whole.reshape(place.out_blocks, side, place.in_blocks, side)
                parts[part].append(tiles.transpose(0, 2, 1, 3).reshape(-1, side))
    return {part: np.concatenate(arrays) for part, arrays in parts.items()}


def lines_of(values: Integers, side: int, group: int) -> Integers:
    """Return vectors of samples as lines, (groups, lines, group, P), in the order in which a group's are sent.

    Args:
        values: (B, elements).
        side: P.
        group: samples that are trained together.
    """
    lines = -(-values.shape[1] // side)
    whole = np.zeros((len(values), lines * side), np.int64)
    whole[:, : values.shape[1]] = values
    return whole.reshape(-1, group, lines, side).transpose(0, 2, 1, 3)


def stream_of(samples: RawBatch, shape: FixarShape, *, halves: bool) -> Integers:
    """Return the lines that a training step reads, (lines, P).

    Args:
        samples: the batch.
        shape: sizes of the accelerator.
        halves: whether activations have 16 bits.
    """
    group = group_size(halves=halves)
    outcome = np.stack([samples.reward, samples.discount, samples.weight], 1)
    states = lines_of(samples.state, shape.side, group)
    parts = (samples.next_state, outcome, samples.state, samples.action)
    first = [lines_of(part, shape.side, group) for part in parts]
    return np.concatenate([np.concatenate(first, 1).reshape(-1, shape.side), states.reshape(-1, shape.side)])


class SimulatedFixar:
    """An accelerator in simulation.

    Args:
        simulation: of an `accelerator.Fixar`.
        shape: its sizes.
    """

    def __init__(self, simulation: Simulation, shape: FixarShape) -> None:
        self.simulation, self.shape, self.halves = simulation, shape, False
        self.simulation.write("halves", 0)

    def load(self, golden: GoldenFixar) -> None:
        """Give the accelerator a golden model's weights, targets and moments."""
        self.simulation.run({"load": words_of(golden)}, {})

    def dump(self) -> dict[str, Integers]:
        """Return weights, targets and moments, (words, P) each."""
        run = self.simulation.run({"commands": np.array([FixarCommand.DUMP])}, {"dump": self.shape.words})
        words: dict[str, Any] = run.outputs["dump"]
        return {part: np.asarray(words[part]).astype(np.int64) for part in PARTS}

    def quantise(self) -> None:
        """Begin to use 16-bit activations, on the ranges seen so far."""
        self.halves = True
        self.simulation.write("halves", 1)

    def overlap(self, runs: bool) -> None:
        """Say whether Adam runs alongside the next loop, from the next step on."""
        self.simulation.write("overlap", int(runs))

    def train(self, samples: RawBatch, settings: UpdateSettings) -> tuple[Integers, int]:
        """Train once.

        Args:
            samples: the batch; B is even, and with 16-bit activations a multiple of 4.
            settings: the host's numbers.

        Returns:
            The temporal difference errors, and the cycles from the command to the end of the last update.

        Raises:
            ValueError: the batch does not fill its groups.
        """
        batch = len(samples.reward)
        groups = groups_of(batch, halves=self.halves)
        for name in ("critic_rate", "actor_rate", "epsilon", "tau", "actor_error"):
            self.simulation.write(name, getattr(settings, name))
        self.simulation.write("groups", groups)
        lines = stream_of(samples, self.shape, halves=self.halves)
        run = self.simulation.run(
            {"commands": np.array([FixarCommand.TRAIN]), "samples": lines}, {"errors": batch}
        )
        self._wait()
        return np.asarray(run.outputs["errors"]), int(self.simulation.read("cycles"))

    def act(self, state: Integers, deviation: int = 0) -> Integers:
        """Return the action for one state, (A,).

        Args:
            state: (S,), raw.
            deviation: of the noise, in 2^-16.
        """
        self.simulation.write("deviation", deviation)
        lines = lines_of(state[None], self.shape.side, 1).reshape(-1, self.shape.side)
        run = self.simulation.run({"commands": np.array([FixarCommand.ACT]), "samples": lines}, {"action": 1})
        self._wait()
        return np.asarray(run.outputs["action"][0])

    def _wait(self) -> None:
        while self.simulation.read("busy"):
            self.simulation.step(16)
