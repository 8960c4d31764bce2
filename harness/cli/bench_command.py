"""The command `placerl bench NAME`, which runs one of the benchmarks.

A benchmark is a file `harness/cli/bench/NAME_bench.py` with a function `bench`, whose parameters are the options of the
command, and which returns what is measured (`harness.cli.bench.command.Bench`). A front end of another tool has a
function `main` instead, which is the command.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command as command_of

from placerl.harness.cli.app import OneLineErrors, app, docstring, named_by_file
from placerl.harness.cli.bench.command import as_command
from placerl.harness.cli.common import JsonOption, print_list
from placerl.harness.core.errors import UserError

FOLDER = Path(__file__).parent / "bench"
_SUFFIX = "_bench"
_EXTRAS = {"ray": "cluster", "simpy": "cluster", "amaranth": "fpga"}
"""The extra of `placerl` that installs a package, for each package that only some benchmarks import."""
_ANY = {"allow_extra_args": True, "ignore_unknown_options": True}


def _path(name: str) -> Path:
    return FOLDER / f"{name.replace('-', '_')}{_SUFFIX}.py"


def names() -> list[str]:
    """Return the benchmarks' names, sorted, from their files: `replay-threads` is `replay_threads_bench.py`."""
    return named_by_file(FOLDER, _SUFFIX)


def summary(name: str) -> str:
    """Return the first line of the docstring of a benchmark's function, without importing it."""
    return docstring(_path(name), lambda function: function.name in ("bench", "main")).partition("\n")[0]


class Benchmarks(OneLineErrors):
    """The group of all benchmarks; it imports a benchmark's file only when the benchmark is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in names():
            raise UserError("command line", "NAME", repr(cmd_name), ", ".join(names()), name=cmd_name)
        bench_app = typer.Typer(
            pretty_exceptions_enable=False, add_completion=False, rich_markup_mode="markdown"
        )
        try:
            module = importlib.import_module(f"placerl.harness.cli.bench.{_path(cmd_name).stem}")
        except ModuleNotFoundError as error:
            if error.name not in _EXTRAS:
                raise
            bench_app.command(cmd_name, help=summary(cmd_name), context_settings=_ANY)(_refusal(error.name))
        else:
            states = hasattr(module, "bench")
            bench_app.command(cmd_name)(as_command(module.bench) if states else module.main)
        return command_of(bench_app)


def _refusal(package: str) -> Callable[[], None]:
    """Return a command that reports that a benchmark's package is not installed."""

    def refuse() -> None:
        allowed = f"pip install 'placerl[{_EXTRAS[package]}]'"
        raise UserError("this machine", package, "nothing: it is not installed", allowed)

    return refuse


benchmarks = typer.Typer(cls=Benchmarks, no_args_is_help=False)


@benchmarks.callback(invoke_without_command=True, epilog="Example: `placerl bench replay --rounds 45`")
def bench(
    ctx: typer.Context,
    listed: Annotated[
        bool, typer.Option("--list", help="Name every benchmark and what it measures.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Time parts of this project next to other ways to do the same, which take turns in the same rounds."""
    if (name := ctx.invoked_subcommand) is not None:
        for option, given, allowed in (
            ("--list", listed, "it without NAME"),
            ("--json", as_json, "it after NAME, or with --list"),
        ):
            if given:
                raise UserError("command line", option, f"it before {name}", allowed)
        return
    if not listed:
        raise UserError("command line", "NAME", "nothing", f"{', '.join(names())}, --list")
    print_list({name: summary(name) for name in names()}, "benchmarks", as_json)


app.add_typer(benchmarks, name="bench")
