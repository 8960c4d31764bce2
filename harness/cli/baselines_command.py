"""The command `placerl baselines`, which builds the virtual environments of other libraries."""

from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, named_baselines, print_json, say
from placerl.harness.compare import registry


@app.command(epilog="Example: `placerl baselines sb3`")
def baselines(
    names: Annotated[str, typer.Argument(metavar="NAMES", help="Names joined by commas, or `all`.")] = "all",
    as_json: JsonOption = False,
) -> None:
    """Build the virtual environments of baselines (libraries to compare with); if one fails, go on with the next."""
    states = []
    for name in named_baselines(names, "NAMES"):
        failure = registry.build_baselines([name])[name]
        last_lines = list(failure.last_lines) if failure else []
        states.append(
            {"name": name, "ready": failure is None, "reason": str(failure or ""), "output": last_lines}
        )
        if not as_json:
            say("\n    ".join([f"{name}: {failure or 'ready'}", *last_lines]))
    if as_json:
        print_json({"baselines": states})
    raise typer.Exit(not all(state["ready"] for state in states))
