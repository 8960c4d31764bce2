"""Defines the `[environment]` table of a workload's file, and checks that Gymnasium has the environment."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from placerl.harness.core import simulator_warnings
from placerl.harness.core.errors import UserError
from placerl.harness.core.toml_models import TomlTable

Size = Annotated[int, Field(ge=1, le=65_536)]
ACTIONS = (
    "a Discrete that begins at 0, or a Box of one dimension with finite bounds, of floating-point numbers"
)
"""The supported action spaces, for error messages."""


def _plain(value: object) -> object:
    """Check an argument for an environment. Dots and slashes are refused, so that no workload can pass a file's
    path.
    """
    numbers = isinstance(value, list) and len(value) <= 64 and all(type(v) in (int, float) for v in value)
    if not (numbers or type(value) in (bool, int, float) or re.fullmatch(r"[\w-]{1,64}", str(value))):
        raise PydanticCustomError("keyword", "a truth value, number, word or list of numbers")
    return value


Keyword = Annotated[Any, AfterValidator(_plain)]


class Environment(TomlTable):
    """The `[environment]` table of a workload: a Gymnasium environment and the sizes of its spaces."""

    # "module:Name-v0" is refused: Gymnasium would import that module, and a workload must not run code.
    id: str = Field(
        pattern=r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64})?$",
        description="id of a registered Gymnasium environment",
    )
    observation_shape: tuple[Size, ...] = Field(
        min_length=1, max_length=3, description="shape of one observation; (S,) or (channels, height, width)"
    )
    action_kind: Literal["continuous", "discrete"] = Field(
        description="'continuous' in [-1, 1] or 'discrete'"
    )
    action_size: Size = Field(description="components of a continuous action, or number of discrete actions")
    kwargs: dict[str, Keyword] = Field(default={}, max_length=16, description="arguments of gymnasium.make")


def check_environment(environment: Environment, source: object) -> None:
    """Create the environment once, and check that its spaces have the sizes that the table states.

    Raises:
        UserError: the environment is not registered, a library that it needs is missing, its sizes differ, or its
            observations or actions are of a kind that is not supported.
    """
    import gymnasium
    import numpy as np

    register()
    try:
        simulator_warnings.route(environment.id)
    except gymnasium.error.Error as error:
        allowed = "an environment that Gymnasium knows here; its package may have to be installed"
        raise UserError(source, "environment.id", f"{environment.id!r} ({error})", allowed) from error
    try:
        env = gymnasium.make(environment.id, disable_env_checker=True, **environment.kwargs)
    except (gymnasium.error.Error, ImportError) as error:
        allowed = "an environment whose packages are installed"
        raise UserError(source, "environment.id", f"{environment.id!r} ({error})", allowed) from error
    except Exception as error:  # an environment's own code may raise anything for its arguments
        allowed = f"arguments that {environment.id} takes"
        raise UserError(source, "environment.kwargs", f"{environment.kwargs} ({error})", allowed) from error
    try:
        observations, actions = env.observation_space, env.action_space
    finally:
        env.close()
    if observations.shape != environment.observation_shape:
        found, allowed = list(environment.observation_shape), f"{observations.shape} for {environment.id}"
        raise UserError(source, "environment.observation_shape", found, allowed)
    if len(environment.observation_shape) > 1 and observations.dtype != np.uint8:
        kind = f"{environment.id!r}, whose observations are {observations}"
        allowed = "an environment whose observations of several dimensions are frames, uint8"
        raise UserError(source, "environment.id", kind, allowed, names=())
    if (described := actions_of(actions)) is None:
        kind, allowed = f"{environment.id!r}, whose actions are {actions}", f"an environment with {ACTIONS}"
        raise UserError(source, "environment.id", kind, allowed, names=())
    for field, own in described.items():
        if (stated := getattr(environment, field)) != own:
            raise UserError(source, f"environment.{field}", stated, f"{own} for {environment.id}")


def register() -> None:
    """Register with Gymnasium the environments that this project adds."""
    from placerl.harness.environments import atari_frames, continuous_cartpole  # noqa: F401


def actions_of(space: Any) -> dict[str, Any] | None:
    """Return kind and size of the actions of a space; None if no algorithm can act in it.

    Args:
        space: the action space of an environment; `ACTIONS` says which ones are supported.

    Returns:
        `action_kind`, "discrete" or "continuous", and `action_size`, the number of discrete actions or the components
        of a continuous one.
    """
    import gymnasium
    import numpy as np

    if isinstance(space, gymnasium.spaces.Discrete) and space.start == 0:
        return {"action_kind": "discrete", "action_size": int(space.n)}
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            ranges = space.high - space.low
        if space.shape[0] and np.isfinite(ranges).all():
            return {"action_kind": "continuous", "action_size": space.shape[0]}
    return None
