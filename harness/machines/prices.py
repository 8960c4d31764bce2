"""Prices of machines, from a file of the user's:

[[price]]
machine = "small"        # the name of a card's file, without its suffix
per_hour = 0.10
currency = "EUR"
date = 2026-11-01        # when the price was read
source = "price list of a provider"
"""

import datetime
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from placerl.harness.core.toml_models import TomlTable, check, read_toml, refusal


class Price(TomlTable):
    """What a machine costs.

    Attributes:
        machine: the machine's name.
        per_hour: price of an hour, in the currency.
        currency: three capital letters, as ISO 4217 has them.
        date: the day on which it was read.
        source: where.
    """

    machine: str = Field(min_length=1, max_length=120, description="name of a card's file, without .json")
    per_hour: float = Field(gt=0, le=1e6, description="price of an hour, more than 0")
    currency: str = Field(pattern="^[A-Z]{3}$", description="three capital letters, such as EUR")
    date: datetime.date = Field(description="day on which the price was read, such as 2026-11-01")
    source: str = Field(min_length=1, max_length=300, description="where the price was read")


class Prices(TomlTable):
    """The tables `[[price]]` of a file, each machine once and all in one currency, so that they can be compared."""

    price: tuple[Price, ...] = Field(min_length=1, max_length=1000, description="tables [[price]]")

    @model_validator(mode="after")
    def _can_be_compared(self) -> Self:
        names = [one.machine for one in self.price]
        for number, one in enumerate(self.price):
            if one.machine in names[:number]:
                raise refusal(f"price[{number}].machine", repr(one.machine), "each machine once")
            if one.currency != self.price[0].currency:
                raise refusal(
                    f"price[{number}].currency", repr(one.currency), f"{self.price[0].currency}, as the first"
                )
        return self

    def by_machine(self) -> dict[str, Price]:
        """Return the prices by the machine's name."""
        return {one.machine: one for one in self.price}


def read(path: Path) -> dict[str, Price]:
    """Return the prices of a TOML file by the machine's name.

    Raises:
        UserError: the file is unreadable, or a field is wrong; the message names it.
    """
    return check(Prices, read_toml(path), path).by_machine()
