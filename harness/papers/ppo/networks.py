"""Checks PPO's statements about its networks, by counts of parameters and by formulas for the array's cycles."""

from itertools import pairwise

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Finding, by_a_model
from placerl.harness.papers.number import Number, bounded_speedup, from_text
from placerl.primitives.fpga.cycles import gemm, networks, ppo
from placerl.primitives.fpga.gemm.plan import DATAFLOWS

SIDES = (4, 8, 16, 32)
"""Powers of 2 up to the largest array that PPO built (5.2)."""
ELEMENTS_OF_TWICE_THE_SIDE = 4
"""Ratio of the elements of an array to one with half the side, and so the largest gain."""


def _prints(value: float, printed: Number, tolerance: float = 0.04) -> bool:
    """Whether a count equals a printed number of two or three digits."""
    return abs(value / printed.value - 1) <= tolerance


def _megabits(parameters: int) -> float:
    return 32 * parameters / 1e6


class LargerArraysAreFaster(Claim):
    """Checks PPO 5.2: in every dataflow a larger systolic array takes fewer cycles per iteration.

    The cycles are those of this project's systolic core, from a formula that equals the RTL's. Equation 5, the
    paper's own, would only agree with itself.
    """

    key, place, position = "PPO-5.2-side", "5.2", 4
    statement = "In all three dataflows performance grows with the side of the array"
    published = from_text("PPO.systolic_mujoco", "PPO.systolic_atari")

    def judge(self, _: pd.DataFrame) -> Finding:
        iterations = {
            "Hopper": ppo.PpoIteration(16, 512, 512, 10),
            "Humanoid": ppo.PpoIteration(16, 512, 512, 10),
            "Pong": ppo.PpoIteration(8, 128, 128, 3),
        }
        ours, falls = [], 0
        for benchmark, iteration in iterations.items():
            for dataflow in DATAFLOWS:
                cycles = [
                    ppo.iteration_cycles(
                        networks.PPO_NETWORKS[benchmark],
                        iteration,
                        side=side,
                        dataflow=dataflow,
                        product_cycles=gemm.block_load_cycles,
                    ).total
                    for side in SIDES
                ]
                least = min(a / b for a, b in pairwise(cycles))
                falls += least > 1
                title = f"{benchmark}, {dataflow}: least gain of a side twice as long, P = {SIDES[0]} to {SIDES[-1]}"
                gain = Number(
                    title, least, "ratio", Provenance.MODELLED, "cycles of the core, in closed form"
                )
                ours.append(bounded_speedup(gain, ELEMENTS_OF_TWICE_THE_SIDE))
        said = f"Cycles fall with every doubling in {falls} of {len(ours)} cases."
        unknown = (
            "The closed form knows neither the clock that a larger array reaches nor its memory's bandwidth."
        )
        return by_a_model(falls == len(ours), tuple(ours), said, unknown=unknown)


class MemoryOfNetworks(Claim):
    """Checks PPO 3.1: the stated memory of the largest robotics MLP and of the CNN policy equals a count of parameters.

    A parameter has 32 bits.
    """

    key, place, position = "PPO-3.1", "3.1", 8
    statement = "Memory of the largest MLP of robotics, and of the CNN policy"
    published = from_text("PPO.largest_mlp", "PPO.cnn_policy")

    def judge(self, _: pd.DataFrame) -> Finding:
        from placerl.primitives.algorithms.networks import MLP, NatureCNN, parameter_count

        mlp, cnn = self.published
        sizes = from_text(
            "PPO.humanoid_inputs", "PPO.humanoid_hidden_1", "PPO.humanoid_hidden_2", "PPO.humanoid_outputs"
        )
        humanoid = MLP(tuple(int(n.value) for n in sizes))
        source = "parameters x 32 bit, placerl.primitives.algorithms.networks"
        ours = (
            Number(
                "Humanoid's MLP", _megabits(parameter_count(humanoid)), "Mbit", Provenance.MODELLED, source
            ),
            Number(
                "CNN of Pong",
                _megabits(parameter_count(NatureCNN(head=6))),
                "Mbit",
                Provenance.MODELLED,
                source,
            ),
        )
        agrees = _prints(ours[0].value, mlp) and _prints(ours[1].value, cnn)
        unknown = "The paper does not say what it counts besides the weights of a layer."
        return by_a_model(agrees, ours, "Weights and biases of one network each.", unknown=unknown)
