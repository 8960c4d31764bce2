"""Block RAMs by mini-batch, and the choice of the side: each outcome, from the model and from altered numbers."""

from dataclasses import replace

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.ppo import block_rams
from tests.harness.papers.rows import finding_without_rows


def test_block_rams_grow_and_are_about_as_many_as_printed() -> None:
    """Hopper at M = 512: activations and deltas take 352 + 288 words of a bank, more than half a block RAM has."""
    found = finding_without_rows("PPO-T1-memory")
    assert found.outcome is Outcome.CONSISTENT
    values = [number.value for number in found.ours]
    assert values == [1024, 1024, 1024, 1280, 1024, 1024, 1280, 1792]


@pytest.mark.parametrize("counts", [[500.0] * 4, [1500.0, 1500.0, 1500.0, 1600.0]])
def test_counts_that_do_not_grow_or_are_far_off_give_no_verdict(
    counts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_rams, "_counts", lambda _: counts)
    assert finding_without_rows("PPO-T1-memory").outcome is Outcome.NO_VERDICT


def test_the_exploration_chooses_the_papers_side() -> None:
    found = finding_without_rows("PPO-5.2-choice")
    assert found.outcome is Outcome.CONSISTENT
    by_name = {number.quantity: number.value for number in found.ours}
    assert by_name["Hopper: side of the fastest array that fits"] == 16
    assert by_name["Hopper, P = 32: DSPs"] < 6840
    assert min(by_name[f"{name}, P = 32: block RAMs"] for name in block_rams.BENCHMARKS) > 2160


def test_another_choice_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    designs = block_rams._designs

    def largest(benchmark: str) -> list[object]:
        return sorted((replace(d, fits=True) for d in designs(benchmark)), key=lambda d: -d.side)

    monkeypatch.setattr(block_rams, "_designs", largest)
    assert finding_without_rows("PPO-5.2-choice").outcome is Outcome.NO_VERDICT
