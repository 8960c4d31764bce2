"""Who takes part in the rounds of a validation, with times that tests state."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness.core.errors import UserError
from placerl.harness.mapping import Loop, Mapping, Prediction, Problem, Target
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.profile.cases.training import case_name
from placerl.harness.validate.narrowing import Narrowing, dropped, races, slower_among

HERE, BOARD = SimpleNamespace(name="here"), SimpleNamespace(name="here and board")
FAST, SLOW, OTHER = (Mapping.parse(f"{name}-native-cpu") for name in ("native", "torch", "opencl"))
SIMULATED = Mapping.parse("native-fpga-fpga")
STEP = "round.learn"


class Choosing:
    """A strategy that always chooses the same mapping, and predicts from the learner's time."""

    name = "choosing"

    def __init__(self, loop, mapping, wrong=None):
        self.loop, self._mapping, self._wrong = loop, mapping, wrong

    def choose(self, table, problem, platform):
        if self._wrong:
            raise self._wrong
        return self.predict(table, problem, platform, self._mapping)

    def predict(self, table, problem, platform, mapping):
        cell = (STEP, mapping.learner)
        return Prediction(mapping, self.name, 1.0, {}, (cell,), table.entry(*cell).provenance)


def piece(backend):
    case = SimpleNamespace(name=f"piece {backend}")
    return SimpleNamespace(primitive=STEP, target=Target(backend), part="", case=case)


def narrowing(trainings, strategies, platforms=((HERE, False),), steps=1):
    runs = {case_name(*one): SimpleNamespace(gradient_steps=steps) for one in trainings}
    pieces = [piece(backend) for backend in ("native", "torch", "opencl")]
    problem = Problem(batch_size=32, item_words=4)
    found = races(trainings, strategies, platforms)
    return Narrowing(found, runs, pieces, [], strategies, problem)


def times(seconds, rounds):
    """Seconds of each training by mapping, in the fused loop, and of the pieces, in some rounds."""
    named = {case_name(mapping, Loop.FUSED): s for mapping, s in seconds.items()}
    named |= {f"piece {backend}": 1.0 for backend in ("native", "torch", "opencl")}
    return {name: dict.fromkeys(range(rounds), s) for name, s in named.items()}


EVERY = [(mapping, Loop.FUSED) for mapping in (FAST, SLOW, OTHER)]
COST = dict.fromkeys(
    [*(case_name(*one) for one in EVERY), "piece native", "piece torch", "piece opencl"], 1.0
)


def named(*mappings):
    return {case_name(mapping, Loop.FUSED) for mapping in mappings}


def test_everything_takes_part_while_the_time_is_enough_for_an_interval_of_everything():
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, FAST)])
    seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 100.0}, 1)
    assert narrow(seconds, COST, 24.0) == set(COST)
    assert narrow(seconds, COST, 23.9) == {*named(FAST), "piece native"}


def test_a_choice_stays_however_slow_until_it_has_its_rounds():
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, SLOW)])
    for rounds in range(1, FEWEST_SAMPLES):
        seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 100.0}, rounds)
        left_s = 4.0 + 2.0 * (FEWEST_SAMPLES - rounds - 1)  # this round, and the later ones of the two
        assert narrow(seconds, COST, left_s) == {*named(FAST, SLOW), "piece native", "piece torch"}
    seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 100.0}, FEWEST_SAMPLES)
    assert narrow(seconds, COST, 14.0) == {*named(FAST), "piece native"}, "it is judged"


def test_what_is_undecided_comes_after_what_is_judged():
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, SLOW)])
    seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 1.1}, 1)
    judged = {*named(FAST, SLOW), "piece native", "piece torch"}
    # 4 more rounds of the two that are judged take 8 s; a round of everything takes 6 s, without pieces 2 s.
    assert narrow(seconds, COST, 12.0) == {
        *named(FAST, SLOW, OTHER),
        "piece native",
        "piece torch",
        "piece opencl",
    }
    assert narrow(seconds, COST, 11.9) == judged
    assert narrow(seconds, COST, 9.0) == {*named(FAST, SLOW), "piece native"}
    assert narrow(seconds, COST, 8.0) == named(FAST, SLOW)
    assert narrow(seconds, COST, 1.9) == set()


def test_a_call_that_was_not_timed_leaves_the_calls_of_other_mappings_in_the_rounds():
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, SLOW)])
    seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 100.0}, 1)
    del seconds["piece native"]
    cost = {name: time_s for name, time_s in COST.items() if name != "piece native"}
    assert narrow(seconds, cost, 12.0) == {*named(FAST, SLOW), "piece torch"}


def test_gradient_steps_are_compared_not_calls():
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, FAST)])
    narrow._runs[case_name(SLOW, Loop.FUSED)].gradient_steps = 1000
    seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 100.0}, 1)
    assert narrow(seconds, COST, 6.0) >= named(SLOW)
    assert not narrow(seconds, COST, 6.0) & named(FAST, OTHER) - named(FAST)


