"""Workloads: an environment, an algorithm and its training, described in a TOML file each."""

from harness.workloads.schema import (
    AlgorithmTable,
    Environment,
    Network,
    Replay,
    StandsFor,
    Training,
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
    "Network",
    "Replay",
    "StandsFor",
    "Training",
    "Workload",
    "check_environment",
    "from_tables",
    "load",
    "names",
    "override",
    "with_batch_size",
]
