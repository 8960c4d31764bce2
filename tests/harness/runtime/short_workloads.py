"""Shipped workloads that train in little time."""

from placerl.harness import workloads


def short(name, capacity=500, **training):
    """A shipped workload made short, with a replay of so many rows; further fields of `[training]` by name."""
    tables = workloads.load(name).tables()
    tables["network"]["hidden"] = [16]
    tables["replay"]["capacity"] = capacity
    tables["training"] |= {"batch_size": 8, "batch_sizes": [8], "learning_starts": 40} | training
    if tables["algorithm"]["name"] == "ppo":
        tables["algorithm"] |= {"trajectory_length": 32, "epochs": 2}
    return workloads.from_tables(tables, "test")