def test_choices_with_and_without_the_simulated_device_are_compared_among_their_own():
    trainings = [*EVERY, (SIMULATED, Loop.FUSED)]
    chosen = Choosing(Loop.FUSED, FAST)
    narrow = narrowing(trainings, [chosen], ((HERE, False), (BOARD, True)))
    seconds = times({FAST: 50.0, SLOW: 5000.0, OTHER: 5000.0, SIMULATED: 1.0}, 1)
    cost = COST | dict.fromkeys(named(SIMULATED), 1.0)
    assert narrow(seconds, cost, 14.0) >= named(FAST, SIMULATED)
    assert not narrow(seconds, cost, 14.0) & named(SLOW, OTHER)


def test_what_was_dropped_is_clearly_slower_among_the_devices_of_its_race():
    trainings = [*EVERY, (SIMULATED, Loop.FUSED)]
    found = races(trainings, [Choosing(Loop.FUSED, FAST)], ((HERE, False), (BOARD, True)))
    seconds = times({FAST: 1.0, SLOW: 5000.0, OTHER: 1.1, SIMULATED: 1e-3}, 1)
    for race in found:
        race.run({name: {number: 1 / s for number, s in by.items()} for name, by in seconds.items()})
    lost = dropped(found)
    assert lost == {
        (Loop.FUSED, "here"): {SLOW},
        (Loop.FUSED, "here and simulated"): {FAST, SLOW, OTHER},
    }
    slower = {mapping: slower_among(lost, mapping, loop) for mapping, loop in trainings}
    assert slower[SLOW] == ["here", "here and simulated"]
    assert slower[FAST] == slower[OTHER] == ["here and simulated"]
    assert slower[SIMULATED] == []
    assert slower_among(lost, SLOW, Loop.RELAXED) == [], "it has no race in that loop"


@pytest.mark.parametrize(
    "wrong", [ValueError("learner: lacks times"), UserError("a platform", "link", "nothing", "a bandwidth")]
)
def test_of_a_strategy_that_cannot_choose_only_the_fastest_goes_on(wrong):
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, FAST, wrong)])
    seconds = times({FAST: 1.0, SLOW: 100.0, OTHER: 100.0}, 1)
    assert narrow(seconds, COST, 10.0) == named(FAST)


def test_a_mapping_that_fuses_nothing_is_in_the_strict_race_with_its_fused_loop():
    trainings = [(FAST, Loop.FUSED), (FAST, Loop.STRICT), (SLOW, Loop.FUSED)]
    (race,) = races(trainings, [Choosing(Loop.STRICT, FAST)], [(HERE, False)])
    assert race.names == {FAST: case_name(FAST, Loop.STRICT), SLOW: case_name(SLOW, Loop.FUSED)}
    assert races(trainings, [Choosing(Loop.RELAXED, FAST)], [(HERE, False)]) == []


@settings(deadline=None, max_examples=50)
@given(
    seconds=st.tuples(*[st.floats(0.01, 100)] * 3),
    chosen=st.sampled_from([FAST, SLOW, OTHER]),
    cost=st.tuples(*[st.floats(0.01, 2)] * 6),
    budget_s=st.floats(0, 60),
)
def test_no_choice_is_left_out_before_its_rounds_and_no_round_is_longer_than_the_time(
    seconds, chosen, cost, budget_s
):
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, chosen)])
    by, cost_s = dict(zip((FAST, SLOW, OTHER), seconds, strict=True)), dict(zip(COST, cost, strict=True))
    best = min(by, key=lambda mapping: by[mapping])
    told = times(by, 1)
    left_s, rounds = budget_s, 1
    while taking := narrow(told, cost_s, left_s):
        took_s = sum(cost_s[name] for name in taking)
        assert took_s <= left_s * (1 + 1e-9)
        if rounds < FEWEST_SAMPLES:
            assert named(chosen, best) <= taking
        for name in taking:
            told[name] |= {rounds: told[name][0]}
        left_s, rounds = left_s - took_s, rounds + 1
        if rounds > 12:
            break
    if rounds < FEWEST_SAMPLES:
        assert left_s < sum(cost_s[name] for name in named(chosen, best)) * (1 + 1e-9)


def test_a_case_that_failed_takes_no_part():
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, SLOW)])
    seconds = times({FAST: 1.0, SLOW: 1.0, OTHER: 1.0}, 1)
    failed = {name: s for name, s in COST.items() if name not in named(SLOW)}
    del seconds[case_name(SLOW, Loop.FUSED)]
    assert not narrow(seconds, failed, 8.0) & named(SLOW)
    assert narrow({}, {}, 8.0) == set()


@pytest.mark.parametrize("left_s", [0.0, -1.0])
def test_without_time_there_is_no_round(left_s):
    narrow = narrowing(EVERY, [Choosing(Loop.FUSED, FAST)])
    assert narrow(times({FAST: 1.0, SLOW: 1.0, OTHER: 1.0}, 1), COST, left_s) == set()
