"""What `make asv` makes of asv's table, and what it does about a case that looks slower once."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from placerl.harness.cli.bench import asv_bench
from placerl.harness.core.errors import UserError

SLOW = "primitives.Primitives.track_call('a/32', 'sample native')"
ROOT = Path(__file__).parents[4]
FEW = r"cartpole-ddpg/32', '(sum_tree\.(sample|update) native|storage\.gather)'"
"""The cases that a planted slowdown is looked for in."""
SAMPLED = "sum_tree.sample native"
TWICE = """

_once = NativeSumTree.sample


def _twice(self, *arguments, **options):  # type: ignore
    _once(self, *arguments, **options)
    return _once(self, *arguments, **options)


NativeSumTree.sample = _twice  # type: ignore
"""


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def with_a_slower_commit(repository: Path, clone: Path) -> tuple[str, str, str]:
    """Clones a repository; returns its commit, one after it that changes nothing, and one that samples twice."""
    git(repository, "clone", "--quiet", "--no-hardlinks", str(repository), str(clone))
    start = git(clone, "rev-parse", "HEAD")
    git(clone, "commit", "--quiet", "--allow-empty", "-m", "change nothing")
    same = git(clone, "rev-parse", "HEAD")
    git(clone, "checkout", "--quiet", "-b", "slow", start)
    with (clone / "primitives/sum_tree/native_backend.py").open("a") as file:
        file.write(TWICE)
    git(clone, "commit", "--quiet", "-am", "sample twice")
    return start, same, git(clone, "rev-parse", "HEAD")


def stored_times(*times_s: float | None) -> dict[str, object]:
    """What asv 0.6 keeps of one benchmark with two parameters, of which the second has as many values as times."""
    values = [["'a/32'"], [f"'{name} native'" for name in ("sample", "update", "insert")[: len(times_s)]]]
    columns = ["result", "params", "version", "started_at", "profile"]
    row = [list(times_s), values, "0abc", 1]  # a last empty one is left out
    return {"result_columns": columns, "results": {"primitives.Primitives.track_call": row}}


def asv_that_writes(folder: Path, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "asv"
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {folder}/asked\necho '{said}'\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(asv_bench, "ASV", program)
    monkeypatch.setattr(asv_bench, "_whole", lambda folder, commit: commit * 40)


def keep(folder: Path, commit: str, *times_s: float | None) -> None:
    path = folder / asv_bench.RESULTS / "machine" / f"{commit * 8}-virtualenv-py3.11.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored_times(*times_s)))


CHANGED = "SOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY."


def test_every_case_is_compared_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asv_that_writes(tmp_path, CHANGED, monkeypatch)
    keep(tmp_path, "a", 1.0, 1.0, None)
    keep(tmp_path, "b", 1.0, 2.0, None)
    ratios = asv_bench.compared(tmp_path, "a", "b")
    assert ratios == {SLOW: 1.0, SLOW.replace("sample", "update"): 2.0}
    assert asv_bench.compared(tmp_path, "a", "b", "sample") == {SLOW: 1.0}
    assert (tmp_path / "asked").read_text().splitlines()[1].endswith("--bench sample a b")


@pytest.mark.parametrize("none", [None, float("nan")])
def test_a_case_that_has_no_time_any_more_is_no_pass(
    none: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asv_that_writes(tmp_path, CHANGED, monkeypatch)
    keep(tmp_path, "a", 1.0, 1.0)
    keep(tmp_path, "b", 1.0, none)
    with pytest.raises(asv_bench.BrokenRun, match=r"update native'\): no time on b"):
        asv_bench.compared(tmp_path, "a", "b")


def test_no_case_in_common_is_no_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asv_that_writes(tmp_path, CHANGED, monkeypatch)
    with pytest.raises(asv_bench.BrokenRun, match="no case has a time on both commits"):
        asv_bench.compared(tmp_path, "a", "b")
    keep(tmp_path, "a", None, 1.0)
    keep(tmp_path, "b", 1.0)
    with pytest.raises(asv_bench.BrokenRun, match="no case has a time on both commits"):
        asv_bench.compared(tmp_path, "a", "b")


def test_a_tag_names_the_commit_under_which_asv_stores_its_times(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "first")
    git(tmp_path, "tag", "-a", "v1", "-m", "annotated")
    assert asv_bench._whole(tmp_path, "v1") == git(tmp_path, "rev-parse", "HEAD")


def test_a_commit_before_the_package_had_its_name_is_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "without the package")
    (tmp_path / asv_bench.PACKAGE).parent.mkdir(parents=True)
    (tmp_path / asv_bench.PACKAGE).touch()
    git(tmp_path, "add", asv_bench.PACKAGE)
    git(tmp_path, "commit", "--quiet", "-m", "with the package")
    asv_bench.check_commits(tmp_path, "HEAD", "HEAD")
    with pytest.raises(UserError, match=r"commit: found 'HEAD\^'; allowed: a commit that has src/placerl/"):
        asv_bench.check_commits(tmp_path, "HEAD^", "HEAD")
    with pytest.raises(UserError, match="commit: found 'gone'; allowed: a commit of the repository"):
        asv_bench.check_commits(tmp_path, "HEAD", "gone")


def test_the_benchmarks_can_run_on_this_commit() -> None:
    assert (Path(__file__).parents[4] / asv_bench.PACKAGE).is_file()


Compare = Callable[..., dict[str, float]]


def answering(*tables: dict[str, float]) -> tuple[Compare, list[str]]:
    """A comparison that answers with made tables, the last one again and again; and what it was asked for."""
    asked: list[str] = []

    def compared(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
        asked.append(only)
        return tables[min(len(asked), len(tables)) - 1]

    return compared, asked


@pytest.mark.parametrize(
    ("tables", "expected", "comparisons"),
    [
        ([{SLOW: 1.05}], {}, 1),
        ([{SLOW: 2.0}, {SLOW: 1.0}], {}, 11),
        ([{SLOW: 2.0}, {SLOW: 1.9}], {SLOW: 1.9}, 11),
        ([{SLOW: 3.0}, *({SLOW: ratio} for ratio in (1.41, 1.38, 1.4, 1.42, 1.39) * 2)], {SLOW: 1.4}, 11),
        ([{SLOW: 3.0}, *({SLOW: ratio} for ratio in (1.02, 2.9, 0.9, 2.2, 0.99) * 2)], {}, 11),
    ],
)
def test_only_what_is_slower_beyond_its_noise_counts(
    tables: list[dict[str, float]],
    expected: dict[str, float],
    comparisons: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same mean of 1.5 counts where it is steady; the first comparison, which chose the case, does not count."""
    compared, asked = answering(*tables)
    monkeypatch.setattr(asv_bench, "compared", compared)
    assert asv_bench.regressions(Path(), "a", "b") == pytest.approx(expected, rel=1e-3)
    assert len(asked) == comparisons
    assert asked[0] == ""
    assert all("sample" in only for only in asked[1:])


