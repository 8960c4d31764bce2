"""Finds the algorithm of SB3 that uses a buffer, which SB3 does not tell it."""

import sys
from typing import Any

from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

SERVED = ("DQN", "DDPG", "TD3", "SAC")


def refuse_an_algorithm_without_weights(buffer: Any) -> None:
    """Raise if the call comes from an algorithm whose buffer this is (or is about to be), and which ignores weights.

    SB3 passes a buffer nothing that tells an algorithm from a user who samples by hand, so the frames of the call are
    searched for the nearest algorithm. In a training that is the caller itself.

    Raises:
        TypeError: such an algorithm; names the class to use instead.
    """
    frame: Any = sys._getframe(2)
    while frame is not None:
        algorithm = frame.f_locals.get("self")
        if isinstance(algorithm, OffPolicyAlgorithm):
            used = getattr(algorithm, "replay_buffer", None)
            if used is None or used is buffer:
                if not getattr(algorithm, "applies_weights", False):
                    raise TypeError(_refusal(type(buffer), type(algorithm)))
                return
        frame = frame.f_back


def _refusal(buffer: type, algorithm: type) -> str:
    bases = [base.__name__ for base in algorithm.__mro__ if base.__name__ in SERVED]
    allowed = f"Prioritized{bases[0]}" if bases else ", ".join(f"Prioritized{name}" for name in SERVED)
    return (
        f"replay_buffer_class: found {buffer.__name__} in {algorithm.__name__}, which ignores weights and priorities; "
        f"allowed: {allowed} of placerl.primitives.replay.adapters.sb3_adapter, "
        "or an algorithm with applies_weights = True"
    )
