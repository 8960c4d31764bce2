"""Settings made by `checked` take values of the annotated types and ranges alone, and refuse others in one line."""

from dataclasses import FrozenInstanceError
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from placerl.harness.core.checked import checked
from placerl.harness.core.errors import UserError


@checked
class Settings:
    """Settings of a test."""

    count: Annotated[int, Field(ge=2, le=9)]
    rate: Annotated[float, Field(gt=0)] = 0.5
    fast: bool = False


@given(count=st.integers(2, 9), rate=st.floats(0.125, 2.0**30, width=32), fast=st.booleans())
def test_numpys_scalars_become_pythons(count: int, rate: float, fast: bool) -> None:
    plain = Settings(count, rate, fast)
    given_ = Settings(np.int64(count), rate=np.float32(rate), fast=np.bool_(fast))  # type: ignore[arg-type]
    assert given_ == plain
    assert [type(value) for value in vars(given_).values()] == [int, float, bool]


def test_fields_left_out_have_their_defaults_and_none_changes_later() -> None:
    settings = Settings(3)
    assert (settings.rate, settings.fast) == (0.5, False)
    with pytest.raises(FrozenInstanceError):
        settings.count = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"count": 1}, "Settings: count: found 1; allowed: "),
        ({"count": np.int64(10)}, "Settings: count: found 10; allowed: "),
        ({"count": 2.0}, "Settings: count: found 2.0; allowed: "),
        ({"count": True}, "Settings: count: found True; allowed: "),
        ({"count": "3"}, "Settings: count: found "),
        ({"count": 3, "rate": float("nan")}, "Settings: rate: found nan; allowed: "),
        ({"count": 3, "rate": np.float64("inf")}, "Settings: rate: found inf; allowed: "),
        ({"count": 3, "fast": 1}, "Settings: fast: found 1; allowed: "),
        ({"count": 3, "slow": 1}, "Settings: slow: "),
        ({}, "Settings: count: "),
    ],
)
def test_what_is_wrong_is_refused_in_one_line_that_names_the_field(
    values: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError) as refused:
        Settings(**values)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)
