"""What the benchmarks' commands share: where they write and store, and how they end."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from harness.cli.common import RESULTS, begin
from harness.core.errors import UserError
from harness.core.progress import Report, bar
from harness.plan import tiers
from harness.plan.plan import measure_now
from harness.store.cell import Cell
from harness.store.store import Measurement, Run

Measure = Callable[[Report], list[Measurement]]


def parser(description: str, folder: str) -> argparse.ArgumentParser:
    """Options of every benchmark: --out for its table, --results and --tier for the run that keeps its rows.

    Args:
        description: of the benchmark.
        folder: under the results, where the table goes when --out is left out.
    """
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    made.add_argument("--out", type=Path, default=RESULTS / folder, help="folder of the table")
    made.add_argument("--results", type=Path, default=RESULTS, help="folder of the store")
    made.add_argument("--tier", default="quick", help="tier of the run that the rows are stored with")
    return made


def open_run(options: argparse.Namespace) -> Run:
    """The run that the rows go to, opened before anything is measured: a store that is in use says so at once.

    Raises:
        UserError: no such tier, or a store or folder that cannot be written.
    """
    tier = tiers.tier(options.tier)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(options.out, "--out", error.strerror, "a folder that can be written") from error
    return begin(options.results, tier)


def measure_cell(run: Run, key: str, measure: Measure) -> list[Measurement]:
    """Measures one cell and stores its rows.

    Args:
        run: where to.
        key: the cell's, such as `bench-replay/1048576`.
        measure: does the work and returns the rows.
    """
    with bar(key) as report:
        return measure_now(run, Cell(key, 0, lambda _, inner: measure(inner)), report)


def write_table(options: argparse.Namespace, text: str) -> None:
    """Prints the table, and keeps it as `table.md` in the folder --out."""
    (options.out / "table.md").write_text(text, encoding="utf-8")
    print(text)


def finish(main: Callable[[Sequence[str] | None], int]) -> NoReturn:
    """Runs a benchmark's command and exits: with status 2 and one line for what the user can mend."""
    try:
        status = main(None)
    except UserError as error:
        print(error, file=sys.stderr)
        status = 2
    sys.exit(status)
