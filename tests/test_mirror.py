"""The tests mirror the tree of `primitives` and `harness`: a test file stands where its source does, with its name.

`tests/F/test_X.py` tests `F/X.py`, the command `F/X_command.py`, a C++ file X or the package F/X; in a package's own
folder `test_F.py` tests what the package itself offers. `X_test.cpp` tests X in C++. A golden model that only tests
need stands among them, with its test next to it.

    .venv/bin/python -P tests/test_mirror.py    # lists the files that do not
"""

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("primitives", "harness")
SUITES = {
    "harness/cli/bench/test_primitives.py": "the cases of asv and of pytest-benchmark",
    "harness/cli/test_help_pages.py": "every command",
    "harness/cli/test_map_card.py": "the command `map` with a machine's card",
    "harness/cli/test_stores.py": "the commands that read finished stores",
    "harness/cli/test_values.py": "every option and argument of every command",
    "harness/measure/test_comparisons.py": "two cases in the same rounds",
    "harness/measure/test_settling.py": "how long a measurement goes on",
    "harness/papers/test_choosing.py": "every claim: how it is asked for",
    "harness/papers/test_reads.py": "every claim: the rows that it reads",
    "harness/papers/test_suspect.py": "every claim: impossible numbers",
    "harness/papers/test_toy_paper.py": "what adding a paper takes",
    "harness/papers/test_verdicts.py": "every paper's verdicts",
    "harness/plan/test_without_simulator.py": "simulated devices without a simulator",
    "harness/profile/test_simulated_learner.py": "the FPGA's learners",
    "harness/profile/test_simulated_peaks.py": "the FPGA's units",
    "harness/profile/test_simulated_replay.py": "the FPGA's replay managers",
    "harness/report/test_browser.py": "the report in a browser",
    "harness/report/test_layout.py": "every page of the report",
    "harness/runtime/test_schedule_agrees.py": "the loop under a given and under a virtual clock",
    "harness/runtime/test_virtual_time.py": "trainings under a virtual clock",
    "harness/store/test_merge.py": "merging stores",
    "harness/test_without_extras.py": "the package without its extras",
    "harness/validate/test_mappings_run.py": "which mappings a validation runs",
    "harness/validate/test_real_cell.py": "a validation's rows",
    "harness/workloads/test_shipped.py": "every shipped workload",
    "primitives/algorithms/test_learning.py": "every algorithm learns",
    "primitives/device/test_gradient_step.py": "sum tree, rows and learner on one device",
    "primitives/fpga/replay_pipeline/test_leaves_in_use.py": "trees that use fewer leaves than they have room for",
    "primitives/learner/test_annealing.py": "every algorithm, in every backend of the learner",
    "primitives/learner/test_graph_conformance.py": "every backend of the learner",
    "primitives/learner/test_n_step.py": "every backend of the learner and the replay together",
    "primitives/learner/test_precision.py": "every backend of the learner",
    "primitives/learner/test_process.py": "every backend of the learner",
    "primitives/quantization/test_conformance.py": "every backend of fixed point",
    "primitives/quantization/native/executor_test.cpp": "the executor's operations in fixed point, on threads",
    "primitives/quantization/test_native_products.py": "several C++ files of the products",
    "primitives/replay/test_numbers.py": "every replay",
    "primitives/replay/test_process.py": "every replay",
    "primitives/sum_tree/test_conformance.py": "every backend of the sum tree",
    "primitives/sum_tree/test_new_backend.py": "what adding a backend takes",
}
"""Test files of more than one source, and of what."""
SUFFIXES = (".py", ".hpp", ".cpp", ".h")


def sources(test: Path) -> Iterator[Path]:
    """Where the source of a test file may lie; both relative to their roots."""
    folder = test.parent
    name = test.stem.removesuffix("_test") if test.suffix == ".cpp" else test.stem.removeprefix("test_")
    for suffix in SUFFIXES:
        yield folder / f"{name}{suffix}"
        yield folder / "native" / f"{name}{suffix}"
    yield Path("tests") / folder / f"{name}.py"
    yield folder / f"{name}_command.py"
    yield folder / name / "__init__.py"
    if name == folder.name:
        yield folder / "__init__.py"


def violations(root: Path) -> list[str]:
    """Return the test files that mirror no source and are no suite, and suites that are not there."""
    tests = root / "tests"
    found = [
        path
        for package in PACKAGES
        for pattern in ("test_*.py", "*_test.cpp")
        for path in tests.glob(f"{package}/**/{pattern}")
    ]
    relative = {path.relative_to(tests) for path in found}
    alone = (test for test in relative if not any((root / source).is_file() for source in sources(test)))
    names = {test.as_posix() for test in alone}
    missing = {name for name in SUITES if not (tests / name).is_file()} if root == ROOT else set()
    return sorted((names - {*SUITES}) | missing)


def test_every_test_file_mirrors_a_source() -> None:
    assert not violations(ROOT)


def test_a_file_without_a_source_is_found(tmp_path: Path) -> None:
    for name in ("x/y.py", "x/native/z.hpp", "x/__init__.py", "x/w/__init__.py"):
        path = tmp_path / "primitives" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name in (
        "x/test_y.py",
        "x/native/z_test.cpp",
        "x/test_x.py",
        "x/test_w.py",
        "test_x.py",
        "x/u.py",
        "x/test_u.py",
    ):
        path = tmp_path / "tests" / "primitives" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert violations(tmp_path) == []
    (tmp_path / "tests" / "primitives" / "x" / "test_v.py").touch()
    (tmp_path / "tests" / "primitives" / "test_y.py").touch()
    assert violations(tmp_path) == ["primitives/test_y.py", "primitives/x/test_v.py"]


if __name__ == "__main__":
    print(*(found := violations(ROOT)), sep="\n")
    sys.exit(bool(found))
