"""A strategy is one file: found by its place, and in every prediction from then on."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import (
    STRATEGIES,
    VALIDATED,
    Entry,
    PerformanceTable,
    Problem,
    Target,
    strategies,
)
from placerl.harness.platforms import load

TOY = '''"""Lets the first learner by name train, whatever the rest takes."""

from placerl.harness.mapping.base import Loop, Prediction
from placerl.harness.mapping.candidates import candidates
from placerl.harness.mapping.table import inputs_provenance


class FirstLearner:
    name = "first-learner"
    loop = Loop.STRICT

    def predict(self, table, problem, platform, mapping):
        cells = (("learner.step", mapping.learner),)
        time_s = table.time_s(*cells[0])
        return Prediction(
            mapping, self.name, 1 / time_s, {"learner": time_s}, cells, inputs_provenance(table, cells)
        )

    def choose(self, table, problem, platform):
        return self.predict(table, problem, platform, candidates(table)[0])


STRATEGIES = (FirstLearner(),)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder whose files `discover` finds among the project's own."""
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_new_strategy_is_one_file(folder: Path) -> None:
    (folder / "first_learner.py").write_text(TOY)
    found = strategies.discover()
    assert set(found) - set(STRATEGIES) == {"first-learner"}

    times_s = {"learner.step": 0.25, "sum_tree.sample": 1e-3, "sum_tree.update": 1e-3}
    table = PerformanceTable(
        Entry(name, Target("native"), 32, s, s, s, Provenance.MEASURED) for name, s in times_s.items()
    )
    chosen = found["first-learner"].choose(table, Problem(32, 27), load("map-tpds23"))
    assert (str(chosen.mapping), chosen.gps) == ("native-native-cpu", 4)


def test_a_file_without_strategies_is_refused(folder: Path) -> None:
    (folder / "helper.py").write_text("STRATEGY = ()\n")
    with pytest.raises(AttributeError, match=r"strategies\.helper' has no attribute 'STRATEGIES'"):
        strategies.discover()


def test_two_strategies_of_one_name_are_refused(folder: Path) -> None:
    (folder / "zz_last.py").write_text(TOY.replace("first-learner", "pearl24"))
    with pytest.raises(ValueError, match="two strategies are called pearl24"):
        strategies.discover()


def test_those_that_a_validation_alone_measures_are_named_apart() -> None:
    assert set(strategies.discover(only_validated=True)) == set(VALIDATED) - set(STRATEGIES)
    assert "composed-loop" in STRATEGIES
