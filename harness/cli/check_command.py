"""The command `placerl check`, which says of bundles that people sent whether they can be true."""

from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, print_json, say
from placerl.harness.core.errors import UserError

SHOWN = 5
"""Reasons shown of a refused bundle; `--json` has all."""


@app.command(epilog="Example: `placerl check bundles/*.json`")
def check(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Bundles, as `placerl bundle` writes them.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Refuse bundles that cannot be what a machine measured, with the reasons; exit status 1 if one is refused.

    Refused are, for example, an edited file, an unknown version, times below the card's roofline or of unchecked
    outputs, and another workload under a known name.
    """
    from placerl.harness.machines.bundle import Bundle
    from placerl.harness.machines.checking import problems

    for path in paths:
        if not path.is_file():
            raise UserError(path, "file", "a folder" if path.is_dir() else "no such file", "a bundle")
    reasons: dict[str, list[str]] = {}
    for path in paths:
        try:
            reasons[str(path)] = problems(Bundle.read(path))
        except UserError as error:
            reasons[str(path)] = [f"{error.field}: found {error.found}; allowed: {error.allowed}"]
    if as_json:
        print_json([{"path": path, "accepted": not why, "reasons": why} for path, why in reasons.items()])
    else:
        for name, why in reasons.items():
            say(f"{name}: {'refused' if why else 'accepted'}")
            for line in why[:SHOWN]:
                say(f"  {line}")
            if len(why) > SHOWN:
                say(f"  and {len(why) - SHOWN} more reasons")
    if any(reasons.values()):
        raise typer.Exit(1)
