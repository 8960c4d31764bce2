"""A study that was killed in its final goes on with what it had found before."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, PerformanceTable, Target
from placerl.harness.validate.space import Setting
from placerl.harness.validate.study import study
from placerl.harness.validate.study_file import FinalRounds, StudyFile
from tests.harness.validate.test_study import CELL, FLAT, NATIVE, TORCH, Known

TIME = Entry("learner.step", Target.parse("native[bfloat16]"), 32, 2e-3, 1e-3, 3e-3, Provenance.MEASURED)


class Killed(Known):
    """A study that ends in its final."""

    def finals(self, *_: Any) -> Any:
        raise KeyboardInterrupt


def rows(known: Known, file: StudyFile) -> Sequence[Any]:
    return study(CELL, known, 10.0, clock=lambda: known.now_s, file=file)


def test_a_study_that_was_killed_in_its_final_repeats_neither_its_pieces_nor_its_heats(
    tmp_path: Path,
) -> None:
    rates = {NATIVE: 100.0, TORCH: 50.0, FLAT: None}
    predicted = {NATIVE: 101.0, TORCH: 49.0, FLAT: 80.0}
    file = StudyFile(tmp_path / "study.json", {"cell": str(CELL)})
    killed = Killed(rates, predicted)
    killed.tables = {Setting(1, 8): PerformanceTable([TIME])}
    with pytest.raises(KeyboardInterrupt):
        rows(killed, file)
    resumed = Known(rates, predicted)
    resumed.profiled = 1  # it has the tables of the one before
    found = rows(resumed, file)
    assert (resumed.profiled, resumed.now_s) == (1, 0.0)
    assert [list(table) for table in resumed.tables.values()] == [[TIME]]
    assert found == Known(rates, predicted).rows()
    other = Known(rates, predicted)
    rows(other, StudyFile(file.path, {"cell": "another"}))
    assert other.profiled
    file.remove()
    assert file.search() is None


def test_a_study_whose_strategies_choose_something_else_now_begins_again(tmp_path: Path) -> None:
    """TORCH is predicted to be hopeless, so that it had run only if a strategy had chosen it."""
    rates, predicted = {NATIVE: 100.0, TORCH: 10.0}, {NATIVE: 100.0, TORCH: 10.0}
    file = StudyFile(tmp_path / "study.json", {"cell": str(CELL)})
    with pytest.raises(KeyboardInterrupt):
        rows(Killed(rates, predicted), file)
    resumed = Known(rates, predicted, {"a paper's": TORCH})
    resumed.profiled = 1
    assert rows(resumed, file) == Known(rates, predicted, {"a paper's": TORCH}).rows()
    assert resumed.profiled == 2


def test_later_rounds_are_numbered_after_the_earlier_ones() -> None:
    earlier = FinalRounds({"fast": {0: 1.0, 1: 2.0}, "slow": {0: 9.0}})
    assert earlier.followed_by({"fast": {0: 3.0}, "new": {1: 4.0}}) == {
        "fast": {0: 1.0, 1: 2.0, 2: 3.0},
        "slow": {0: 9.0},
        "new": {3: 4.0},
    }
    assert FinalRounds().followed_by({"fast": {0: 3.0}}) == {"fast": {0: 3.0}}
