"""The command `placerl learn`, which trains each algorithm here and in other libraries and prints the returns."""

from typing import Annotated

import typer

from placerl.harness import workloads
from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, TierOption, named_baselines, out, print_json
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.plan import tiers
from placerl.harness.store.peak_memory import recorded


@app.command(epilog="Example: `placerl learn --tier quick`")
def learn(
    tier_name: TierOption = "quick",
    named: Annotated[str, typer.Option("--baselines", help="Names joined by commas, or `all`.")] = "sb3",
    mapping: Annotated[str, typer.Option("--mapping", help="Learner-RMM-Storage.")] = NATIVE_MAPPING,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train each algorithm here and in other libraries, and print its returns: at the end of training, and the best."""
    from placerl.harness.compare import learning
    from placerl.harness.plan import plan
    from placerl.harness.plan.predicting import begin
    from placerl.harness.runtime import mapped_parts

    tier, under = tiers.tier(tier_name), Mapping.parse(mapping)
    cells = learning.plan(tier.name, [learning.OURS, *named_baselines(named, training=True)], under)
    mapped_parts.check(workloads.load("cartpole-dqn"), under)
    opened = begin(results, tier)
    with bar("learn") as report, recorded(opened):
        plan.execute(opened, cells, report)
    rows, highest = learning.summaries(opened), learning.bests(opened)
    if as_json:
        print_json([row.to_json() for row in (*rows, *highest)])
    else:
        out.print(learning.table(rows, highest))
    asked = {cell.key for cell in cells if cell.key.endswith("/summary")}
    summaries = [row for row in rows if learning.summary_key(row.workload, row.system) in asked]
    if (
        len(summaries) < len(asked)
        or any(row.reason for row in summaries)
        or any(cell.failed(opened) for cell in cells)
    ):
        raise typer.Exit(1)
