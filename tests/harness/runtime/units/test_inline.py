"""A unit in the caller's thread works when it is asked for its answer, and says how long that took."""

import pytest

from placerl.harness.runtime.units import inline
from placerl.harness.runtime.units.inline import InlineUnit


def test_it_works_when_the_answer_is_requested(monkeypatch):
    monkeypatch.setattr(inline, "own_time", lambda work: (work(), 3.0))
    done = []

    def build(*shared):
        assert shared == ("columns", "weights")
        return lambda request: done.append(request) or 2 * request

    unit = InlineUnit("actor 0", build, "columns", "weights")
    unit.wait_until_ready()
    unit.submit(4)
    assert (done, unit.worked_s) == ([], 0.0)
    assert unit.result() == 8
    assert (done, unit.worked_s) == ([4], 3.0)
    unit.close()


def test_exceptions_of_its_work_are_not_caught():
    def build():
        return lambda request: 1 / request

    unit = InlineUnit("actor 0", build)
    unit.submit(0)
    with pytest.raises(ZeroDivisionError):
        unit.result()
