"""The command `placerl why`, which says where the time of a user's own training script goes."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.core.errors import UserError
from placerl.harness.core.files import check_writable_file, write_atomically


@app.command(
    context_settings={"allow_interspersed_args": False},
    epilog="Example: `placerl why --seconds 60 train.py --env Hopper-v5`",
)
def why(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The script, which is run as it is.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENTS", help="The script's own arguments and options.")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", min=1.0, help="Seconds of training to look at; then the script is stopped."
        ),
    ] = 60.0,
    python: Annotated[
        Path | None,
        typer.Option(
            "--python",
            help="Interpreter of the script, by default that of the active virtual environment, or else placerl's own.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File of the report, instead of standard error.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON for a program instead of text.")
    ] = False,
) -> None:
    """Run a training script of yours unchanged for a minute, and say where its time goes.

    The script keeps its input, output and exit status; the report goes to standard error. The status is 0 if the script
    was stopped when the time was over.
    """
    from placerl.harness.why import report
    from placerl.harness.why.causes.base import Evidence
    from placerl.harness.why.diagnosis import findings
    from placerl.harness.why.profile import profile
    from placerl.harness.why.recording import record

    if not script.is_file():
        raise UserError("command line", "SCRIPT", f"no file {str(script)!r}", "the path of a Python script")
    if out is not None:
        check_writable_file(out)
    recording = record([_interpreter(python), str(script), *(arguments or [])], seconds)
    found = profile(recording.stacks, recording.process)
    causes = findings(Evidence(recording, found))
    if as_json:
        text = json.dumps(report.as_json(recording, found, causes), indent=2)
    else:
        text = "\n".join(report.lines(recording, found, causes))
    if out is None:
        typer.echo(text, err=True)
    else:
        write_atomically(out, lambda path: path.write_text(f"{text}\n", encoding="utf-8"))
    raise typer.Exit(recording.status)


def _interpreter(python: Path | None) -> str:
    if python is not None:
        program = shutil.which(str(python))
        if program is None:
            found = "a folder" if python.is_dir() else f"no program {str(python)!r}"
            raise UserError(
                "command line", "--python", found, "the path of a Python interpreter, or its name"
            )
        return program
    active = os.environ.get("VIRTUAL_ENV")
    return str(Path(active) / "bin" / "python") if active else sys.executable
