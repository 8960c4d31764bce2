"""Warnings of MuJoCo's compiler and solver, as Python warnings."""

import warnings

import gymnasium


def route(environment_id: str) -> None:
    """Turn MuJoCo's warnings into Python warnings; to be called before the environment is made.

    MuJoCo prints each warning to standard error each time a model is compiled. The warning that Gymnasium's own
    models use a deprecated attribute is dropped, because it does not concern users who train on them.

    Args:
        environment_id: ID of a registered environment; for an environment without MuJoCo nothing happens.
    """
    if "mujoco" not in str(gymnasium.spec(environment_id).entry_point):
        return
    try:
        import mujoco
    except ImportError:  # creating the environment reports it
        return
    mujoco.set_mju_user_warning(_warn)


def _warn(text: str) -> None:
    if "is deprecated" not in text:
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)
