"""The command `placerl validate`, which runs mappings and compares their throughput with the predictions."""

from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, PrecisionOption, ResultsOption, TierOption, out, print_json
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.plan import tiers
from placerl.harness.store.peak_memory import recorded


@app.command(name="validate", epilog="Example: `placerl validate --tier quick`")
def validate_command(
    tier_name: TierOption = "quick",
    only: Annotated[
        str, typer.Option("--only", help="Cells whose name contains this, such as `hopper-ddpg/256`.")
    ] = "",
    precision: PrecisionOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run finished.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Print every mapping's rate and errors, and the reasons for the errors."),
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Run every mapping, and print the errors of the predicted throughputs and the regret of the choices made.

    A mapping assigns the parts of a training to devices. The regret of a choice is the fraction of the best mapping's
    throughput that the chosen mapping does not reach.
    """
    from placerl.harness.cli.validation_tables import show_answer, show_cell, show_strategies
    from placerl.harness.plan import execution
    from placerl.harness.plan.predicting import asked_precisions, begin
    from placerl.harness.validate.plan import cells as validation_cells

    tier, cells = tiers.tier(tier_name), validation_cells(tier_name, precisions=asked_precisions(precision))
    chosen = [cell for cell in cells if only in cell.key]
    if not chosen:
        raise UserError("command line", "--only", only, ", ".join(cell.key for cell in cells))
    opened = begin(results, tier, fresh)
    with bar("validate") as report, recorded(opened):
        execution.execute(opened, chosen, report)
    rows = [row for cell in chosen for row in cell.rows(opened)]
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        if everything:
            for cell in chosen:
                show_cell(cell.rows(opened))
            out.print("*: chosen among the mappings here; +: chosen where the simulated FPGA is there too")
            out.print("~: predicted from a time that is too noisy")
            show_strategies(rows)
        show_answer(rows)
        if not everything:
            out.print("Every mapping: --all; as pages: placerl report")
    if any(row.status == "failed" for row in rows):
        raise typer.Exit(1)
