"""The `placerl` command: reads arguments, calls the harness and prints the results.

A command is a file `NAME_command.py` in this folder. It registers its command with `harness.cli.app.app`. Modules that
load slowly are imported when the command is called, so that `--help` and the other commands start without them.

Exit status: 0 on success, 1 if something could not be measured, 2 on a mistake in the input, 130 after Ctrl-C, 141 if
the reader of standard output has gone (`placerl ... | head`), as of a program that SIGPIPE ends.
Results go to standard output, progress and messages to standard error.
"""

import sys
from typing import NoReturn

import typer

from placerl.harness.cli.app import app as _app
from placerl.harness.core import interrupts
from placerl.harness.core.errors import NotRunError, UserError
from placerl.harness.core.interrupts import INTERRUPTED


def run_app() -> None:
    """Run the command that the process's arguments name, print in one line what it cannot do, and exit.

    After Ctrl-C the status is 130 however the command ended: a library may have turned the interruption into an error
    of its own.
    """
    try:
        _app()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if interrupts.seen() or isinstance(error, KeyboardInterrupt):
            _interrupted()
        if isinstance(error, SystemExit):
            if error.code == INTERRUPTED:  # Typer's exit code for Ctrl-C in a command
                _interrupted()
            raise
        if isinstance(error, UserError):
            typer.echo(f"placerl: {error}", err=True)
            sys.exit(2)
        if isinstance(error, NotRunError):
            typer.echo(f"placerl: not run: {str(error).removeprefix('not run: ')}", err=True)
            sys.exit(1)
        from placerl.primitives.fpga.cycles.timed_block import MissingCyclesError

        if isinstance(error, MissingCyclesError):
            typer.echo(f"placerl: {error}", err=True)
            sys.exit(2)
        raise


def _interrupted() -> NoReturn:
    interrupts.said()
    stored = "; what finished is stored" if interrupts.is_storing() else ""
    typer.echo(f"placerl: interrupted{stored}", err=True)
    sys.exit(INTERRUPTED)
