"""The Typer application of `placerl`: the files of the commands register their commands with it."""

import importlib
from contextlib import suppress
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from placerl.harness.core import interrupts
from placerl.harness.core.errors import UserError
from placerl.harness.core.revision import revision

FOLDER = Path(__file__).parent
_SUFFIX = "_command"


def named_by_file(folder: Path, suffix: str) -> list[str]:
    """Return the names of a folder's files `NAME<suffix>.py`, sorted, with hyphens for their underscores.

    Args:
        suffix: the end of the files' names, such as "_bench": `replay_threads_bench.py` gives `replay-threads`.
    """
    return sorted(path.stem.removesuffix(suffix).replace("_", "-") for path in folder.glob(f"*{suffix}.py"))


def commands() -> list[str]:
    """Return the sorted names of all commands, which are those of the files `NAME_command.py`."""
    return named_by_file(FOLDER, _SUFFIX)


class OneLineErrors(TyperGroup):
    """A group of commands that reports mistakes in the arguments as a `UserError`, in one line of text.

    It refuses an empty text, such as `--only "$PAPER"` gives where PAPER is unset, and a number that is not finite,
    for every option and argument of its commands.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        found: Any = super().resolve_command(ctx, args)
        name, command, rest = found
        if ctx.resilient_parsing:  # a line that the shell completes may be anything
            return found
        inner = type(ctx)(command, info_name=name, parent=ctx, **command.context_settings)
        given, _, _ = command.make_parser(inner).parse_args(list(rest))
        for parameter in command.params:
            values = given.get(parameter.name)
            for value in values if isinstance(values, list | tuple) else [values]:
                if isinstance(value, str):
                    _check_value(parameter, value)
        return found

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TyperException as error:
            raise _user_error(error) from error


def _field(parameter: Any) -> str:
    """Return what a user knows an option or an argument by."""
    metavar = None if parameter.param_type_name == "option" else parameter.metavar
    return str(metavar or parameter.opts[0])


def _check_value(parameter: Any, text: str) -> None:
    is_option = parameter.param_type_name == "option"
    field = _field(parameter)
    if not text.strip():
        allowed = (is_option and parameter.metavar) or "a value that is not empty"
        raise UserError("command line", field, repr(text), allowed + is_option * ", or the option left out")
    if parameter.type_descriptor.annotation is not float:
        return
    most = parameter.type_descriptor.parameter_info.max
    with suppress(ValueError):  # what is no number, or above the maximum, is refused where it is converted
        if not isfinite(number := float(text)) and (most is None or not number > most):
            raise UserError("command line", field, repr(text), "a finite number")


def _user_error(error: Any) -> UserError:
    command = error.ctx.command_path if getattr(error, "ctx", None) else "placerl"
    listed = f"what `{command} --help` lists"
    said = error.format_message().rstrip(".")
    parameter = getattr(error, "param", None)
    if parameter is None:
        return UserError("command line", command, said[:1].lower() + said[1:], listed)
    field = _field(parameter)
    if not error.message:
        return UserError("command line", field, "nothing", listed)
    causes: Any = getattr(error.__cause__ or error.__context__, "errors", list)()
    found = repr(causes[0]["input"]) if causes else "another value"
    return UserError("command line", field, found, _allowed(error.message))


def _allowed(message: str) -> str:
    """Return X from pydantic's messages: `Input should be X, unable to ...`, `Value error, V is not one of X.`"""
    rule = message.removeprefix("Input should be ").partition(", unable to ")[0]
    return rule.partition(" is not one of ")[2].rstrip(".") or rule


class Commands(OneLineErrors):
    """The group of all commands; it imports a command's file only when the command is called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:  # which shows the help
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise _user_error(error) from error

    def list_commands(self, ctx: Any) -> list[str]:
        return commands()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in commands():
            found = f"no such command {cmd_name!r}"
            allowed = "what `placerl --help` lists"
            raise UserError("command line", "placerl", found, allowed, name=cmd_name, names=commands())
        try:
            importlib.import_module(f"placerl.harness.cli.{cmd_name.replace('-', '_')}{_SUFFIX}")
        except ModuleNotFoundError as error:
            if (error.name or "placerl").partition(".")[0] == "placerl":
                raise
            allowed = "pip install 'placerl[harness]'"
            raise UserError("this machine", error.name, "nothing: it is not installed", allowed) from error
        interrupts.begun()
        return get_group(app).commands[cmd_name]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure the pieces of deep reinforcement learning, map them to devices, and check the prediction.",
)


def _show_version(asked: bool) -> None:
    if not asked:
        return
    version, made_of = metadata.version("placerl"), revision()
    typer.echo(f"placerl {version}" if made_of == f"placerl-{version}" else f"placerl {version} ({made_of})")
    raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show version and revision, and exit."
        ),
    ] = False,
) -> None:
    """Handle the options of `placerl` itself, which stand before the name of the command."""
