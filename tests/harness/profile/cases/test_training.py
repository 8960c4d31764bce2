"""How many gradient steps a call of the case `training` takes, on a clock that the calls themselves move."""

from itertools import count
from types import SimpleNamespace

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.profile.cases import training
from placerl.harness.profile.cases.training import TimedTraining
from placerl.harness.runtime.training import Training

STEP_S = 1e-4
PROBLEM = SimpleNamespace(round_gradient_steps=1)


class Stub:
    """A training whose gradient steps take `step_s`, and some of whose calls are held up."""

    provenance = Provenance.MEASURED

    def __init__(self, monkeypatch, step_s, held_up=()):
        self.calls, self.clock_s = 0, 0.0
        self._step_s, self._held_up = step_s, held_up
        monkeypatch.setattr(training, "perf_counter", lambda: self.clock_s)

    def advance(self, gradient_steps):
        took_s = gradient_steps * self._step_s + (1.0 if self.calls in self._held_up else 0.0)
        self.calls += 1
        self.clock_s += took_s
        return SimpleNamespace(gradient_steps=gradient_steps, wall_s=took_s, terms_s={})


def sized(stub):
    run = TimedTraining(stub)
    training._size(run, PROBLEM, Loop.FUSED)
    return run


@pytest.mark.parametrize("held_up", [(), (0,), (1,), (2,), (0, 2), (0, 4, 8)])
def test_a_call_that_was_held_up_makes_no_call_long(monkeypatch, held_up):
    run = sized(Stub(monkeypatch, STEP_S, held_up))
    assert run.gradient_steps == round(training.STRETCH_S / STEP_S)
    assert not run.long


@pytest.mark.parametrize("held_up", [(), (0,), (1,)])
def test_two_long_calls_are_enough(monkeypatch, held_up):
    stub = Stub(monkeypatch, 2 * training.LONG_CALL_S, held_up)
    run = sized(stub)
    assert (run.gradient_steps, run.long, stub.calls) == (1, True, 2)


@pytest.mark.parametrize(
    ("step_s", "other_loop_s", "calls", "long"),
    [
        (2 * training.LONG_CALL_S, 1.1 * training.LONG_CALL_S, 1, True),
        (2 * training.LONG_CALL_S, 0.9 * training.LONG_CALL_S, 2, True),
        (training.LONG_CALL_S / 2, 1.1 * training.LONG_CALL_S, 3, False),
    ],
)
def test_one_long_call_is_enough_where_another_loop_s_was_long(
    monkeypatch, step_s, other_loop_s, calls, long
):
    stub = Stub(monkeypatch, step_s)
    run = TimedTraining(stub)
    training._size(run, PROBLEM, Loop.FUSED, other_loop_s=other_loop_s)
    assert (run.step_s, run.long, stub.calls) == (pytest.approx(step_s), long, calls)


def test_before_a_long_call_there_is_no_other(monkeypatch):
    stub = Stub(monkeypatch, 2 * training.LONG_CALL_S)
    run = sized(stub)
    before = stub.calls
    assert run.block(3) == pytest.approx(6 * training.LONG_CALL_S)
    assert stub.calls == before + 3


@pytest.mark.parametrize(
    ("step_s", "rounds", "steps", "long"),
    [
        (STEP_S, 1, 100, False),
        (STEP_S, 32, 96, False),
        (1e-9, 32, 10_000_000, False),
        (0.2, 1, 1, True),
        (4e-3, 32, 32, True),
    ],
)
def test_an_expected_time_sets_the_length_of_a_call_without_trying(monkeypatch, step_s, rounds, steps, long):
    stub = Stub(monkeypatch, STEP_S)
    run = TimedTraining(stub)
    training._size(run, SimpleNamespace(round_gradient_steps=rounds), Loop.FUSED, step_s)
    assert (run.gradient_steps, run.long, stub.calls) == (steps, long, 0)


class Begun(Training):
    """A training that only counts the gradient steps that it is asked for."""

    provenance = Provenance.MEASURED

    def __init__(self):
        self.asked, self.gradient_steps = [], 0

    def take(self, gradient_steps):
        self.asked.append(gradient_steps)

    def advance(self, gradient_steps):
        self.take(gradient_steps)
        return SimpleNamespace(gradient_steps=gradient_steps, wall_s=1.0, terms_s={})


@pytest.mark.parametrize(("fused_step_s", "tried"), [(0.04, False), (0.02, True), (0.0, True)])
def test_no_call_is_tried_that_another_loop_shows_to_be_surely_long(monkeypatch, fused_step_s, tried):
    """The actors of the overlapped loop step 32 rounds at a time: its shortest call takes 32 gradient steps."""
    begun, seconds = Begun(), count()
    monkeypatch.setattr(training, "perf_counter", lambda: next(seconds))
    monkeypatch.setattr(training, "_off_policy", lambda *_: begun)
    problem = SimpleNamespace(
        round_gradient_steps=1, overlapped_rounds=lambda simulated: 32, on_policy=False, batch_size=32
    )
    mapping = Mapping.parse("native-native-cpu")
    runs = {training.case_name(mapping, Loop.FUSED): TimedTraining(Begun(), step_s=fused_step_s)}
    case = training.training_case(None, problem, mapping, runs, Loop.OVERLAPPED, parts=object())
    run = case.case.setup()
    assert bool(begun.asked) == tried
    assert tried or (run.gradient_steps, run.long, begun.gradient_steps) == (
        32,
        True,
        1,
    )  # above 0: no warm-up
