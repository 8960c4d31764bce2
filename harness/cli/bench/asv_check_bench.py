"""Checks that `placerl bench asv` finds a slowdown to half the speed, and none if the code did not change.

In a scratch clone two commits follow the current one: one that does not change the program, and one in which the
native sum tree samples twice per call. Each is compared with the current one `TIMES` times on a few cases, and the
unchanged one also `WHOLE` times on every case.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.bench import asv_bench

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
    """Clone a repository, and add two commits to the clone: one that changes nothing, and one that is slower.

    Args:
        folder: the clone's folder, which must not exist.

    Returns:
        The hashes of three commits: the current one, one after it that changes nothing, and one after it that is
        slower.
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
    """Return the result of `asv_bench.regressions`; None, after printing the reason, if asv failed."""
    try:
        return asv_bench.regressions(folder, before, after, only)
    except asv_bench.BrokenRun as error:
        typer.echo(f"no comparison: {error}")
        return None


def main(
    times: Annotated[int, typer.Option("--times", min=1, help="Comparisons of each kind.")] = TIMES,
    every: Annotated[
        int, typer.Option("--whole", min=0, help="Comparisons of the unchanged tree on every case.")
    ] = WHOLE,
) -> None:
    """Check that `placerl bench asv` finds a slowdown to half the speed, and none if the code did not change."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "clone"
        start, same, slow = commits(Path.cwd(), folder)
        _git(folder, "checkout", "--quiet", start)
        asv_bench.describe_machine(folder)
        caught = passed = 0
        for number in range(1, times + 1):
            passed += _slower(folder, start, same, ONLY) == {}
            caught += any(SLOWED in name for name in _slower(folder, start, slow, ONLY) or ())
            said = f"unchanged passed {passed} times, planted slowdown caught {caught} times"
            typer.echo(f"after {number}: {said}")
        whole = sum(_slower(folder, start, same) == {} for _ in range(every))
    typer.echo(
        f"Unchanged tree passed {passed} of {times}, on every case {whole} of {every}; "
        f"planted slowdown caught {caught} of {times}."
    )
    if not (passed == caught == times and whole == every):
        raise typer.Exit(1)
