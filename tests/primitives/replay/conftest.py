import numpy as np
import pytest

from placerl.primitives.replay import FieldSpec, Storage, transition_fields


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def storage() -> Storage:
    """Room for 8 transitions of a 3-number observation and a discrete action."""
    return Storage(8, transition_fields(FieldSpec((3,), np.float32), FieldSpec((), np.int64)))
