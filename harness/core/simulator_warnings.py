"""Turns the warnings of MuJoCo's compiler and solver into Python warnings."""

import warnings

from placerl.primitives.interrupts import whole_imports


def route(environment_id: str) -> None:
    """Make MuJoCo's warnings Python warnings. Call this before the environment is created.

    By itself, MuJoCo prints each warning to standard error each time a model is compiled. Warnings about deprecated
    attributes, which Gymnasium's own models use, are dropped, because they do not concern users who train on them.

    Args:
        environment_id: ID of a registered environment; for an environment without MuJoCo nothing happens.
    """
    import gymnasium

    if "mujoco" not in str(gymnasium.spec(environment_id).entry_point):
        return
    try:
        with whole_imports():
            import mujoco
    except ImportError:  # creating the environment reports it
        return
    mujoco.set_mju_user_warning(_warn)


def _warn(text: str) -> None:
    if "is deprecated" not in text:
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)
