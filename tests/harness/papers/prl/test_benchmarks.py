"""What PRL evaluates."""

import pytest

from placerl.harness import workloads
from placerl.harness.papers.prl import benchmarks


def test_the_benchmarks_are_workloads() -> None:
    assert set(benchmarks.WORKLOADS) <= set(workloads.names())
    assert benchmarks.LARGE_MODEL in benchmarks.WORKLOADS


@pytest.mark.parametrize(
    ("sizes", "missing"),
    [
        ([32, 256, 2048, 16384], ""),
        ([8, 512], ""),
        ([32, 256], "on every device a batch size of at least 512 (found: 32, 256)"),
        ([511, 33], "on every device a batch size of at most 32 and one of at least 512 (found: 33, 511)"),
    ],
)
def test_sizes_have_to_reach_both_ends_of_the_paper_s(sizes: list[int], missing: str) -> None:
    assert benchmarks.missing_sizes(sizes) == missing