def test_a_slow_case_without_a_time_in_a_repetition_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    compared, _ = answering({SLOW: 2.0, "other": 2.0}, {SLOW: 2.0, "other": 2.0}, {SLOW: 2.0})
    monkeypatch.setattr(asv_bench, "compared", compared)
    with pytest.raises(asv_bench.BrokenRun, match="other: no time on a when"):
        asv_bench.regressions(Path(), "a", "b")


def runs_with(
    times: dict[str, float], noise: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    """The regressions where processes have luck of their own."""
    rng = np.random.default_rng(seed)

    def compared(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
        luck = np.exp(rng.normal(0, noise, len(times)))
        made = {name: ratio * float(one) for (name, ratio), one in zip(times.items(), luck, strict=True)}
        return {name: ratio for name, ratio in made.items() if re.search(only, name)}

    monkeypatch.setattr(asv_bench, "compared", compared)
    return asv_bench.regressions(Path(), "a", "b")


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1, 0.3])
def test_an_unchanged_tree_of_a_hundred_cases_passes_however_noisy(
    noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {f"case {number:03}": 1.0 for number in range(100)}
    assert [seed for seed in range(100) if runs_with(times, noise, seed, monkeypatch)] == []


@pytest.mark.parametrize(("slowdown", "noise"), [(1.2, 0.01), (1.4, 0.03), (2.0, 0.08)])
def test_a_slowdown_is_caught_that_is_larger_than_the_cases_own_noise(
    slowdown: float, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = {f"case {number:03}": 1.0 for number in range(100)} | {SLOW: slowdown}
    caught = [seed for seed in range(100) if SLOW in runs_with(times, noise, seed, monkeypatch)]
    assert len(caught) >= 99


def test_an_asv_that_fails_is_no_regression_and_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asv_bench, "ASV", "/bin/false")
    with pytest.raises(asv_bench.BrokenRun, match="status 1"):
        asv_bench.compared(tmp_path, "a", "b")


def test_the_planted_commit_samples_twice_and_the_other_runs_the_same(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    backend = origin / "primitives" / "sum_tree" / "native_backend.py"
    backend.parent.mkdir(parents=True)
    backend.write_text(
        "class NativeSumTree:\n    calls = 0\n    def sample(self):\n        self.calls += 1\n"
    )
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        git(origin, *command)
    clone = tmp_path / "clone"
    start, same, slow = with_a_slower_commit(origin, clone)
    path = "primitives/sum_tree/native_backend.py"
    sources = [git(clone, "show", f"{commit}:{path}") for commit in (start, same, slow)]
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


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(6 * 3600)
def test_a_slowdown_to_half_the_speed_is_found_and_none_where_nothing_changed(tmp_path: Path) -> None:
    """Builds this repository three times, which needs a network, and takes hours on a machine that is not quiet."""
    if not asv_bench.ASV.exists():
        pytest.skip("asv is not installed: make asv")
    start, same, slow = with_a_slower_commit(ROOT, clone := tmp_path / "clone")
    git(clone, "checkout", "--quiet", start)
    asv_bench.describe_machine(clone)
    for _ in range(5):
        assert asv_bench.regressions(clone, start, same, FEW) == {}
        assert any(SAMPLED in name for name in asv_bench.regressions(clone, start, slow, FEW))
    assert asv_bench.regressions(clone, start, same) == {}
