"""Times every primitive on two commits with asv, and fails if one got slower by more than the noise.

A case is a primitive on one backend. It looks slower if its time (measured as in `timed/primitives.py`) is more than
`FACTOR` times as long on the second commit. However, another load may slow down a whole process, and among many cases
some look slower by chance. Such cases are therefore measured `CONFIRMATIONS` more times, in new processes of both
commits in turn. A case has a regression if the interval of the mean of these ratios is above `FACTOR`: a small
slowdown is found if the case's times vary little, and only a larger one if they vary much. The level of the interval
is chosen such that two commits with the same code fail with a chance of at most `FALSE_ALARM`.
"""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import t

from placerl.harness.core.errors import UserError

FACTOR = 1.1
CONFIRMATIONS = 10
FALSE_ALARM = 0.01
RESULTS = Path("results", "asv", "results")  # as set in `asv.conf.json`
PACKAGE = "src/placerl/__init__.py"
ASV = Path(sys.executable).with_name("asv")
_COMPARED = ("BENCHMARKS NOT SIGNIFICANTLY CHANGED", "SOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY")
"""The output of `asv continuous` ends with one of these, unless it failed."""


class BrokenRun(Exception):
    """An error: asv made no comparison of the commits, or a case failed."""


def times_s(folder: Path, commit: str) -> dict[str, float | None]:
    """Return the times of all cases that asv stored for a commit.

    Args:
        folder: folder of the repository, with `asv.conf.json`.

    Returns:
        Seconds per call by the case's name. None for a case without a time: it failed, is not supported, or was not
        requested.
    """
    by_case: dict[str, float | None] = {}
    for path in (folder / RESULTS).glob(f"*/{commit[:8]}-*.json"):
        stored = json.loads(path.read_text())
        for benchmark, row in stored["results"].items():
            columns = dict(zip(stored["result_columns"], row, strict=False))  # asv omits an empty last one
            cases = list(itertools.product(*columns["params"]))
            for values, time_s in zip(cases, columns["result"] or [None] * len(cases), strict=True):
                by_case[f"{benchmark}({', '.join(values)})"] = (
                    None if time_s is None or isnan(time_s) else time_s
                )
    return by_case


