"""`make mutants`: can the tests of a file fail? Counts the single-token mutants that its mirrored tests kill.

The mutants are Cosmic Ray's: a comparison turned, an operator swapped, a constant one larger or smaller, `and` for
`or`, `not` added, a loop that does not run, a decorator removed. A place in the code gets one mutant, drawn with a
fixed seed; so are the places, where a file has more of them than asked for. Each mutant runs the mirrored fast tests
of its file in a process of its own, forked where the large packages are already imported, until the first failure.

`equivalent.toml` lists the mutants that no test can tell from the original, each with its reason, and the tests of the
files that have no test file of their own name.
"""

import argparse
import ast
import contextlib
import difflib
import importlib
import json
import os
import random
import re
import runpy
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTES = Path(__file__).with_name("equivalent.toml")
DEFAULT = (
    "harness/mapping/*.py",
    "harness/mapping/strategies/*.py",
    "harness/mapping/strategies/composed_loop/*.py",
    "harness/runtime/*.py",
    "harness/plan/cell_kinds.py",
    "harness/plan/execution.py",
    "harness/plan/plan.py",
    "harness/plan/under_load.py",
    "harness/store/diff.py",
    "harness/profile/simulated.py",
    "primitives/learner/fpga/fpga_backend.py",
)
# Imported once, before the mutants: what takes long and is not mutated.
LARGE = (
    *(
        "torch",
        "scipy.stats",
        "pandas",
        "pydantic.main",
        "gymnasium",
        "hypothesis",
        "psutil",
        "pytest",
        "xdist",
    ),
    *("rich.progress", "rich.table", "typer"),
)
ARITHMETIC = {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"}
BITS = {"BitOr", "BitAnd", "BitXor"}
SHIFTS = {"LShift", "RShift"}
ORDER = {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"}
IDENTITY = {"Is", "IsNot"}
_MARK = re.compile(r"[*/]\s*[,)]")
"""`*` or `/` among parameters, which Cosmic Ray takes for an operator."""


@dataclass(frozen=True)
class Mutant:
    """A file with one token changed.

    Attributes:
        file: The path from the repository's root.
        line: The number of the first changed line, from 1.
        before, after: The changed lines, without their indentation; several are joined by a line feed.
        source: The whole text of the mutant.
    """

    file: str
    line: int
    before: str
    after: str
    source: str


def _comparable(operator: str) -> bool:
    """Whether a swap stays among operators of one kind: `<<` for `+` would fail wherever it runs."""
    kind, _, rest = operator.removeprefix("core/").partition("_")
    before, _, after = rest.partition("_")
    if kind in ("ReplaceBinaryOperator", "ReplaceComparisonOperator"):
        return any({before, after} <= group for group in (ARITHMETIC, BITS, SHIFTS, ORDER, IDENTITY))
    return not (kind == "ReplaceUnaryOperator" and after in ("Invert", "UAdd"))


def _annotated_lines(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """The extents of the annotations: a mutant there changes no behaviour."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            part = getattr(node, name, None)
            if isinstance(part, ast.expr) and part.end_lineno is not None and part.end_col_offset is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _changed(before: str, after: str) -> tuple[int, str, str]:
    old, new = before.splitlines(), after.splitlines()
    blocks = [
        b for b in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if b[0] != "equal"
    ]
    first, last = blocks[0], blocks[-1]
    removed, added = old[first[1] : last[2]], new[first[3] : last[4]]
    if not any(map(str.strip, added)):  # the line that follows says which decorator it was
        removed = [*removed, old[last[2]]]

    def text(lines: list[str]) -> str:
        return "\n".join(filter(None, map(str.strip, lines)))

    return first[1] + 1, text(removed), text(added)


def _operators() -> Iterator[Any]:
    """Yield the operators of Cosmic Ray; the one for exceptions replaces a dotted name as a whole."""
    from cosmic_ray.exceptions import CosmicRayTestingException
    from cosmic_ray.operators.exception_replacer import ExceptionReplacer
    from cosmic_ray.plugins import get_operator, operator_names
    from parso.python.tree import Name

    class DottedExceptionReplacer(ExceptionReplacer):
        @staticmethod
        def _name_nodes(node: Any) -> Sequence[Any]:
            caught = node.children[1]
            if caught.type == "atom":  # in parentheses
                caught = caught.children[1]
            return caught.children[::2] if caught.type == "testlist_comp" else (caught,)

        def mutate(self, node: Any, index: int) -> Any:
            caught = self._name_nodes(node)[index]
            siblings = caught.parent.children
            other = Name(CosmicRayTestingException.__name__, caught.start_pos, caught.get_first_leaf().prefix)
            siblings[siblings.index(caught)] = other
            return node

    for name in operator_names():
        operator_class = get_operator(name)
        if not operator_class.arguments() and _comparable(name):
            yield (DottedExceptionReplacer if operator_class is ExceptionReplacer else operator_class)()


def mutants_of(file: str, source: str, seed: int = 0) -> list[Mutant]:
    """Draw one mutant for each place of a source that has any, in random order.

    What only type checkers read is no place: annotations and `@override`.

    Args:
        file: The path that the mutants carry.
        source: Python source.
        seed: Of the draws, together with the path.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code

    nodes = list(ast_nodes(get_ast(source)))
    tree = ast.parse(source)
    annotations = list(_annotated_lines(tree))
    places = defaultdict(list)
    for operator in _operators():
        positions = (position for node in nodes for position in operator.mutation_positions(node))
        for occurrence, (start, end) in enumerate(positions):
            if not any(first <= start and end <= last for first, last in annotations):
                places[start, end].append((operator, occurrence))
    draw = random.Random(f"{file} {seed}")
    found = []
    for place in sorted(places):
        ways = places[place]
        draw.shuffle(ways)
        for operator, occurrence in ways:
            mutated = mutate_code(source, operator, occurrence)
            if mutated is None:
                continue
            try:
                same = ast.dump(ast.parse(mutated)) == ast.dump(tree)
            except SyntaxError:
                continue
            if not same:
                found.append((place, Mutant(file, *_changed(source, mutated), mutated)))
                break
    draw.shuffle(found)
    lines = source.splitlines()
    return [
        one
        for ((line, column), _), one in found
        if not _MARK.match(lines[line - 1], column) and not one.before.startswith("@override\n")
    ]


def tests_of(file: str, listed: dict[str, list[str]]) -> list[str]:
    """The test files of a source file: the mirrored one, and those listed for it or for a pattern that it matches."""
    path = Path(file)
    mirrored = Path("tests") / path.parent / f"test_{path.name}"
    found = [name for pattern, names in listed.items() if path.match(pattern) for name in names]
    return ([str(mirrored)] if (ROOT / mirrored).is_file() else []) + found


def module_of(file: str) -> str:
    """Return the name by which a source file is imported: the package `placerl` holds the folders."""
    path = file.removesuffix(".py").removesuffix("/__init__").removeprefix("src/placerl").strip("/")
    return ".".join(filter(None, ("placerl", *path.split("/"))))


def _child(file: str, source: Path, tests: Sequence[str], folder: Path) -> None:
    """Becomes the tests of one mutant and ends with pytest's exit status."""
    os.setsid()  # so that what the tests leave running can be ended together
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.environ |= {
        "PLACERL_MUTANT_MODULE": module_of(file),
        "PLACERL_MUTANT_FILE": str(ROOT / file),
        "PLACERL_MUTANT_SOURCE": str(source),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "TMPDIR": str(folder),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        "CI": "1",  # hypothesis draws the same examples each time
    }
    tempfile.tempdir = None
    runpy.run_path(str(Path(__file__).with_name("sitecustomize.py")))
    sys.path.insert(0, str(ROOT))
    sys.argv = ["pytest"]
    import pytest

    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line", "-m", "not slow and not gpu"]
    os._exit(int(pytest.main([*options, *tests])))


def run(file: str, source: str, tests: Sequence[str], limit_s: float) -> tuple[int | None, float, str]:
    """Run tests against a source in place of a file.

    Returns:
        pytest's exit status, or None where it ran past the limit; seconds; the end of the output.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "source.py").write_text(source)
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            try:
                _child(file, folder / "source.py", tests, folder)
            finally:
                os._exit(70)
        status = None
        while status is None and time.monotonic() - start < limit_s:
            done, code = os.waitpid(child, os.WNOHANG)
            if done:
                status = os.waitstatus_to_exitcode(code)
            else:
                time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if status is None:
            os.waitpid(child, 0)
        return status, time.monotonic() - start, (folder / "output").read_text(errors="replace")[-2000:]


def count(file: str, places: int, seed: int, notes: dict, *, verbose: bool = False) -> dict:
    """Run the mutants of one file; prints those that survive.

    Returns:
        The file's row of the table: counts, and the survivors.
    """
    source = (ROOT / file).read_text()
    every = mutants_of(file, source, seed)
    tests = tests_of(file, notes.get("tests", {}))
    row = {"file": file, "places": len(every), "tests": tests, "survivors": []}
    if not every or not tests:
        return row | {"counts": {"untested": len(every)} if every else {}}
    status, seconds, output = run(file, source, tests, 600)
    if status != 0:
        raise SystemExit(f"{file}: its tests do not pass before anything is changed:\n{output}")
    equivalent = {(e["before"], e["after"]) for e in notes.get("equivalent", []) if e["file"] == file}
    unless_killed = {(e["before"], e["after"]) for e in notes.get("equivalent", []) if e["file"] == "*"}
    counts = Counter[str]()
    for mutant in every[:places]:
        change = mutant.before, mutant.after
        if change in equivalent:
            counts["equivalent"] += 1
            continue
        status, took_s, output = run(file, mutant.source, tests, 30 + 5 * seconds)
        if status == 5 or not all((ROOT / name).is_file() for name in tests):
            raise SystemExit(f"{file}:{mutant.line}: no test ran:\n{output}")
        outcome = "survived" if status == 0 else "timed out" if status is None else "killed"
        if outcome == "survived" and change in unless_killed:
            outcome = "equivalent"
        counts[outcome] += 1
        if outcome == "survived":
            row["survivors"].append({k: v for k, v in asdict(mutant).items() if k not in ("source", "file")})
            print(f"{file}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}", flush=True)
        if verbose:
            print(f"    {outcome} in {took_s:.1f} s: {file}:{mutant.line} {mutant.after!r}", flush=True)
    return row | {"counts": dict(counts), "tests_s": seconds}


def rate(counts: dict[str, int]) -> float | None:
    """Killed mutants over those that change behaviour; one that runs past its time limit is killed."""
    killed = counts.get("killed", 0) + counts.get("timed out", 0)
    all_of_them = killed + counts.get("survived", 0) + counts.get("untested", 0)
    return killed / all_of_them if all_of_them else None


def table(rows: Sequence[dict]) -> str:
    """The rows as a Markdown table, with a sum."""
    kinds = ("killed", "timed out", "survived", "equivalent", "untested")
    total = Counter[str]()
    lines = [
        f"| file | places | mutants | {' | '.join(kinds)} | killed of those that change behaviour |",
        "|---|" + "---:|" * (len(kinds) + 3),
    ]

    def line(name: str, places: int, counts: dict[str, int]) -> str:
        share = rate(counts)
        cells = [name, places, sum(counts.values()), *(counts.get(kind, 0) for kind in kinds)]
        return "| " + " | ".join(map(str, [*cells, "-" if share is None else f"{share:.0%}"])) + " |"

    for row in rows:
        total.update(row["counts"])
        lines.append(line(f"`{row['file']}`", row["places"], row["counts"]))
    return "\n".join([*lines, line("all", sum(row["places"] for row in rows), total)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="paths or patterns from the repository's root")
    parser.add_argument("--places", type=int, default=40, help="at most so many mutants a file (40)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--least", type=float, default=0.9, help="the share that must be killed in each file (0.9)"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    parser.add_argument("--verbose", action="store_true", help="say of every mutant how it ended")
    arguments = parser.parse_args()
    os.nice(max(0, 15 - os.nice(0)))  # whoever else works here goes first
    os.chdir(ROOT)
    files = sorted({str(p) for pattern in arguments.files or DEFAULT for p in Path().glob(pattern)})
    if not files:
        sys.exit(f"found no file of {arguments.files}")
    notes = tomllib.loads(NOTES.read_text())
    for name in LARGE:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    rows = []
    for file in files:
        rows.append(count(file, arguments.places, arguments.seed, notes, verbose=arguments.verbose))
        if arguments.out:
            arguments.out.write_text(json.dumps(rows, indent=1))
        print(table(rows[-1:]).splitlines()[2], flush=True)
    print(table(rows))
    low = [
        row["file"] for row in rows if (share := rate(row["counts"])) is not None and share < arguments.least
    ]
    sys.exit(f"below {arguments.least:.0%}: {', '.join(low)}" if low else None)


if __name__ == "__main__":
    main()
