"""What MuJoCo's compiler and solver warn of, as Python warnings."""

import warnings

import gymnasium


def route(environment_id: str) -> None:
    """Turns MuJoCo's warnings into Python's before an environment of its kind is made.

    MuJoCo prints each to standard error each time a model is compiled. That an attribute of Gymnasium's own models is
    deprecated says nothing to who trains on them, and is left out.

    Args:
        environment_id: of a registered environment; nothing happens for one without MuJoCo.
    """
    if "mujoco" not in str(gymnasium.spec(environment_id).entry_point):
        return
    try:
        import mujoco
    except ImportError:  # making the environment says so
        return
    mujoco.set_mju_user_warning(_warn)


def _warn(text: str) -> None:
    if "is deprecated" not in text:
        warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2)
