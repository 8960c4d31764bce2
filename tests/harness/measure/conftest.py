"""A machine of its own for each test."""

import pytest

from tests.harness.measure.world import World


@pytest.fixture
def world():
    return World()
