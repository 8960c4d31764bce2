"""Scripts that tests hold in strings import only names that exist: no linter and no type checker reads them."""

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
MADE_BY_TESTS = {"toy", "made"}
"""Packages that exist only while a test runs."""
IMPORT = re.compile(r"^\s*from (placerl[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def imports_in_strings(source: str) -> set[tuple[str, str]]:
    """Return module and name of each such import in a source's strings."""
    strings = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {
        (module, name.split(" as ")[0].strip())
        for text in strings
        for module, names in IMPORT.findall(text)
        for name in names.split(",")
    }


def exists(module: str, name: str) -> bool:
    try:
        made: ModuleType = import_module(module)
        return hasattr(made, name) or find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError:
        return False


def test_every_import_in_a_string_exists() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), module, name)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for module, name in imports_in_strings(path.read_text(encoding="utf-8"))
        if not MADE_BY_TESTS & set(module.split(".")) and path != Path(__file__)
    }
    assert len(found) > 20
    assert {one for one in found if not exists(*one[1:])} == set()


def test_an_import_of_a_name_that_is_gone_is_found() -> None:
    script = 'OWNER = """\nimport sys\nfrom placerl.harness.compare.protocol import Gone, Worker\n"""\n'
    found = imports_in_strings(script)
    assert found == {
        ("placerl.harness.compare.protocol", "Gone"),
        ("placerl.harness.compare.protocol", "Worker"),
    }
    assert [exists(*one) for one in sorted(found)] == [False, True]
