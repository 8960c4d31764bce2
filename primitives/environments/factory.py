"""Create the C++ objects of the native environments, and say which environments there are."""

from collections.abc import Mapping

from placerl.primitives import checks
from placerl.primitives.backend import BackendStatus
from placerl.primitives.interrupts import whole_imports

with whole_imports():
    from placerl.primitives._native import environments as native

from placerl.primitives.environments import lunar_lander


def ids() -> tuple[str, ...]:
    """Return Gymnasium's ids of all native environments, whether or not they can run on this machine."""
    return (*native.classic_ids(), *lunar_lander.IDS, *native.mujoco_files())


def unavailable_reason(id: str) -> str:
    """Return why an environment cannot be created here, as text; empty if it can."""
    if id in native.classic_ids():
        return ""
    if id in lunar_lander.IDS:
        return lunar_lander.unavailable_reason()
    if id in native.mujoco_files():
        from placerl.primitives.environments import mujoco_simulations

        return mujoco_simulations.unavailable_reason()
    return f"{id} is not native; native are {', '.join(ids())}"


def backends() -> list[BackendStatus]:
    """Return which simulators the native environments have, and whether each can be used here."""
    families = {"classic": native.classic_ids(), "Box2D": lunar_lander.IDS, "MuJoCo": native.mujoco_files()}
    reasons = {name: unavailable_reason(next(iter(ids))) for name, ids in families.items()}
    return [BackendStatus(name, not reason, reason) for name, reason in reasons.items()]


def refused_argument(id: str, arguments: Mapping[str, object]) -> str:
    """Return which of Gymnasium's arguments a native environment does not take, and what it takes, as text.

    Empty if it takes all of them. All environments but LunarLander have Gymnasium's default arguments.
    """
    if id in lunar_lander.IDS:
        return lunar_lander.refused_argument(arguments)
    return f"found {', '.join(arguments)}; allowed: none" if arguments else ""


def sine_source() -> str:
    """Return which double-precision sine and cosine the environments use.

    Returns:
        "C library" if its functions give the same bits as NumPy's, which Gymnasium calls, for a sample of 20,000
        angles. Otherwise "NumPy", whose functions are then called for one angle at a time, which is slower.
    """
    return str(native.sine_source())


def make_native(
    id: str,
    count: int,
    *,
    autoreset: str = "next_step",
    episode_steps: int | None = None,
    **arguments: object,
) -> native.VectorEnv:
    """Create the C++ object that steps `count` environments.

    The object checks only the sizes and the types of arrays. For classic control, Gymnasium need not be installed.

    Args:
        count: number of environments, at least 1.
        autoreset: when the next episode begins: "next_step", "same_step" or "disabled", Gymnasium's modes.
        episode_steps: time limit, at least 1, or 0 for none; None for that of Gymnasium's registry.
        arguments: those of `gymnasium.make` for the environment; only LunarLander takes any.

    Raises:
        ValueError: an argument that is not allowed, or an environment that is not available here.
    """
    checks.whole("num_envs", count, 1)
    if episode_steps is not None:
        checks.whole("max_episode_steps", episode_steps, 0)
    mode = getattr(native.Autoreset, str(autoreset), None)
    if mode is None:
        raise ValueError(f"autoreset: found {autoreset!r}; allowed: next_step, same_step or disabled")
    if reason := unavailable_reason(id):
        raise ValueError(f"id: found {id!r}; {reason}")
    if reason := refused_argument(id, arguments):
        raise ValueError(f"arguments of {id}: {reason}")
    count, limit = int(count), -1 if episode_steps is None else int(episode_steps)
    if id in native.classic_ids():
        return native.make_classic(id, count, mode, limit)
    if id in lunar_lander.IDS:
        return lunar_lander.make(id, count, mode, limit, arguments)
    from placerl.primitives.environments import mujoco_simulations

    return mujoco_simulations.make(id, count, mode, limit)
