"""The command `placerl export`, which writes stored measurements and tables to files in common formats."""

from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, print_files
from placerl.harness.cli.completion import claims, completed
from placerl.harness.core.revision import RESULTS, store_path
from placerl.harness.report.formats import EXPORTED


@app.command(epilog="Example: `placerl export --format csv,markdown,latex`")
def export(
    results: ResultsOption = RESULTS,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Output folder; by default `export`, next to the store."),
    ] = None,
    formats: Annotated[
        str, typer.Option("--format", help=f"Formats, separated by commas: {', '.join(EXPORTED)}.")
    ] = "csv,parquet",
    only: Annotated[
        str, typer.Option("--table", help="Only these tables, separated by commas, such as `primitives`.")
    ] = "",
    claim: Annotated[
        str,
        typer.Option(
            "--claim",
            help="A claim's key (FIX-F7): only its verdict, and the measurements behind it.",
            autocompletion=completed(claims),
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Write every stored measurement and every table of the report to files.

    Each number has its unit and provenance. In CSV, an apostrophe precedes text that begins like a formula.
    """
    from placerl.harness.report import export as exporting

    chosen = [name.strip() for name in formats.split(",")]
    tables = [name.strip() for name in only.split(",")] if only else []
    to = folder or results / "export"
    print_files(exporting.write(store_path(results), to, chosen, only=tables, claim=claim), as_json)
