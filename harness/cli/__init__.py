"""The `placerl` command: a thin layer that reads arguments, calls the harness and prints; a file a command.

Exit status: 0 on success, 1 when what was asked for could not be measured, 2 on a mistake in the input.
Results go to standard output, progress and messages to standard error.
"""

import importlib
import sys
from typing import NoReturn

import typer

from harness.cli.app import app
from harness.core.errors import UserError

# In the order that `--help` lists them.
COMMANDS = (
    "doctor",
    "profile",
    "map",
    "run",
    "validate",
    "compare",
    "learn",
    "baselines",
    "reproduce",
    "report",
    "export",
    "diff",
    "calibrate",
    "merge",
    "rtl",
    "bench",
)

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

for _name in COMMANDS:
    importlib.import_module(f"harness.cli.{_name}_command")


def run_app() -> None:
    """Run the command line and exit."""
    try:
        app()
    except UserError as error:
        typer.echo(f"placerl: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        _interrupted()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # what Typer makes of Ctrl-C in a command
            _interrupted()
        raise


def _interrupted() -> NoReturn:
    typer.echo("placerl: interrupted; what finished is stored", err=True)
    sys.exit(INTERRUPTED)
