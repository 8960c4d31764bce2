"""Create the native LunarLander, with Gymnasium's arguments."""

import math
from collections.abc import Mapping

from placerl.primitives._native import environments as native

IDS = {"LunarLander-v3": False, "LunarLanderContinuous-v3": True}
"""Gymnasium's ids, and whether their actions are continuous."""
ARGUMENTS: dict[str, type] = {
    "continuous": bool,
    "gravity": float,
    "enable_wind": bool,
    "wind_power": float,
    "turbulence_power": float,
}


def unavailable_reason() -> str:
    """Return why no LunarLander can be created here, as text; empty if it can."""
    if native.has_box2d():
        return ""
    return "this build has no Box2D, whose source it could not fetch or was told not to: see docs/install.md"


def refused_argument(arguments: Mapping[str, object]) -> str:
    """Return which argument of LunarLander is not allowed, what it holds and what is allowed; empty if all are."""
    for name, value in arguments.items():
        if name not in ARGUMENTS:
            return f"found {name}; allowed: {', '.join(ARGUMENTS)}"
        if ARGUMENTS[name] is bool:
            if not isinstance(value, bool):
                return f"{name}: found {value!r}; allowed: true or false"
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return f"{name}: found {value!r}; allowed: a finite number"
        elif name == "gravity" and not -12 < value < 0:
            return f"{name}: found {value!r}; allowed: between -12 and 0"
    return ""


def make(
    id: str, count: int, autoreset: native.Autoreset, episode_steps: int, arguments: Mapping[str, object]
) -> native.VectorEnv:
    """Create the C++ object that steps `count` LunarLanders.

    Args:
        id: one of `IDS`.
        count: number of environments, each with a world of Box2D of its own.
        autoreset: when the next episode begins: in the next step, in the same step, or only by a reset.
        episode_steps: time limit, 0 for none, -1 for that of Gymnasium's registry.
        arguments: Gymnasium's, some of `ARGUMENTS`, which `refused_argument` does not refuse.
    """
    return native.make_lunar_lander(count, autoreset, episode_steps, **{"continuous": IDS[id], **arguments})
