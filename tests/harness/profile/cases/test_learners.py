"""Gradient steps in several streams, as they are timed for PRL's composer."""

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.profile.cases import learners
from placerl.harness.profile.cases.learners import STREAMS, streamed_cases

DDPG = workloads.load("cartpole-ddpg")


@pytest.fixture
def cases():
    streamed = list(streamed_cases(DDPG, 8))
    if not streamed:
        pytest.skip("no OpenCL device")
    return streamed


def test_each_number_of_streams_is_timed_on_each_device(cases):
    devices = {one.target for one in cases}
    assert len(cases) == len(STREAMS) * len(devices)
    assert {one.primitive for one in cases} == {f"learner.step in {number} streams" for number in STREAMS}


def test_a_step_in_streams_passes_its_check_and_a_wrong_one_does_not(cases, monkeypatch):
    case = cases[0].case
    learner = case.setup()
    case.check(learner)
    taken = learner.step(case.inputs(learner, np.random.default_rng(0)))
    assert len(taken.td_errors) == 8
    monkeypatch.setattr(learner, "step", lambda *_: taken._replace(td_errors=taken.td_errors + 1))
    with pytest.raises(AssertionError, match="TD errors"):
        case.check(learner)
    case.close(learner)


def test_there_are_no_more_streams_than_transitions():
    assert {one.primitive for one in streamed_cases(DDPG, 3)} <= {"learner.step in 2 streams"}


def test_a_step_of_ones_own_has_none(monkeypatch):
    class Own(learners.CustomAlgorithm):
        def __init__(self):
            """Needs nothing, as nothing is called."""

    monkeypatch.setattr(learners, "algorithm_of", lambda _: Own())
    assert list(streamed_cases(DDPG, 8)) == []
