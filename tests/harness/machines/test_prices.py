"""Prices are read as written, and what cannot be compared is refused."""

import datetime
from pathlib import Path

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.machines import prices

ONE = '[[price]]\nmachine = "a"\nper_hour = 0.5\ncurrency = "EUR"\ndate = 2026-11-01\nsource = "made up"\n'


def test_a_price_is_read_with_its_day(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(ONE)
    (one,) = prices.read(tmp_path / "prices.toml").values()
    assert (one.machine, one.per_hour, one.date) == ("a", 0.5, datetime.date(2026, 11, 1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ONE + ONE, "price[1].machine"),
        (ONE + ONE.replace('"a"', '"b"').replace("EUR", "USD"), "EUR, as the first"),
        (ONE.replace("0.5", "-1"), "price[0].per_hour"),
        (ONE.replace("per_hour", "per_our"), "price[0].per_our"),
        (ONE.replace("2026-11-01", '"soon"'), "price[0].date"),
        ("", "price"),
    ],
)
def test_prices_that_cannot_be_compared_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "prices.toml").write_text(text)
    with pytest.raises(UserError) as refused:
        prices.read(tmp_path / "prices.toml")
    assert words in str(refused.value)