def compared(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
    """Time the cases, each a primitive on one backend, once on both commits.

    Args:
        only: regular expression that must match a part of a case's name; empty for all.

    Returns:
        For each case, by name, the time on the commit `after` divided by that on `before`.

    Raises:
        BrokenRun: asv made no comparison; no case has a time on both commits; or a case has a time on the first
            commit and none on the second.
    """
    command = [str(ASV), "continuous", "--factor", str(FACTOR), "--show-stderr"]
    command += [*(["--bench", only] if only else []), before, after]
    done = False
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as asv:
        assert asv.stdout is not None
        for line in asv.stdout:
            print(line, end="", flush=True)
            done |= line.startswith(_COMPARED)
    if not done:
        raise BrokenRun(f"asv ended with status {asv.returncode}")
    old_s, new_s = (times_s(folder, _whole(folder, commit)) for commit in (before, after))
    ratios = {}
    for name, time_s in old_s.items():
        if time_s is None or not re.search(only, name) or name not in new_s:
            continue
        if (now_s := new_s[name]) is None:
            raise BrokenRun(f"{name}: no time on {after}")
        ratios[name] = now_s / time_s
    if not ratios:
        raise BrokenRun("no case has a time on both commits")
    return ratios


def _whole(folder: Path, commit: str) -> str:
    """Return the full hash of a commit, also if an annotated tag names it: a tag has a hash of its own."""
    command = ["git", "rev-parse", f"{commit}^{{commit}}"]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def least_ratio(ratios: Sequence[float], chance: float) -> float:
    """Return a lower bound of the true ratio, which is below it only with a given chance.

    Args:
        ratios: ratios of two or more independent comparisons; their logarithms are assumed normal (Student's t).
        chance: the chance that the geometric mean's true value is below the bound, between 0 and 1.
    """
    logarithms = np.log(ratios)
    error = logarithms.std(ddof=1) / np.sqrt(len(logarithms))
    return float(np.exp(logarithms.mean() - t.ppf(1 - chance, len(logarithms) - 1) * error))


def regressions(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
    """Return the cases that got slower by more than their noise.

    A case is a primitive on one backend. Cases that look slower in a first comparison are compared `CONFIRMATIONS`
    more times, and only the later ratios (time after divided by time before) count.

    Args:
        only: regular expression that must match a part of a case's name; empty for all.

    Returns:
        By the name of each such case, the geometric mean of its ratios.

    Raises:
        BrokenRun: a comparison failed (`compared`), or a case that looks slower got no time in a later one.
    """
    first = [name for name, ratio in compared(folder, before, after, only).items() if ratio > FACTOR]
    if not first:
        return {}
    print(f"\nMeasured again, as it looks slower: {', '.join(first)}\n", flush=True)
    chosen = "|".join(map(re.escape, first))
    again = [compared(folder, before, after, chosen) for _ in range(CONFIRMATIONS)]
    slower = {}
    for name in first:
        if not all(name in one for one in again):
            raise BrokenRun(f"{name}: no time on {before} when it was measured again")
        ratios = [one[name] for one in again]
        mean, least = float(np.exp(np.log(ratios).mean())), least_ratio(ratios, FALSE_ALARM / len(first))
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name}: {mean:.3g} times as long, at least {least:.3g}: {each}", flush=True)
        if least > FACTOR:
            slower[name] = mean
    return slower


def check_commits(folder: Path, *commits: str) -> None:
    """Check that the benchmarks, which import `placerl`, can run on all commits.

    Raises:
        UserError: a commit is not in the repository, or is older than the package `placerl`.
    """
    for commit in commits:
        if not _has(folder, f"{commit}^{{commit}}"):
            raise UserError(
                "command line", "commit", repr(commit), "a commit of the repository in this folder"
            )
        if not _has(folder, f"{commit}:{PACKAGE}"):
            allowed = f"a commit that has {PACKAGE}: older ones have no package `placerl`"
            raise UserError("command line", "commit", repr(commit), allowed)


def _has(folder: Path, name: str) -> bool:
    """Return whether git knows an object by this name."""
    command = ["git", "cat-file", "-e", name]
    return not subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode


def describe_machine(folder: Path) -> None:
    """Make asv record the properties of this machine, with its own defaults, which it needs before its first run.

    Raises:
        UserError: asv is not installed.
    """
    try:
        subprocess.run([str(ASV), "machine", "--yes"], cwd=folder, check=True)
    except FileNotFoundError:
        raise UserError(
            "this machine", "asv", "nothing", "make asv, or pip install 'placerl[bench]'"
        ) from None


def main(
    before: Annotated[str, typer.Argument(help="A commit.")] = "HEAD^",
    after: Annotated[str, typer.Argument(help="A commit.")] = "HEAD",
    only: Annotated[
        str, typer.Option("--only", help="A regular expression that names of cases must match.")
    ] = "",
) -> None:
    """Time every primitive on two commits of the repository in this folder; fail if one got slower beyond the noise.

    Exit status 1 for a regression, 2 if asv failed.
    """
    folder = Path.cwd()
    check_commits(folder, before, after)
    describe_machine(folder)
    try:
        slower = regressions(folder, before, after, only)
    except BrokenRun as error:
        typer.echo(error, err=True)
        raise typer.Exit(2) from None
    for name, ratio in slower.items():
        typer.echo(f"slower: {name}: {ratio:.3g} times as long")
    typer.echo(f"{len(slower)} regressions from {before} to {after}, beyond {FACTOR} times and the noise")
    if slower:
        raise typer.Exit(1)
