"""The scripts with planted causes can be made, and are as many as are aimed at."""

import ast
import sys
from collections import Counter
from pathlib import Path

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


def test_the_speed_of_a_script(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import time\nbegin = time.perf_counter()\nwhile True:\n    time.sleep(0.01)\n"
        "    print('step', 1000 + int(5000 * (time.perf_counter() - begin)), flush=True)\n"
    )
    assert steps_per_s([sys.executable, str(path)], 0.3) == pytest.approx(5000, rel=0.3)
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
