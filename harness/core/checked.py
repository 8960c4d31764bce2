"""Makes a class of settings whose wrong values are refused in one line, as those of a workload's file are."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast, dataclass_transform

import numpy as np
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from placerl.harness.core.toml_models import first_error

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def checked(kind: type[_T]) -> type[_T]:
    """Make a class a frozen dataclass whose fields have the types and ranges of their annotations.

    Values are not converted between types, except that NumPy's scalars become Python's. A wrong value or an unknown
    name raises UserError: `Settings: capacity: found 1; allowed: ...`.
    """
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    model: Any = dataclass(frozen=True, config=config)(kind)
    create: Callable[..., None] = model.__init__

    @wraps(create)
    def initialise(self: Any, *values: Any, **named: Any) -> None:
        try:
            create(self, *map(_plain, values), **{name: _plain(value) for name, value in named.items()})
        except ValidationError as error:
            raise first_error(model, error, kind.__name__) from None

    model.__init__ = initialise
    return cast(type[_T], model)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
