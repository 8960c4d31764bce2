"""Gains over RLlib, each outcome from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import figure_14
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import compared, frame_of, verdict


def alone(workload: str, gain: float, word: str = "faster", line: str = "rllib_2_6_3") -> Row:
    return compared(gain, word, f"{line}, learner and replay alone", workload=workload, batch_size=32)


OTHERS = [alone("hopper-ddpg", 9.0), alone("pong-dqn", 1.1, line="rllib")]


@pytest.mark.parametrize("line", ["rllib", "rllib_2_6_3"])
@pytest.mark.parametrize(
    ("gain", "word", "others", "outcome"),
    [
        (1000.0, "faster", OTHERS, Outcome.REPRODUCED),
        (815.0, "faster", OTHERS, Outcome.REPRODUCED),  # a fifth less than the published 1005
        (810.0, "faster", OTHERS, Outcome.IN_KIND),  # its interval reaches below
        (1190.0, "faster", OTHERS, Outcome.REPRODUCED),
        (1200.0, "faster", OTHERS, Outcome.IN_KIND),
        (300.0, "faster", OTHERS, Outcome.IN_KIND),
        (9.1, "faster", OTHERS, Outcome.NO_VERDICT),  # not told apart from Hopper's
        (5.0, "faster", OTHERS, Outcome.NOT_REPRODUCED),  # Hopper's is larger
        (0.9, "slower", OTHERS, Outcome.NOT_REPRODUCED),
        (300.0, "no verdict", OTHERS, Outcome.NO_VERDICT),
        (300.0, "faster", OTHERS[:1], Outcome.NOT_RUN),  # the largest of what?
        (300.0, "faster", [], Outcome.NOT_RUN),
    ],
)
def test_cartpole_s_gain_is_compared_with_the_others(
    gain: float, word: str, others: list[Row], outcome: Outcome, line: str, tmp_path: Path
) -> None:
    whole = compared(5000.0, "faster", "rllib")  # environment steps included: another comparison
    rows = [alone("cartpole-ddpg", gain, word, line), *others, whole]
    found = verdict("MAP-F14-CartPole", tmp_path, *rows).finding
    assert found.outcome is outcome
    assert [n.value for n in found.ours] == [gain, *(row.value for row in others)]
    if outcome is not Outcome.NOT_RUN:
        assert ("Not faster, beyond the noise" in found.explanation) == (word != "faster")


def test_without_cartpole_s_gain_there_is_no_largest(tmp_path: Path) -> None:
    found = verdict("MAP-F14-CartPole", tmp_path, *OTHERS).finding
    assert found.outcome is Outcome.NOT_RUN
    assert "missing: CartPole's" in found.needs


@pytest.mark.parametrize(
    ("gain", "word"), [(0.9, "slower"), (5.0, "faster"), (2000.0, "faster"), (300.0, "no verdict")]
)
def test_cartpole_with_another_algorithm_than_map_s_counts_for_nothing(
    gain: float, word: str, tmp_path: Path
) -> None:
    """MAP trains CartPole with DDPG (Table III)."""
    dqn = alone("cartpole-dqn", gain, word)
    found = verdict(
        "MAP-F14-CartPole", tmp_path / "both", alone("cartpole-ddpg", 300.0), dqn, *OTHERS
    ).finding
    assert (found.outcome, [n.value for n in found.ours]) == (Outcome.IN_KIND, [300.0, 9.0, 1.1])
    found = verdict("MAP-F14-CartPole", tmp_path / "dqn", dqn, *OTHERS).finding
    assert found.outcome is Outcome.NOT_RUN
    assert "missing: CartPole's with DDPG" in found.needs


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (("faster", "faster"), Outcome.IN_KIND),
        (("faster", "slower"), Outcome.NOT_REPRODUCED),
        (("faster", "no verdict"), Outcome.NO_VERDICT),
        (("faster", "faster, but learns less"), Outcome.NO_VERDICT),
    ],
)
def test_gains_over_rllib_count_on_a_gpu(words: tuple[str, str], outcome: Outcome, tmp_path: Path) -> None:
    rows = [
        compared(2.0, word, "rllib", batch_size=size, device="cuda")
        for size, word in zip((32, 64), words, strict=True)
    ]
    assert verdict("MAP-F14", tmp_path, *rows).finding.outcome is outcome
    on_cpu = verdict("MAP-F14", tmp_path / "cpu", compared(2.0, "faster", "rllib")).finding
    assert (on_cpu.outcome, len(on_cpu.ours)) == (Outcome.NOT_RUN, 1)


def test_gains_without_an_interval_are_not_told_apart(tmp_path: Path) -> None:
    mine = alone("cartpole-ddpg", 300.0)
    for name, rows in (
        ("mine", [replace(mine, low=None, high=None), *OTHERS]),
        ("rival", [mine, replace(OTHERS[0], low=None, high=None), OTHERS[1]]),
    ):
        assert verdict("MAP-F14-CartPole", tmp_path / name, *rows).finding.outcome is Outcome.NO_VERDICT


def test_gains_over_each_version_of_rllib_are_drawn(tmp_path: Path) -> None:
    rows = [
        compared(50.0, "faster", baseline="rllib"),
        compared(9.0, "faster", baseline="rllib", workload="pong-dqn"),
        compared(40.0, "faster", baseline="rllib_2_6_3", workload="hopper-ddpg"),
        compared(3.0, "faster", baseline="sb3"),
    ]
    figure = figure_14.GainOverRllib().draw(frame_of(tmp_path, *rows))
    assert points(figure) == {"over rllib": 2, "over rllib_2_6_3": 1}
    assert figure is not None
    assert figure.axes[0].get_yscale() == "log"
