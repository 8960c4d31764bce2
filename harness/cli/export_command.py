"""The command `placerl export`, which writes stored measurements and tables to files in common formats."""

from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import ResultsOption
from placerl.harness.core.revision import RESULTS, store_path
from placerl.harness.report.files import EXPORTED


@app.command(epilog="Example: `placerl export --format csv,markdown,latex`")
def export(
    results: ResultsOption = RESULTS,
    to: Annotated[
        Path | None, typer.Option("--to", help="Output folder; by default `export`, next to the store.")
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help=f"Formats, separated by commas: {', '.join(EXPORTED)}.")
    ] = "csv,parquet",
) -> None:
    """Write every stored measurement and every table of the report to files.

    Each number has its unit and provenance. In CSV, an apostrophe precedes text that begins like a formula.
    """
    from placerl.harness.report import export as exporting

    chosen = [name.strip() for name in formats.split(",")]
    for path in exporting.write(store_path(results), to or results / "export", chosen):
        typer.echo(str(path))
