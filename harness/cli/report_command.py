"""The command `placerl report`, which writes the report of stored results."""

from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption
from placerl.harness.core.revision import RESULTS

CompareOption = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        help="Folder of reference runs: one more page shows what changed since the one that fits best.",
    ),
]


@app.command(epilog="Example: `placerl report --results results --compare results/reference`")
def report(
    results: ResultsOption = RESULTS, compare: CompareOption = None, as_json: JsonOption = False
) -> None:
    """Write the report of the stored results, without measuring anything."""
    from placerl.harness.cli.summary import write_report

    write_report(results, as_json, compare)
