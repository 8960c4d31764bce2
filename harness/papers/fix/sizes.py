"""Checks FIX's statements about the sizes of environments and networks, and of the memory that holds networks.

Sizes are counted: those of networks by formula, those of environments from Gymnasium. Nothing is run, so an equal
size is "consistent" and reproduces nothing. If a size differs, the paper may have counted in another way or used
another version of an environment, so there is no verdict.
"""

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Finding, Outcome, by_a_model
from placerl.harness.papers.number import Number, from_text, integers

ARRAY_SIDE = 16  # FIX III
"""Length of the vectors in which activations are stored: the side of the array (FIX III)."""
_HALFCHEETAH = ("FIX.halfcheetah_state", "FIX.halfcheetah_action", "FIX.hidden_1", "FIX.hidden_2")


def _spaces(name: str) -> tuple[Number, Number]:
    """Return state and action size of a Gymnasium environment."""
    import gymnasium

    from placerl.harness.core import simulator_warnings

    simulator_warnings.route(name)  # MuJoCo would log them to a file in the working directory
    environment = gymnasium.make(name, disable_env_checker=True)
    try:
        shapes = {
            "state": environment.observation_space.shape,
            "action": environment.action_space.shape,
        }
    finally:
        environment.close()
    state, action = (
        Number(
            f"{what} size of {name}",
            float(shape[0] if shape else 0),
            "count",
            Provenance.MEASURED,
            "Gymnasium",
        )
        for what, shape in shapes.items()
    )
    return state, action


class WeightsFillMemory(Claim):
    """Checks FIX III: the stated memory for all weights is just large enough for HalfCheetah's actor and critic.

    Their weights and biases, as counted here, have to take 95% to 100% of the memory.
    """

    key, place, position = "FIX-III", "III", 10
    statement = "On-chip memory that holds the weights of actor and critic"
    published = from_text("FIX.weight_memory")

    def judge(self, _: pd.DataFrame) -> Finding:
        from placerl.primitives.algorithms.networks import MLP, parameter_count

        stated = self.published[0]
        state, action, first, second = integers(*_HALFCHEETAH)
        networks = MLP((state, first, second, action)), MLP((state + action, first, second, 1))
        size = 4 * sum(map(parameter_count, networks)) / 1e6
        source = "weights and biases x 4 bytes, placerl.primitives.algorithms.networks"
        ours = Number("actor and critic of HalfCheetah", size, "MB", Provenance.MODELLED, source)
        holds = 0.95 * stated.value <= size <= stated.value
        said = (
            "They fit, and fill it."
            if holds
            else "They do not fit, or do not fill it: the paper does not say what else the memory holds."
        )
        return Finding(Outcome.CONSISTENT if holds else Outcome.NO_VERDICT, (ours,), said)


class ActivationsFillMemory(Claim):
    """Checks FIX III: the memory for the activations of all layers equals that of HalfCheetah's actor, as counted here.

    Activations are counted in whole vectors of 16, the side of FIX's array (`ARRAY_SIDE`).
    """

    key, place, position = "FIX-III-activations", "III", 11
    statement = "On-chip memory that holds the activations of all 3 layers"
    published = from_text("FIX.activation_memory")

    def judge(self, _: pd.DataFrame) -> Finding:
        stated = self.published[0]
        state, action, first, second = integers(*_HALFCHEETAH)
        ours = []
        for name, sizes in (("outputs", (first, second, action)), ("inputs", (state, first, second))):
            vectors = sum(-(-size // ARRAY_SIDE) for size in sizes)
            source = f"{name} of the three layers in vectors of {ARRAY_SIDE}, 4 bytes each"
            title = f"HalfCheetah's actor, {name} of its layers"
            ours.append(Number(title, 4 * ARRAY_SIDE * vectors / 1000, "KB", Provenance.MODELLED, source))
        outputs, inputs = (abs(number.value - stated.value) < 0.005 for number in ours)
        if outputs:
            return Finding(
                Outcome.CONSISTENT, tuple(ours), "The printed size is that of what comes out of the layers."
            )
        said = (
            "The text sets the memory by what comes out of all 3 layers, which is less; the printed size is that of "
            "what goes into them, and the same section has the memory hold the host's inputs too."
            if inputs
            else "Neither what comes out of the layers nor what goes into them is of the printed size."
        )
        return Finding(Outcome.CONSISTENT if inputs else Outcome.NO_VERDICT, tuple(ours), said)


class SizesOfEnvironments(Claim):
    """Checks FIX VI-B: the stated state and action sizes of the benchmarks equal those of Gymnasium's environments.

    Hopper's action size is left out: it is printed wrongly (`notes.toml`).
    """

    key, place, position = "FIX-VI-B-sizes", "VI-B", 13
    statement = "State and action sizes of HalfCheetah and Swimmer, state size of Hopper"
    published = from_text(
        "FIX.halfcheetah_state",
        "FIX.halfcheetah_action",
        "FIX.hopper_state",
        "FIX.swimmer_state",
        "FIX.swimmer_action",
    )
    needs = "Gymnasium's HalfCheetah-v5, Hopper-v5 and Swimmer-v5"

    def judge(self, _: pd.DataFrame) -> Finding:
        stated = self.published
        ours = (*_spaces("HalfCheetah-v5"), _spaces("Hopper-v5")[0], *_spaces("Swimmer-v5"))
        agree = all(a.value == b.value for a, b in zip(ours, stated, strict=True))
        unknown = "The paper does not name the version of its environments, nor whether it changed them."
        return by_a_model(
            agree, ours, "The sizes of Gymnasium's environments of these names.", unknown=unknown
        )
