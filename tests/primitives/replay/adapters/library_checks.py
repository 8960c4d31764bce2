"""Runs files of checks in a library's own environment (`run_checks.py`), for tests.

    ask, test_pfrl = suite("pfrl", "pfrl_checks.py")

makes each check that takes no arguments a test, and the fixture `ask` runs any check by name.
"""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.compare import adapters, registry
from placerl.harness.compare.protocol import Worker
from tests.limits import LIMIT_S

FOLDER = Path(__file__).parent
Ask = Callable[..., None]


def suite(library: str, *files: str) -> tuple[Callable[[], Iterator[Ask]], Callable[[Ask, str], None]]:
    """Return a module's fixture `ask` and its test of every check in files of this folder."""
    paths = [FOLDER / file for file in files]

    @pytest.fixture(scope="module")
    def ask() -> Iterator[Ask]:
        with asking(library, *paths) as ask:
            yield ask

    @pytest.mark.parametrize("check", [name for path in paths for name in names(path)])
    def test(ask: Ask, check: str) -> None:
        ask(check)

    return ask, test


def names(path: Path) -> list[str]:
    """Return the names of the checks in a file that take no arguments."""
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if node.name.startswith("check_") and not node.args.args]


@contextmanager
def asking(library: str, *paths: Path) -> Iterator[Ask]:
    """Provide a function that runs a check of the files by name, and fails as the check did.

    Skips the test if the library's environment was not built.
    """
    if not registry.is_built(library):
        pytest.skip(f"{library} is not built: placerl baselines {library}")
    python = registry.baseline_python(library)
    with adapters.importable_primitives() as package:
        command = [str(python), "-P", str(FOLDER / "run_checks.py"), *map(str, paths)]
        variables = {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"}
        with Worker(command, environment_variables=variables) as worker:

            def ask(check: str, **arguments: Any) -> None:
                answer = worker.ask_json({"check": check, "arguments": arguments}, LIMIT_S)
                assert not answer["failure"], answer["failure"]

            yield ask
