"""The Typer application of `placerl`: the files of the commands register their commands with it."""

import ast
import importlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from placerl.harness.core import interrupts
from placerl.harness.core.errors import UserError
from placerl.harness.core.revision import revision

FOLDER = Path(__file__).parent
_SUFFIX = "_command"
_TABLES_FROM_COLUMNS = 80
"""Columns of a screen from which on a command's options are a table, which would cut their names on a narrower one."""


def named_by_file(folder: Path, suffix: str) -> list[str]:
    """Return the names of a folder's files `NAME<suffix>.py`, sorted, with hyphens for their underscores.

    Args:
        suffix: the end of the files' names, such as "_bench": `replay_threads_bench.py` gives `replay-threads`.
    """
    return sorted(path.stem.removesuffix(suffix).replace("_", "-") for path in folder.glob(f"*{suffix}.py"))


def commands() -> list[str]:
    """Return the sorted names of all commands, which are those of the files `NAME_command.py`."""
    return named_by_file(FOLDER, _SUFFIX)


def docstring(path: Path, is_command: Callable[[ast.FunctionDef], bool]) -> str:
    """Return the docstring of the first function of a file that `is_command`, without importing the file."""
    functions = (
        one for one in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(one, ast.FunctionDef)
    )
    return next((ast.get_docstring(one) or "" for one in functions if is_command(one)), "")


class OneLineErrors(TyperGroup):
    """A group of commands that reports mistakes in the arguments as a `UserError`, in one line of text.

    It refuses an empty text, such as `--only "$PAPER"` gives where PAPER is unset, and a number that is not finite,
    for every option and argument of its commands.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        resolved: Any = super().resolve_command(ctx, args)
        name, command, rest = resolved
        if shutil.get_terminal_size().columns < _TABLES_FROM_COLUMNS:
            command.rich_markup_mode = None
        if ctx.resilient_parsing:  # a line that the shell completes may be anything
            return resolved
        inner = type(ctx)(command, info_name=name, parent=ctx, **command.context_settings)
        given, _, _ = command.make_parser(inner).parse_args(list(rest))
        for parameter in command.params:
            values = given.get(parameter.name)
            for value in values if isinstance(values, list | tuple) else [values]:
                if isinstance(value, str):
                    _check_value(parameter, value)
        return resolved

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
    said = error.format_message().rstrip(".").removeprefix("Got ") or "nothing"
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


def _registered(function: ast.FunctionDef) -> bool:
    """Return whether a function is decorated with `app.command(...)`, or with the `callback(...)` of a group."""
    calls = (one.func for one in function.decorator_list if isinstance(one, ast.Call))
    return any(isinstance(one, ast.Attribute) and one.attr in ("command", "callback") for one in calls)


class Commands(OneLineErrors):
    """The group of all commands; it imports a command's file only when the command is called or asked for its help.

    To list the commands, it reads their docstrings from the files: importing all of them takes seconds.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:  # which shows the help
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            raise _user_error(error) from error

    def list_commands(self, ctx: Any) -> list[str]:
        return commands()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in commands():
            self.load(args[0])
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in commands():
            found = f"no such command {cmd_name!r}"
            allowed = "what `placerl --help` lists"
            raise UserError("command line", "placerl", found, allowed, name=cmd_name, names=commands())
        loaded = get_group(app).commands.get(cmd_name)
        path = FOLDER / f"{cmd_name.replace('-', '_')}{_SUFFIX}.py"
        return loaded or TyperCommand(cmd_name, help=docstring(path, _registered))

    def load(self, name: str) -> None:
        """Import the file of a command, which registers the command."""
        try:
            importlib.import_module(f"placerl.harness.cli.{name.replace('-', '_')}{_SUFFIX}")
        except ModuleNotFoundError as error:
            if (error.name or "placerl").partition(".")[0] == "placerl":
                raise
            allowed = "pip install 'placerl[harness]'"
            raise UserError("this machine", error.name, "nothing: it is not installed", allowed) from error
        interrupts.begun()


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
    from placerl.harness.cli.common import say

    version, made_of = metadata.version("placerl"), revision()
    say(f"placerl {version}" if made_of == f"placerl-{version}" else f"placerl {version} ({made_of})")
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
