"""Which outcomes a claim can give: as its code says, and as tests made it give them.

As a plugin of pytest (`-p tests.harness.papers.outcomes`) it writes the outcomes that every claim gave into the file
named by `PLACERL_OUTCOMES`, as JSON.
"""

import ast
import inspect
import json
import os
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from placerl.harness import papers
from placerl.harness.papers.base import Claim, Finding, Outcome, Verdict

FILE = "PLACERL_OUTCOMES"
_PACKAGE = "placerl.harness.papers"
_SHARED = {"assumptions", "base", "clocks"}
"""Modules whose functions pass on the outcomes of others, or turn them into no verdict."""


def in_code(claim: Claim) -> set[Outcome]:
    """Return the outcomes that a claim's `judge` names, directly or through the functions that it calls.

    More may be possible: clocks and suspect numbers turn others into no verdict.
    """
    judge = type(claim).judge
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
            _reach(value, found)


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


_given: dict[str, set[str]] = defaultdict(set)


def _recorded(key: str, check: Any) -> Any:
    @wraps(check)
    def recording(*arguments: Any, **options: Any) -> Finding:
        found: Finding = check(*arguments, **options)
        _given[key].add(found.outcome)
        return found

    return recording


def pytest_configure() -> None:
    """Record what claims give, and what `judge` gives where a test calls it itself."""
    if FILE not in os.environ:
        return
    evaluate, every = Claim.evaluate, papers.claims()

    def recording(claim: Claim, *arguments: Any) -> Verdict:
        found = evaluate(claim, *arguments)
        if any(claim is each for each in every):  # tests make claims of their own
            _given[claim.key].add(found.finding.outcome)
        return found

    Claim.evaluate = recording  # type: ignore[method-assign]
    for claim in every:
        type(claim).judge = _recorded(claim.key, type(claim).judge)  # type: ignore[method-assign]


def pytest_sessionfinish() -> None:
    """Write what was given."""
    if FILE in os.environ:
        Path(os.environ[FILE]).write_text(json.dumps({key: sorted(some) for key, some in _given.items()}))
