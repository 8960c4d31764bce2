"""Workloads that the tests of the runtime share."""

import pytest

from harness import workloads


@pytest.fixture
def short():
    """A function from a shipped workload's name to the workload made short; fields of `[training]` by name."""

    def make(name, **training):
        tables = workloads.load(name).tables()
        tables["network"]["hidden"] = [16]
        tables["replay"]["capacity"] = 500
        tables["training"] |= {"batch_size": 8, "batch_sizes": [8], "learning_starts": 40} | training
        if tables["algorithm"]["name"] == "ppo":
            tables["algorithm"] |= {"trajectory_length": 32, "epochs": 2}
        return workloads.from_tables(tables, "test")

    return make
