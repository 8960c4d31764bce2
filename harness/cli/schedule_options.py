"""Gives a command an option for each field of `Schedule`: name, type, default, least value and text are the field's."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

from placerl.harness.core.errors import OptionName
from placerl.harness.loop.schedule import Offered, Schedule


def with_schedule(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes an option for each field of `Schedule`, instead of its parameter `schedule`."""
    own = inspect.signature(command, eval_str=True)
    named = list(_options())

    @wraps(command)
    def called(**given: Any) -> None:
        schedule = Schedule(**{option.name: given.pop(option.name) for option in named})
        command(schedule=schedule, **given)

    shown: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        one = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        shown += named if parameter.name == "schedule" else [one]
    # What Typer reads.
    called.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return called


def _options() -> Iterator[inspect.Parameter]:
    """Yield the parameter of a command for each field."""
    types = get_type_hints(Schedule, include_extras=True)
    for one in fields(Schedule):
        kind, *notes = get_args(types[one.name])
        option = next(note for note in notes if isinstance(note, Offered))
        name, text, metavar = str(OptionName(one.name)), option.text, None
        choices = [str(member) for each in get_args(kind) if issubclass(each, StrEnum) for member in each]
        if choices:
            text, metavar = f"{text} One of {', '.join(choices)}.", one.name.upper()
        shown = typer.Option(name, min=option.least, help=text, metavar=metavar)
        yield inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=Annotated[kind, shown]
        )
