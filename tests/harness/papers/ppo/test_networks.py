"""PPO's statements about its networks: each outcome that a check can give, from counts and from altered ones."""

from typing import Any

import pytest

from placerl.harness.papers import Outcome
from placerl.harness.papers.ppo import networks
from placerl.harness.papers.ppo.table_2_iterations import table_columns
from tests.harness.papers.rows import finding_without_rows


def test_counts_and_closed_forms_are_consistent() -> None:
    memory = finding_without_rows("PPO-3.1")
    assert memory.outcome is Outcome.CONSISTENT
    # Humanoid's 376-128-64-17 with biases.
    mlp = 32 * (377 * 128 + 129 * 64 + 65 * 17) / 1e6
    # NatureCNN with 6 actions: three convolutions, 3136 x 512 and 512 x 6, each with biases.
    cnn = 32 * (8224 + 32832 + 36928 + 3137 * 512 + 513 * 6) / 1e6
    assert [number.value for number in memory.ours] == pytest.approx([mlp, cnn])
    side = finding_without_rows("PPO-5.2-side")
    assert side.outcome is Outcome.CONSISTENT
    assert len(side.ours) == 3 * 3
    assert "Cycles fall with every doubling in 9 of 9 cases" in side.explanation


@pytest.mark.parametrize(
    ("counted", "outcome"),
    [(0.98, Outcome.CONSISTENT), (0.93, Outcome.NO_VERDICT), (1.05, Outcome.NO_VERDICT)],
)
def test_a_count_is_the_printed_one_within_rounding(
    counted: float, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "_megabits", lambda parameters: counted * 32 * parameters / 1e6)
    assert finding_without_rows("PPO-3.1").outcome is outcome


@pytest.mark.parametrize(
    ("cycles", "words"), [(1.0, "Cycles fall with every doubling in 0"), (8.0, "Suspect")]
)
def test_arrays_that_gain_nothing_or_too_much_give_no_verdict(
    cycles: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an array with four times the elements."""

    class Total:
        def __init__(self, side: int):
            self.total = 1e9 / side ** (3 * (cycles > 1))

    monkeypatch.setattr(networks.ppo, "iteration_cycles", lambda *_, side, **__: Total(side))
    found = finding_without_rows("PPO-5.2-side")
    assert found.outcome is Outcome.NO_VERDICT
    assert words in found.explanation


def test_arrays_of_every_power_of_2_are_compared_over_iterations_of_the_paper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Total:
        def __init__(self, side: int):
            self.total = 1e9 / side

    def counted(layers: Any, iteration: Any, *, side: int, dataflow: str, **_: Any) -> Total:
        asked.append((iteration, dataflow, side))
        return Total(side)

    monkeypatch.setattr(networks.ppo, "iteration_cycles", counted)
    found = finding_without_rows("PPO-5.2-side")
    assert found.outcome is Outcome.CONSISTENT
    assert [number.value for number in found.ours] == [2.0] * 9
    assert {side for _, _, side in asked} == {4, 8, 16, 32}
    of_pong = table_columns("Pong", "Baselines")["N=8"]
    of_robots = table_columns("Hopper", "Spinning Up")["M=512"]
    assert {iteration for iteration, _, _ in asked} == {of_pong, of_robots}
    assert len(asked) == 3 * 3 * 4
