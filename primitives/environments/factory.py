"""Which environments are native, and their C++ objects."""

from primitives._native import environments as native


def ids() -> tuple[str, ...]:
    """Return Gymnasium's ids of all environments that are here, whether or not they can run on this machine."""
    return (*native.classic_ids(), *native.mujoco_files())


def unavailable_reason(id: str) -> str:
    """Return why an environment cannot be created here, empty if it can.

    Args:
        id: Gymnasium's id.
    """
    if id in native.classic_ids():
        return ""
    if id in native.mujoco_files():
        from primitives.environments import mujoco_simulations

        return mujoco_simulations.unavailable_reason()
    return f"{id} is not native; native are {', '.join(ids())}"


def sine_source() -> str:
    """Return whose double-precision sine and cosine are used.

    Returns:
        "C library" where NumPy's, which Gymnasium calls, give the same bits over a sample of 20,000 angles;
        otherwise "NumPy", whose loops are then called an angle at a time: equal to Gymnasium too, but slower.
    """
    return str(native.sine_source())


def make_native(
    id: str, count: int, *, autoreset: str = "next_step", episode_steps: int | None = None
) -> native.VectorEnv:
    """Create the C++ object, which checks sizes and types of arrays alone; it needs no Gymnasium for classic control.

    Args:
        id: Gymnasium's id.
        count: number of environments, at least 1.
        autoreset: "next_step", "same_step" or "disabled", as Gymnasium's modes.
        episode_steps: time limit, at least 1, or 0 for none; None for Gymnasium's.

    Raises:
        ValueError: an argument that is not allowed, or an environment that is not available here.
    """
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"num_envs: found {count!r}; allowed: an integer of at least 1")
    if episode_steps is not None and (not isinstance(episode_steps, int) or episode_steps < 0):
        raise ValueError(
            f"max_episode_steps: found {episode_steps!r}; allowed: an integer of at least 0, or None"
        )
    mode = getattr(native.Autoreset, str(autoreset), None)
    if mode is None:
        raise ValueError(f"autoreset: found {autoreset!r}; allowed: next_step, same_step or disabled")
    if reason := unavailable_reason(id):
        raise ValueError(f"id: found {id!r}; {reason}")
    limit = -1 if episode_steps is None else episode_steps
    if id in native.classic_ids():
        return native.make_classic(id, count, mode, limit)
    from primitives.environments import mujoco_simulations

    return mujoco_simulations.make(id, count, mode, limit)
