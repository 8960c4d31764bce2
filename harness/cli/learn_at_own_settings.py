"""What `placerl learn --tier night` does: it trains each system at its own best settings, and compares all."""

from pathlib import Path

from rich.table import Table

from placerl.harness.cli.common import exit_if_failed, out, print_json, say
from placerl.harness.compare import night_learning
from placerl.harness.compare.night_learning import Compared
from placerl.harness.compare.own_settings import OURS, goals
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError
from placerl.harness.core.progress import bar
from placerl.harness.plan import execution
from placerl.harness.plan.predicting import begin
from placerl.harness.plan.tiers import NIGHT
from placerl.harness.store.peak_memory import recorded


def learn_at_own_settings(named: str, results: Path, as_json: bool) -> None:
    """Train each system at its own best settings, and print what each goal's trainings learnt and all together.

    Raises:
        UserError: a baseline has no settings for any goal.
    """
    known = tuple(dict.fromkeys(name for goal in goals().values() for name in goal.systems[1:]))
    systems = known if named == "all" else tuple(dict.fromkeys(part.strip() for part in named.split(",")))
    for name in systems:
        if name not in known:
            allowed = f"{', '.join(known)}, all"
            raise UserError(COMMAND_LINE, OptionName("baselines"), repr(name), allowed, name=name)
    cells = night_learning.plan([OURS, *systems])
    opened = begin(results, NIGHT)
    with bar("learn") as report, recorded(opened):
        execution.execute(opened, cells, report)
    rows = night_learning.rows_of(opened)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        compared = Compared.of(rows)
        title = "Return in the last fifth, at own settings"
        _print(title, ("workload", "system", "return", "s", "seeds"), night_learning.by_task(compared))
        title = "Scores: random actions 0, the goal 1"
        columns = ("system", "goals", "score", "score in placerl's time", "placerl higher in")
        _print(title, columns, night_learning.over_all(compared))
        for reason in dict.fromkeys(row.reason for row in rows if row.reason):
            say(reason)
    exit_if_failed([cell.key for cell in cells if cell.failed(opened)])


def _print(title: str, columns: tuple[str, ...], lines: list[list[str]]) -> None:
    table = Table(*columns, title=title)
    for line in lines:
        table.add_row(*line)
    out.print(table)
