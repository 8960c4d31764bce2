"""What the soak calls flat."""

from dataclasses import replace

import pytest

from placerl.harness.cli.bench.soak_bench import Reading, verdicts

FLAT = [Reading(100.0 + k % 3, 10**9 + 1000 * (k % 5), 12, 4) for k in range(80)]


def test_a_flat_process_is_flat() -> None:
    assert verdicts(FLAT) == {}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("memory", lambda r, k: replace(r, resident_bytes=r.resident_bytes + 500_000 * k)),
        ("descriptors", lambda r, k: replace(r, descriptors=12 + k // 60)),
        ("threads", lambda r, k: replace(r, threads=4 + k // 60)),
        ("throughput", lambda r, k: replace(r, gradient_steps_per_processor_s=100.0 - 0.3 * k)),
    ],
)
def test_each_leak_is_named(name, change) -> None:
    assert list(verdicts([change(reading, k) for k, reading in enumerate(FLAT)])) == [name]


def test_too_few_readings_are_refused() -> None:
    with pytest.raises(ValueError, match="readings"):
        verdicts(FLAT[:8])
