"""Loads workloads. A workload is an environment, an algorithm and its training, described in a TOML file."""

from placerl.harness.workloads.schema import (
    AlgorithmTable,
    Environment,
    NetworkTable,
    ReplayTable,
    StandsFor,
    TrainingTable,
    Workload,
    check_environment,
    from_tables,
    load,
    names,
    override,
    with_batch_size,
)

__all__ = [
    "AlgorithmTable",
    "Environment",
    "NetworkTable",
    "ReplayTable",
    "StandsFor",
    "TrainingTable",
    "Workload",
    "check_environment",
    "from_tables",
    "load",
    "names",
    "override",
    "with_batch_size",
]
