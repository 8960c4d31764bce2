"""PlaceRL: primitives of deep reinforcement learning on every device, and a harness that measures, maps and trains.

    >>> import placerl
    >>> tree = placerl.sum_tree.create(1000)

| name | what |
|---|---|
| `sum_tree`, `replay`, `learner`, `environments` | the primitives that programs use most |
| `compose`, with `Settings` and `Schedule` | trains your algorithm in your environment under a mapping |
| `map`, with `Program` | chooses the mapping of such a training, or of a workload |
| `primitives`, `harness` | everything, also the parts that the names above come from |

Each is loaded when it is first used: the import itself loads nothing else.
"""

TYPE_CHECKING = False  # as of `typing`, which would take longer to load than all the rest
if TYPE_CHECKING:
    from typing import Any

    from placerl import environments as environments
    from placerl import harness as harness
    from placerl import learner as learner
    from placerl import primitives as primitives
    from placerl import replay as replay
    from placerl import sum_tree as sum_tree
    from placerl.harness.loop.schedule import Schedule as Schedule
    from placerl.harness.plan.choosing import choose_mapping as map
    from placerl.harness.runtime.program import Program as Program
    from placerl.harness.runtime.program import Settings as Settings
    from placerl.harness.runtime.program import compose as compose

    __version__: str

_MODULES = ("environments", "harness", "learner", "primitives", "replay", "sum_tree")
_FROM = {
    "Schedule": ("placerl.harness.loop.schedule", "Schedule"),
    "Program": ("placerl.harness.runtime.program", "Program"),
    "Settings": ("placerl.harness.runtime.program", "Settings"),
    "compose": ("placerl.harness.runtime.program", "compose"),
    "map": ("placerl.harness.plan.choosing", "choose_mapping"),
}

__all__ = [
    "Program",
    "Schedule",
    "Settings",
    "__version__",
    "compose",
    "environments",
    "harness",
    "learner",
    "map",
    "primitives",
    "replay",
    "sum_tree",
]


def __getattr__(name: str) -> "Any":
    if name in _MODULES or name in _FROM:
        return _loaded(name)
    if name == "__version__":
        from importlib.metadata import version

        return version(__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _loaded(name: str) -> "Any":
    """Return a module, or what one of `_FROM` has; a missing library is an error that names the extra."""
    from importlib import import_module

    try:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        module, there = _FROM[name]
        return getattr(import_module(module), there)
    except ModuleNotFoundError as error:
        if (error.name or __name__).partition(".")[0] == __name__:
            raise
        extra = "torch" if name == "learner" else "harness"
        found = f"found no {error.name}, which the extra {extra!r} brings"
        message = f"placerl.{name}: {found}; allowed: pip install 'placerl[{extra}]'"
        raise ModuleNotFoundError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
