"""The command `placerl baselines`, which builds the virtual environments of other libraries."""

from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import named_baselines
from placerl.harness.compare import registry


@app.command(epilog="Example: `placerl baselines sb3`")
def baselines(
    names: Annotated[str, typer.Argument(metavar="NAMES", help="Names joined by commas, or `all`.")] = "all",
) -> None:
    """Build the virtual environments of baselines (libraries to compare with); if one fails, go on with the next."""
    failed = False
    for name in named_baselines(names, "NAMES"):
        failure = registry.build_baselines([name])[name]
        failed |= failure is not None
        typer.echo(f"{name}: {failure or 'ready'}")
        for line in failure.last_lines if failure else ():
            typer.echo(f"    {line}")
    raise typer.Exit(failed)
