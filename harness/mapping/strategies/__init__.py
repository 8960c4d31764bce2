"""The mapping strategies, found by file name: to add one, add a file to this folder.

A file defines `STRATEGIES`, a tuple of `harness.mapping.base.Strategy` with unique names. It may define
`ONLY_VALIDATED`, a tuple of strategies that need times which only `placerl validate` measures.
"""

from importlib import import_module
from pkgutil import iter_modules

from placerl.harness.mapping.base import Strategy


def discover(package: str = __name__, *, only_validated: bool = False) -> dict[str, Strategy]:
    """Return the strategies that the files of a package define, by name, file by file in alphabetical order.

    Args:
        only_validated: return the strategies of `ONLY_VALIDATED`, if a file has it, instead of `STRATEGIES`.

    Raises:
        AttributeError: a file does not define `STRATEGIES`.
        ValueError: two strategies have the same name.
    """
    strategies: dict[str, Strategy] = {}
    for file in iter_modules(import_module(package).__path__):
        module = import_module(f"{package}.{file.name}")
        for strategy in getattr(module, "ONLY_VALIDATED", ()) if only_validated else module.STRATEGIES:
            if strategy.name in strategies:
                raise ValueError(f"{package}: two strategies are called {strategy.name}")
            strategies[strategy.name] = strategy
    return strategies
