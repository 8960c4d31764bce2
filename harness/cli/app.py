"""The Typer application that the command files register with."""

from typing import Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from harness.core.errors import UserError


class OneLineErrors(TyperGroup):
    """A group whose mistakes in the arguments are said as every other one: in one line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TyperException as error:
            raise _user_error(error) from error


def _user_error(error: Any) -> UserError:
    command = error.ctx.command_path if getattr(error, "ctx", None) else "placerl"
    listed = f"what `{command} --help` lists"
    said = error.format_message().rstrip(".")
    parameter = getattr(error, "param", None)
    if parameter is None:
        return UserError("command line", command, said[:1].lower() + said[1:], listed)
    field = parameter.metavar or parameter.opts[0]
    if not error.message:
        return UserError("command line", field, "nothing", listed)
    causes: Any = getattr(error.__cause__ or error.__context__, "errors", list)()
    found = repr(causes[0]["input"]) if causes else "another value"
    return UserError("command line", field, found, _allowed(error.message))


def _allowed(message: str) -> str:
    """X of what pydantic says: `Input should be X, unable to ...`, `Value error, V is not one of X.`"""
    rule = message.removeprefix("Input should be ").partition(", unable to ")[0]
    return rule.partition(" is not one of ")[2].rstrip(".") or rule


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure the pieces of deep reinforcement learning, map them to devices, and check the prediction.",
)
