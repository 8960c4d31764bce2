"""Workloads that the tests of the runtime share."""

import pytest

from tests.harness.runtime import short_workloads


@pytest.fixture
def short():
    """A function from a shipped workload's name to the workload made short; fields of `[training]` by name."""
    return short_workloads.short
