"""The same cases under pytest-benchmark: `make benchmark`."""

from typing import Any

import pytest

from placerl.harness.cli.bench.timed.primitives import WORKLOADS, Primitives, names


@pytest.mark.parametrize(
    ("workload_name", "case_name"), [(workload, case) for workload in WORKLOADS for case in names(workload)]
)
def test_primitive(benchmark: Any, workload_name: str, case_name: str) -> None:
    """Times one case; it was checked and warmed up before."""
    ready = Primitives()
    ready.setup(workload_name, case_name)
    benchmark.group = f"{case_name.split()[0]}, {workload_name}"
    benchmark(ready.once)
