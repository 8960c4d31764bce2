"""Re-allocated actors: verdicts from made-up rows."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.papers import Outcome
from harness.papers.prl import figure_9
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import final_return, frame_of


def test_reallocation_gives_numbers_but_no_verdict_on_convergence(tmp_path: Path) -> None:
    rows = [
        final_return("cartpole-ddpg", curve, 400 + seed, seed, "PRL-F9")
        for curve in ("two actors", "re-allocated")
        for seed in range(5)
    ]
    found = figure_9.reallocated(frame_of(tmp_path, *rows))
    assert found.outcome is Outcome.NOT_RUN
    assert [number.value for number in found.ours] == [pytest.approx(1.0)]


def test_both_curves_are_drawn(tmp_path: Path) -> None:
    rows = [
        final_return("cartpole-ddpg", curve, 400.0, seed, "PRL-F9")
        for curve in ("two actors", "re-allocated")
        for seed in range(5)
    ]
    made = [replace(row, details=row.details | {"environment_steps": [10, 20, 30]}) for row in rows]
    assert points(figure_9.draw(frame_of(tmp_path, *made))) == {"two actors": 2, "re-allocated": 2}
