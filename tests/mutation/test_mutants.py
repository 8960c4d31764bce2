"""The mutants that `make mutants` draws, and the files that it reads: running them is its own test."""

import ast
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def script():
    spec = importlib.util.spec_from_file_location("mutants", HERE / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their own up
    spec.loader.exec_module(module)
    return module


mutants = script()
NOTES = tomllib.loads(mutants.NOTES.read_text())
SOURCE = '''
def scaled(values: list[int] | None, /, *, factor: float = 2.5) -> float | None:
    """1 + 1 and not 2."""
    if not values or factor < 0:
        return None
    return sum(value * factor for value in values)
'''


def test_a_place_has_one_mutant_which_compiles_and_differs():
    pytest.importorskip("cosmic_ray")
    found = mutants.mutants_of("some.py", SOURCE)
    assert found == mutants.mutants_of("some.py", SOURCE), "the same seed draws the same"
    assert found != mutants.mutants_of("some.py", SOURCE, seed=1)
    for one in found:
        assert ast.dump(ast.parse(one.source)) != ast.dump(ast.parse(SOURCE))
        changed = [line.strip() for line in one.source.splitlines() if line not in SOURCE.splitlines()]
        assert changed == [one.after]
        assert one.before in [line.strip() for line in SOURCE.splitlines()]
    text = "\n".join(one.after for one in found)
    assert "list[int] | None" in text, "annotations stay as they are"
    assert not any('"""' in one.after for one in found), "and so do docstrings"
    kinds = [one.before.split(maxsplit=1)[0] for one in found]
    assert kinds.count("return") == 1
    assert kinds.count("def") == 1
    assert kinds.count("if") == 5  # the whole, not, or, <, 0


def test_swaps_stay_among_operators_of_one_kind():
    assert mutants._comparable("core/ReplaceBinaryOperator_Add_Sub")
    assert mutants._comparable("core/ReplaceComparisonOperator_Lt_GtE")
    assert mutants._comparable("core/NumberReplacer")
    assert not mutants._comparable("core/ReplaceBinaryOperator_Add_LShift")
    assert not mutants._comparable("core/ReplaceComparisonOperator_Eq_IsNot")


def test_a_decorator_is_removed_except_one_that_only_type_checkers_read():
    pytest.importorskip("cosmic_ray")
    source = "class A(B):\n    @override\n    @cached\n    def f(self) -> int:\n        return g()\n"
    assert [one.before for one in mutants.mutants_of("some.py", source)] == ["@cached\ndef f(self) -> int:"]


def test_an_exception_is_replaced_whole_whatever_its_name():
    pytest.importorskip("cosmic_ray")
    other = "CosmicRayTestingException"
    clauses = {
        "OSError": {other},
        "zipfile.BadZipFile as error": {f"{other} as error"},
        "(KeyError)": {f"({other})"},
        "(zipfile.BadZipFile, KeyError)": {f"({other}, KeyError)", f"(zipfile.BadZipFile, {other})"},
    }
    for caught, expected in clauses.items():
        source = f"try:\n    read()\nexcept {caught}:\n    pass\n"
        found = [one.after for one in mutants.mutants_of("some.py", source)]
        assert sorted(found) == sorted(f"except {one}:" for one in expected)


def test_tests_are_the_mirrored_file_and_those_that_are_listed():
    listed = {"harness/mapping/__init__.py": ["tests/a.py"], "harness/papers/*/*.py": ["tests/b.py"]}
    assert mutants.tests_of("harness/store/diff.py", listed) == ["tests/harness/store/test_diff.py"]
    assert mutants.tests_of("harness/mapping/__init__.py", listed) == ["tests/a.py"]
    assert mutants.tests_of("harness/papers/map/table_5.py", listed) == [
        "tests/harness/papers/map/test_table_5.py",
        "tests/b.py",
    ]
    assert mutants.tests_of("harness/no_such_file.py", listed) == []


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("harness/store/diff.py", "placerl.harness.store.diff"),
        ("primitives/__init__.py", "placerl.primitives"),
        ("src/placerl/__init__.py", "placerl"),
        ("src/placerl/replay.py", "placerl.replay"),
    ],
)
def test_a_file_is_mutated_under_the_name_by_which_it_is_imported(file, module):
    assert mutants.module_of(file) == module
    assert importlib.import_module(module).__file__
    assert (ROOT / file).samefile(importlib.import_module(module).__file__)


def test_the_rate_leaves_out_what_changes_nothing():
    assert mutants.rate({"killed": 8, "timed out": 1, "survived": 1, "equivalent": 5}) == 0.9
    assert mutants.rate({"untested": 3}) == 0
    assert mutants.rate({"equivalent": 5}) is None


def test_a_module_is_loaded_from_the_mutant_in_processes_that_are_started(tmp_path):
    (tmp_path / "source.py").write_text("DRIFT = 'mutated'\n")
    environment = {
        "PYTHONPATH": str(HERE),
        "PLACERL_MUTANT_MODULE": "placerl.harness.core.provenance",
        "PLACERL_MUTANT_FILE": str(ROOT / "harness/core/provenance.py"),
        "PLACERL_MUTANT_SOURCE": str(tmp_path / "source.py"),
    }
    code = "import placerl.harness.core.provenance as p; print(p.DRIFT, p.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["mutated", str(ROOT / "harness/core/provenance.py")]


@pytest.mark.parametrize("one", NOTES["equivalent"], ids=lambda one: f"{one['file']}: {one['after']}")
def test_an_equivalent_mutant_is_of_lines_that_are_there_and_has_a_reason(one):
    assert one["reason"].endswith(".")
    assert one["before"] != one["after"]
    if one["file"] != "*":
        lines = [line.strip() for line in (ROOT / one["file"]).read_text().splitlines()]
        text = "\n".join(filter(None, lines))
        assert one["before"] in text


def test_files_that_have_tests_listed_are_there():
    for pattern, tests in NOTES["tests"].items():
        assert all((ROOT / name).is_file() for name in tests)
        files = [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)]
        assert files, pattern
        for file in files:
            names = mutants.tests_of(file, NOTES["tests"])
            assert len(set(names)) == len(names), f"{file}: a test is listed twice, or is the mirrored one"


@pytest.mark.parametrize("pattern", mutants.DEFAULT)
def test_a_pattern_of_the_default_finds_files_that_have_tests(pattern):
    found = [str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)]
    assert any(mutants.tests_of(file, NOTES["tests"]) for file in found)
