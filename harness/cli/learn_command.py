"""The command `placerl learn`, which trains each algorithm here and in other libraries and prints the returns."""

from typing import Annotated

import typer

from placerl.harness import workloads
from placerl.harness.cli.app import app
from placerl.harness.cli.common import (
    JsonOption,
    ResultsOption,
    exit_if_failed,
    named_baselines,
    out,
    print_json,
)
from placerl.harness.cli.completion import TIERS, completed
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.plan import tiers
from placerl.harness.plan.tiers import NIGHT
from placerl.harness.store.peak_memory import recorded

BASELINES, AT_NIGHT = "sb3", "sb3,sbx"


@app.command(epilog="Example: `placerl learn --tier quick`")
def learn(
    tier_name: Annotated[
        str,
        typer.Option(
            "--tier",
            help=f"How much is trained: {', '.join(TIERS)}; {NIGHT.name} trains each library at its own best "
            "settings, for days.",
            autocompletion=completed(lambda: (*TIERS, NIGHT.name)),
        ),
    ] = "quick",
    named: Annotated[
        str | None,
        typer.Option(
            "--baselines",
            help=f"Names joined by commas, or `all`; by default {BASELINES}, in the tier {NIGHT.name} {AT_NIGHT}.",
        ),
    ] = None,
    mapping: Annotated[str, typer.Option("--mapping", help="Learner-RMM-Storage.")] = NATIVE_MAPPING,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train each algorithm here and in other libraries, and print its returns: at the end of training, and the best."""
    from placerl.harness.compare import learning
    from placerl.harness.plan import execution
    from placerl.harness.plan.predicting import begin
    from placerl.harness.runtime import mapped_parts

    tier, under = tiers.tier(tier_name, NIGHT), Mapping.parse(mapping)
    if tier is NIGHT:
        from placerl.harness.cli.learn_at_own_settings import learn_at_own_settings

        if mapping != NATIVE_MAPPING:
            raise UserError(COMMAND_LINE, OptionName("mapping"), mapping, f"{NATIVE_MAPPING} in this tier")
        learn_at_own_settings(named or AT_NIGHT, results, as_json)
        return
    asked_for = named_baselines(named or BASELINES, training=True)
    cells = learning.plan(tier.name, [learning.OURS, *asked_for], under)
    mapped_parts.check(workloads.load("cartpole-dqn"), under)
    opened = begin(results, tier)
    with bar("learn") as report, recorded(opened):
        execution.execute(opened, cells, report)
    rows, highest = learning.summaries(opened), learning.bests(opened)
    if as_json:
        print_json([row.to_json() for row in (*rows, *highest)])
    else:
        out.print(learning.table(rows, highest))
    summarised = {learning.summary_key(row.workload, row.system) for row in rows if not row.reason}
    exit_if_failed(
        [
            cell.key
            for cell in cells
            if cell.failed(opened) or (cell.key.endswith("/summary") and cell.key not in summarised)
        ]
    )
