"""Runs a file of checks in a library's own environment (`run_checks.py`), for tests."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.compare import adapters, registry
from harness.compare.protocol import Worker
from tests.limits import LIMIT_S

Ask = Callable[..., None]


def names(path: Path) -> list[str]:
    """Return the names of the checks in a file that take no arguments."""
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if node.name.startswith("check_") and not node.args.args]


@contextmanager
def asking(library: str, path: Path) -> Iterator[Ask]:
    """Provide a function that runs a check of the file by name, and fails as the check did.

    Skips the test if the library's environment was not built.
    """
    python = registry.baseline_python(library)
    if not python.is_file():
        pytest.skip(f"{library} is not built: placerl baselines {library}")
    with adapters.importable_primitives() as package:
        command = [str(python), "-P", str(Path(__file__).parent / "run_checks.py"), str(path)]
        variables = {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
        with Worker(command, environment_variables=variables) as worker:

            def ask(check: str, **arguments: Any) -> None:
                answer = worker.ask_json({"check": check, "arguments": arguments}, LIMIT_S)
                assert not answer["failure"], answer["failure"]

            yield ask
