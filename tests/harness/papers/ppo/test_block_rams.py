"""Block RAMs by mini-batch, and the choice of the side: each outcome, from the model and from altered numbers."""

from dataclasses import replace

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.ppo import block_rams
from tests.harness.papers.rows import finding_without_rows


def printed(monkeypatch: pytest.MonkeyPatch, humanoid: float = 1.1) -> None:
    """Has Table 1 print so many times as many for Humanoid as for Hopper."""
    hopper = block_rams._printed()[0]
    found = [
        replace(n, value=v)
        for n, v in zip(block_rams.published(), [*hopper, *(humanoid * h for h in hopper)], strict=True)
    ]
    monkeypatch.setattr(block_rams, "published", lambda: tuple(found))


def test_a_table_that_prints_fewer_for_the_larger_network_gives_no_verdict() -> None:
    found = finding_without_rows("PPO-T1-memory")
    assert found.outcome is Outcome.NO_VERDICT
    assert "Humanoid takes 638 where Hopper takes 696 (M = 64)" in found.explanation


def test_block_rams_grow_and_are_about_as_many_as_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hopper at M = 512: activations and deltas take 352 + 288 words of a bank, more than half a block RAM has."""
    printed(monkeypatch)
    found = finding_without_rows("PPO-T1-memory")
    assert found.outcome is Outcome.CONSISTENT
    values = [number.value for number in found.ours]
    assert values == [1024, 1024, 1024, 1280, 1024, 1024, 1280, 1792]


@pytest.mark.parametrize("counts", [[500.0] * 4, [1500.0, 1500.0, 1500.0, 1600.0]])
def test_counts_that_do_not_grow_or_are_far_off_give_no_verdict(
    counts: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed(monkeypatch)
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
