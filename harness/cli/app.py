"""The Typer application that the command files register with."""

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure the pieces of deep reinforcement learning, map them to devices, and check the prediction.",
)
