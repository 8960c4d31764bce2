"""What `make asv` makes of asv's table, and what it does about a case that looks slower once."""

import subprocess
from pathlib import Path

import pytest

from harness.benchmarks import asv_check, asv_commits

TABLE = """
| Change   | Before [aaaa]   | After [bbbb]   |   Ratio | Benchmark (Parameter)                                  |
|----------|-----------------|----------------|---------|--------------------------------------------------------|
| +        | 2.51±0.1μs      | 5.02±0.1μs     |    2    | primitives.Primitives.time_call('a/32', 'sample native') |
| -        | 2.51±0.1μs      | 1.02±0.1μs     |    0.41 | primitives.Primitives.time_call('a/32', 'other native') |
"""
SLOW = "primitives.Primitives.time_call('a/32', 'sample native')"


def test_slower_cases_are_read_from_the_table_and_faster_ones_are_not() -> None:
    assert asv_commits.slower_in(TABLE) == {SLOW: 2.0}
    assert asv_commits.slower_in("BENCHMARKS NOT SIGNIFICANTLY CHANGED.") == {}


@pytest.mark.parametrize(
    ("second", "expected"), [({SLOW: 1.9}, {SLOW: 1.9}), ({}, {}), ({"another": 3.0}, {})]
)
def test_only_what_is_slower_twice_counts(
    second: dict[str, float], expected: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [{SLOW: 2.0}, second]
    asked = []

    def compared(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
        asked.append(only)
        return runs[len(asked) - 1]

    monkeypatch.setattr(asv_commits, "compared", compared)
    assert asv_commits.regressions(Path(), "a", "b") == expected
    assert asked[0] == ""
    assert "sample" in asked[1]


def test_an_asv_that_fails_is_no_regression_and_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asv_commits, "ASV", "/bin/false")
    with pytest.raises(asv_commits.BrokenRun, match="status 1"):
        asv_commits.compared(tmp_path, "a", "b")


def test_the_planted_commit_samples_twice_and_the_other_runs_the_same(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    backend = origin / "primitives" / "sum_tree" / "native_backend.py"
    backend.parent.mkdir(parents=True)
    backend.write_text(
        "class NativeSumTree:\n    calls = 0\n    def sample(self):\n        self.calls += 1\n"
    )
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        asv_check._git(origin, *command)
    clone = tmp_path / "clone"
    start, same, slow = asv_check.commits(origin, clone)
    path = "primitives/sum_tree/native_backend.py"
    sources = [asv_check._git(clone, "show", f"{commit}:{path}") for commit in (start, same, slow)]
    assert sources[0] == sources[1]
    names: dict[str, type] = {}
    exec(sources[2], names)
    tree = names["NativeSumTree"]()
    tree.sample()
    assert tree.calls == 2
    assert (
        subprocess.run(["git", "status", "--short"], cwd=origin, capture_output=True, check=True).stdout
        == b""
    )
