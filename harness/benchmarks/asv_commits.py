"""`make asv`: the benchmarks on two commits, interleaved; fails on a regression larger than the noise.

A case looks slower when asv finds its samples different and its median more than `FACTOR` times as long. But the
samples of one process share its luck, and with a hundred cases on a machine that others use too some look slower by
chance. So what looks slower is measured `CONFIRMATIONS` times more, in new processes, and counts when it looks slower
every time and the interval of the mean of these ratios lies above `FACTOR`: a steady case is caught at a small
slowdown, a noisy one at a larger one. The interval's level leaves all cases together a chance of `FALSE_ALARM` to fail
an unchanged tree.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import t

FACTOR = 1.1
CONFIRMATIONS = 5
FALSE_ALARM = 0.01
_SLOWER = re.compile(r"^\|\s*\+\s*\|.*\|\s*(?P<ratio>[\d.]+)\s*\|\s*(?P<name>\S.*?)\s*\|\s*$")
ASV = Path(sys.executable).with_name("asv")


class BrokenRun(Exception):
    """asv did not get as far as a comparison."""


def slower_in(output: str) -> dict[str, float]:
    """The cases that the table of `asv continuous` marks as slower, by name, with the ratio of their times."""
    matches = map(_SLOWER.match, output.splitlines())
    return {found["name"]: float(found["ratio"]) for found in matches if found}


def compared(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
    """Runs both commits' benchmarks once; the cases that are slower.

    Args:
        folder: of the clone, where `asv.conf.json` lies.
        before, after: commits.
        only: a regular expression that a case's name must match somewhere; all when empty.

    Raises:
        BrokenRun: no comparison came out; what asv wrote says why.
    """
    command = [str(ASV), "continuous", "--factor", str(FACTOR), "--interleave-rounds", "--show-stderr"]
    command += [*(["--bench", only] if only else []), before, after]
    lines = []
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as asv:
        assert asv.stdout is not None
        for line in asv.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    slower = slower_in("".join(lines))
    # asv's status says whether any is slower; any other failure has no table with such a line.
    if asv.returncode and not slower:
        raise BrokenRun(f"asv ended with status {asv.returncode}")
    return slower


def least_ratio(ratios: Sequence[float], chance: float) -> float:
    """The end of the interval of the geometric mean, below which the true ratio lies with a small chance.

    Args:
        ratios: of independent comparisons, two or more; their logarithms are taken to be normal (Student's t).
        chance: between 0 and 1.
    """
    logarithms = np.log(ratios)
    error = logarithms.std(ddof=1) / np.sqrt(len(logarithms))
    return float(np.exp(logarithms.mean() - t.ppf(1 - chance, len(logarithms) - 1) * error))


def regressions(folder: Path, before: str, after: str, only: str = "") -> dict[str, float]:
    """The cases that are slower beyond their noise, with the mean ratio of their times; arguments as `compared`."""
    first = compared(folder, before, after, only)
    ratios: dict[str, list[float]] = {name: [] for name in first}
    for _ in range(CONFIRMATIONS):
        if not ratios:
            break
        print(f"\nMeasured again, as it looks slower: {', '.join(ratios)}\n", flush=True)
        again = compared(folder, before, after, "|".join(map(re.escape, ratios)))
        ratios = {name: [*found, again[name]] for name, found in ratios.items() if name in again}
    return {
        name: float(np.exp(np.log(found).mean()))
        for name, found in ratios.items()
        if least_ratio(found, FALSE_ALARM / len(first)) > FACTOR
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares two commits of the repository in the current folder; 1 for a regression, 2 where asv failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", nargs="?", default="HEAD^", help="a commit")
    parser.add_argument("after", nargs="?", default="HEAD", help="a commit")
    parser.add_argument("--only", default="", help="a regular expression that names of cases must match")
    options = parser.parse_args(arguments)
    folder = Path.cwd()
    subprocess.run([str(ASV), "machine", "--yes"], cwd=folder, check=True)
    try:
        found = regressions(folder, options.before, options.after, options.only)
    except BrokenRun as error:
        print(error, file=sys.stderr)
        return 2
    for name, ratio in found.items():
        print(f"slower: {name}: {ratio:.3g} times as long")
    print(
        f"{len(found)} regressions from {options.before} to {options.after}, beyond {FACTOR} times and the noise"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
