"""The tables that PRL's authors published."""

import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import absent_platforms, pearl24_authors
from placerl.harness.platforms import load


def test_every_device_has_every_time_alone_and_shared() -> None:
    entries = pearl24_authors.entries()
    assert len(entries) == 4 * 8
    assert {entry.provenance for entry in entries} == {Provenance.PUBLISHED}
    assert sum(entry.primitive.endswith(" sharing") for entry in entries) == 16
    platform = load(pearl24_authors.PLATFORM)
    assert {platform.key_of(entry.target.device) for entry in entries} == {"cpu", "cuda:0", "cuda:1", "fpga"}


def test_times_are_in_seconds() -> None:
    (found,) = [
        e for e in pearl24_authors.entries() if e.primitive == "learner.step" and str(e.target) == "torch"
    ]
    assert found.time_s == pytest.approx(0.6e-3)
    assert (found.low_s, found.high_s) == (found.time_s, found.time_s)


def test_they_are_of_one_workload_and_batch_size() -> None:
    item, platform = workloads.load("cartpole-dqn"), load(pearl24_authors.PLATFORM)
    inputs, rows = absent_platforms.predictions(item, 512, platform)
    assert len(inputs) == 32
    (chosen,) = (row for row in rows if row.who == "pearl24" and row.chosen)
    assert chosen.mapping == "torch-native-cpu"
    # Two transfers of 2 us within the CPU: of 512 transitions of the authors' 12 words, and of 512 words.
    sent_s = 2 * 2e-6 + 512 * (12 + 1) * 4 / 32e9
    assert chosen.terms_s["learner communication"] == pytest.approx(sent_s)
    assert not any(row.slow_link_us for row in rows), "every link states its latency"
    for name, size in (("cartpole-dqn", 32), ("hopper-ddpg", 512)):
        with pytest.raises(UserError, match="cartpole-dqn at batch size 512, which was timed"):
            absent_platforms.predictions(workloads.load(name), size, platform)
