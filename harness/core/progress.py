"""Shows progress bars with the remaining time on standard error, if it is a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

# A function that is told the progress: `done` of `total` units of work, and what is being done.
Report = Callable[[float, float, str], None]


def silent(done: float, total: float, what: str) -> None:
    """Do nothing; passed as the progress callback where no progress is to be shown."""


def part(report: Report, before: float, size: float, total: float, name: str) -> Report:
    """Return a function that reports the progress of one part of a larger job as progress of the whole job.

    Args:
        before: units of work that precede this part.
        name: name of this part, shown before what is being done.
    """

    def inner(done: float, inner_total: float, what: str) -> None:
        share = done / inner_total if inner_total else 1.0
        report(before + size * min(share, 1.0), total, f"{name}: {what}" if what else name)

    return inner


@dataclass(frozen=True)
class Bar:
    """A progress bar, and a line below it for the last result. Calling it reports progress (`Report`)."""

    progress: Progress
    task: TaskID
    description: str

    def __call__(self, done: float, total: float, what: str) -> None:
        """Show that `done` of `total` units of work are done, and what is being done."""
        label = f"{self.description}: {what}" if what else self.description
        self.progress.update(self.task, completed=done, total=total, description=label)

    def last(self, result: str) -> None:
        """Show a result in words; an empty text leaves the one before."""
        if result:
            self.progress.update(self.task, last=f"\n  last: {result}")


@contextmanager
def bar(description: str) -> Iterator[Bar]:
    """Show a progress bar during a `with` block, and yield it.

    Nothing is drawn if standard error is not a terminal.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}{task.fields[last]}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task(description, total=None, last=""), description)
