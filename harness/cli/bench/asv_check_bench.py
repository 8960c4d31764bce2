"""`make asv-check`: does `make asv` catch a slowdown to half the speed, and let an unchanged tree pass?

In a scratch clone two commits follow the current one: one that changes nothing that runs, and one that samples twice
from the native sum tree where once was asked for. Each is compared `TIMES` times, on a few cases; the one that changes
nothing `WHOLE` times on every case too.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.cli.bench import asv_bench

TIMES = 5
WHOLE = 1
ONLY = r"cartpole-ddpg/32', '(sum_tree\.(sample|update) native|storage\.gather)'"
SLOWED = "sum_tree.sample native"
_BACKEND = Path("primitives/sum_tree/native_backend.py")
_TWICE = """

_once = NativeSumTree.sample


def _twice(self, *arguments, **options):  # type: ignore
    _once(self, *arguments, **options)
    return _once(self, *arguments, **options)


NativeSumTree.sample = _twice  # type: ignore
"""


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=asv-check", "-c", "user.email=asv-check@localhost", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def commits(repository: Path, folder: Path) -> tuple[str, str, str]:
    """Clones a repository and adds the two commits.

    Returns:
        The current commit, the one that changes nothing, and the slow one; both follow the current one.
    """
    _git(repository, "clone", "--quiet", "--no-hardlinks", str(repository), str(folder))
    start = _git(folder, "rev-parse", "HEAD")
    (folder / "UNCHANGED").write_text("nothing that runs\n")
    _git(folder, "add", "UNCHANGED")
    _git(folder, "commit", "--quiet", "-m", "change nothing")
    same = _git(folder, "rev-parse", "HEAD")
    _git(folder, "checkout", "--quiet", "-b", "slow", start)
    with (folder / _BACKEND).open("a") as file:
        file.write(_TWICE)
    _git(folder, "commit", "--quiet", "-am", "sample twice")
    return start, same, _git(folder, "rev-parse", "HEAD")


def _slower(folder: Path, before: str, after: str, only: str = "") -> dict[str, float] | None:
    """What `asv_bench.regressions` finds; None, with the reason printed, where asv failed."""
    try:
        return asv_bench.regressions(folder, before, after, only)
    except asv_bench.BrokenRun as error:
        print(f"no comparison: {error}", flush=True)
        return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the check; 0 where every comparison came out as it should."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=TIMES, help="comparisons of each kind")
    parser.add_argument(
        "--whole", type=int, default=WHOLE, help="comparisons of the unchanged tree on every case"
    )
    parser.add_argument(
        "--folder", type=Path, help="of the scratch clone; kept. A temporary one when left out"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary) / "clone"
        start, same, slow = commits(Path.cwd(), folder)
        _git(folder, "checkout", "--quiet", start)
        subprocess.run([str(asv_bench.ASV), "machine", "--yes"], cwd=folder, check=True)
        caught = passed = 0
        for number in range(1, options.times + 1):
            passed += _slower(folder, start, same, ONLY) == {}
            caught += any(SLOWED in name for name in _slower(folder, start, slow, ONLY) or ())
            print(
                f"after {number}: unchanged passed {passed} times, planted slowdown caught {caught} times",
                flush=True,
            )
        whole = sum(_slower(folder, start, same) == {} for _ in range(options.whole))
    print(
        f"Unchanged tree passed {passed} of {options.times}, on every case {whole} of {options.whole}; "
        f"planted slowdown caught {caught} of {options.times}."
    )
    return 0 if passed == caught == options.times and whole == options.whole else 1


if __name__ == "__main__":
    sys.exit(main())
