"""The scripts with planted causes can be made, and are as many as are aimed at."""

import ast
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from placerl.harness.core.errors import NotRunError
from placerl.harness.why import planted
from placerl.harness.why.planted import Case, cases, steps_per_s


def test_there_are_three_scripts_for_each_of_eight_causes() -> None:
    counts = Counter(one.cause for one in cases())
    assert (len(counts), set(counts.values())) == (8, {3})


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_both_variants_are_python_and_differ(case: Case, tmp_path: Path) -> None:
    planted, repaired = (path.read_text() for path in case.write(tmp_path))
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(repaired))


def test_the_speed_of_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line takes 10 ms on the clock here; after the warm-up a line is 50 steps."""
    readings = count()
    monkeypatch.setattr(planted, "time", SimpleNamespace(monotonic=lambda: next(readings) / 100))
    path = tmp_path / "script.py"
    path.write_text("for step in (*range(0, 600, 200), *range(600, 9999, 50)):\n    print('step', step)\n")
    assert steps_per_s([sys.executable, str(path)], 0.3) == pytest.approx(5000)
    path.write_text("")
    with pytest.raises(NotRunError, match="did not train"):
        steps_per_s([sys.executable, str(path)], 0.3)


def test_a_script_that_prints_nothing_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planted, "_LIMIT_S", 0.5)
    path = tmp_path / "silent.py"
    path.write_text("import os, time\nos.fork()\ntime.sleep(600)\n")
    with pytest.raises(NotRunError, match="did not train"):
        steps_per_s([sys.executable, str(path)], 0.3)
