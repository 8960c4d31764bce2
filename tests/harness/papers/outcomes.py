"""Which outcomes a claim can give, as its code says; `given_outcomes` records which tests make it give them."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from placerl.harness.papers.base import Claim, Outcome

_PACKAGE = "placerl.harness.papers"
_SHARED = {"assumptions", "base", "clocks"}
"""Modules whose functions pass on the outcomes of others, or turn them into no verdict."""


_TWO_CLOCKS = (
    "The clocks lie more than four times apart, and so do the gains: one alone meets the printed ones."
)
NEVER: dict[str, dict[Outcome, str]] = {
    "PPO-5.3.1-environment": {Outcome.REPRODUCED: "Its two readings lie a factor of four or more apart."},
    "PPO-F15": {Outcome.REPRODUCED: _TWO_CLOCKS},
}
"""Outcomes that functions behind a claim name and that this claim cannot give, with the reason."""


def in_code(claim: Claim) -> set[Outcome]:
    """Return the outcomes that a claim's `judge` names, directly or through the functions that it calls.

    More may be possible: clocks and suspect numbers turn others into no verdict.
    """
    judge = inspect.unwrap(type(claim).judge)
    assert isinstance(judge, FunctionType)
    found: set[FunctionType] = set()
    _reach(judge, found)
    return {outcome for function in found for outcome in _named(function)}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _reach(function: FunctionType, found: set[FunctionType]) -> None:
    if function in found or not function.__module__.startswith(_PACKAGE):
        return
    found.add(function)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    called = [cell.cell_contents for cell in function.__closure__ or ()]
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        called.append(value)
        if isinstance(value, ModuleType | type):
            called += [vars(value).get(attribute) for attribute in names]
    for value in called:
        if isinstance(value, FunctionType):
            _reach(inspect.unwrap(value), found)


def _named(function: FunctionType) -> Iterator[Outcome]:
    """The outcomes that a function gives, not those that it asks for."""
    if function.__module__.rpartition(".")[2] in _SHARED or function.__name__ == "<lambda>":
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    asked = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Compare) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "Outcome"
        ):
            if id(node) not in asked:
                yield Outcome[node.attr]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from _BY_HELPER.get(node.func.id, ())


_BY_HELPER = {
    "by_a_model": (Outcome.CONSISTENT, Outcome.NO_VERDICT),
    "decided": (Outcome.IN_KIND, Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT),
}
