"""Progress bars with time left, on standard error, only when it is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

# Reports progress: `done` of `total` units, and what is being done.
Report = Callable[[float, float, str], None]


def silent(done: float, total: float, what: str) -> None:
    """A report that shows nothing."""


def part(report: Report, before: float, size: float, total: float, name: str) -> Report:
    """Return a report for one part of a larger job: `size` of `total` units, after the first `before`."""

    def inner(done: float, inner_total: float, what: str) -> None:
        share = done / inner_total if inner_total else 1.0
        report(before + size * min(share, 1.0), total, f"{name}: {what}" if what else name)

    return inner


@contextmanager
def bar(description: str) -> Iterator[Report]:
    """Show a progress bar during the block; nothing is drawn if standard error is not a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=None)

        def report(done: float, total: float, what: str) -> None:
            label = f"{description}: {what}" if what else description
            progress.update(task, completed=done, total=total, description=label)

        yield report
