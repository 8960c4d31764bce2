"""The programs that the Makefile starts are there: most of its targets take too long to be tests."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

TEXT = (Path(__file__).parent.parent / "Makefile").read_text()
MODULES = sorted(set(re.findall(r" -m (harness\S*)", TEXT)))


def test_modules_are_found_in_it() -> None:
    assert len(MODULES) >= 10


@pytest.mark.parametrize("module", MODULES)
def test_a_module_can_be_run(module: str) -> None:
    spec = find_spec(module)
    assert spec is not None
    if spec.submodule_search_locations is not None:  # a package
        assert find_spec(f"{module}.__main__") is not None
