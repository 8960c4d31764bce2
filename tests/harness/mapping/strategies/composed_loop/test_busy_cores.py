from dataclasses import replace

import pytest

from placerl.harness.mapping import Loop, Mapping, Problem, Target
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from tests.harness.mapping.links import Links
from tests.harness.mapping.strategies.composed_loop.profiles import LINKS, PIECES_S, table


def with_cores(cores: int) -> Links:
    return replace(LINKS, cpu_cores=cores)


# Of 32 gradient steps: actors 8 ms, fused steps 4 ms, the hand-over 1.5 ms.
BESIDE_S = {
    ("fused_round.steps", "native"): 1e-3,
    ("fused_round.runtime", "cpu"): 0.3e-3,
    ("overlapped_round.collect", "cpu"): 8e-3,
    ("overlapped_round.insert", "native"): 1e-3,
    ("overlapped_round.publish", "native"): 0.2e-3,
    ("overlapped_round.steps", "native"): 4e-3,
    ("relaxed_round.sample", "native"): 0.05e-3,
    ("relaxed_round.learn", "native"): 0.2e-3,
    ("relaxed_round.update", "native"): 0.05e-3,
}


@pytest.mark.parametrize(
    ("loop", "cores", "threads", "round_s"),
    [
        (Loop.OVERLAPPED, 1, 1, 8e-3 + 4e-3 + 1.5e-3),
        (Loop.OVERLAPPED, 2, 1, 8e-3 + 1.3e-3),  # the actors set the pace, and the weights go out meanwhile
        (Loop.OVERLAPPED, 1, 2, 8e-3 + 4e-3 + 1.5e-3),  # threads without a core hold nobody up
        (Loop.RELAXED, 1, 1, 8e-3 + 32 * 0.3e-3 + 1.5e-3),
        (Loop.RELAXED, 2, 1, 8e-3 + 32 * 0.1e-3),  # actors and manager share a core
        (Loop.RELAXED, 8, 1, 8e-3 + 1.3e-3),
    ],
)
def test_what_runs_in_parallel_takes_no_less_than_its_cores_need(
    loop: Loop, cores: int, threads: int, round_s: float
) -> None:
    problem = Problem(32, 27, learner_threads=threads)
    mapping = Mapping.parse("native-native-cpu")
    prediction = ComposedLoop(loop).predict(table(BESIDE_S), problem, with_cores(cores), mapping)
    assert 32 / prediction.gps == pytest.approx(round_s)


# Of a round of 16 actors and 16 gradient steps: learner 3.2 ms, manager 1.6 ms, actors 2.4 ms.
FREE_S = {
    ("concurrent_round.collect", "cpu"): 2.4e-3,
    ("concurrent_round.learn", "native"): 0.2e-3,
    ("concurrent_round.sample", "native"): 0.06e-3,
    ("concurrent_round.update", "native"): 0.04e-3,
}


@pytest.mark.parametrize(
    ("cores", "round_s"),
    [
        (2, 1.6e-3 + 2.4e-3),  # manager and actors share a core
        (3, 3.2e-3),  # each of the three has its own
        (8, 3.2e-3),
    ],
)
def test_threads_that_run_free_are_as_fast_as_the_busiest_core(cores: int, round_s: float) -> None:
    problem, mapping = Problem(32, 27, actors=16), Mapping.parse("native-native-cpu")
    loop = ComposedLoop(Loop.CONCURRENT)
    assert 16 / loop.predict(table(FREE_S), problem, with_cores(cores), mapping).gps == pytest.approx(round_s)
    with pytest.raises(KeyError):
        loop.predict(table(FREE_S), problem, with_cores(cores), Mapping.parse("torch-native-cpu"))


HANDED_S = {("beside_actors.request", "native"): 0.05e-3, ("beside_actors.receive", "native"): 0.1e-3}


@pytest.mark.parametrize(
    ("steps_s", "factor"),
    [
        (4e-3, 1.0),
        (5e-3, 1.25),  # the steps are the shorter ones, and take 1.25 times as long all the time
        (3e-3, 1.0),  # faster than alone: noise
    ],
)
def test_busy_cores_slow_each_other_down_as_the_steps_beside_the_actors_show(
    steps_s: float, factor: float
) -> None:
    pieces = table(BESIDE_S | HANDED_S | {("beside_actors.steps", "native"): steps_s})
    mapping = Mapping.parse("native-native-cpu")
    prediction = ComposedLoop(Loop.OVERLAPPED).predict(pieces, Problem(32, 27), with_cores(8), mapping)
    # The actors take longer while the 4 ms of steps go on, and set the pace.
    acting_s = 8e-3 + (factor - 1) * 4e-3
    assert 32 / prediction.gps == pytest.approx(acting_s + 1.3e-3)
    assert prediction.terms_s["step"] == pytest.approx(factor * 4e-3 / 32)
    assert ("beside_actors.steps", Target("native")) in prediction.cells
    single = ComposedLoop(Loop.OVERLAPPED).predict(pieces, Problem(32, 27), with_cores(1), mapping)
    assert single.terms_s["step"] == pytest.approx(4e-3 / 32), "on one core nothing runs in parallel"
    relaxed = ComposedLoop(Loop.RELAXED).predict(pieces, Problem(32, 27), with_cores(8), mapping)
    for term, alone_s in (("learner", 0.2e-3), ("sample and gather", 0.05e-3), ("update", 0.05e-3)):
        assert relaxed.terms_s[term] == pytest.approx(factor * alone_s)


def test_longer_steps_are_slowed_down_while_the_actors_act() -> None:
    """Steps of 16 ms take 18 ms, as the 8 ms of acting become 10 ms: both are slowed down by 1.25 meanwhile."""
    longer_s = {("overlapped_round.steps", "native"): 16e-3, ("beside_actors.steps", "native"): 18e-3}
    pieces = BESIDE_S | HANDED_S | longer_s
    mapping = Mapping.parse("native-native-cpu")
    prediction = ComposedLoop(Loop.OVERLAPPED).predict(table(pieces), Problem(32, 27), with_cores(8), mapping)
    assert prediction.terms_s["step"] == pytest.approx(18e-3 / 32)
    assert prediction.terms_s["actor"] == pytest.approx(10e-3 / 32)
    assert prediction.terms_s["loop"] == pytest.approx((0.3e-3 + 0.15e-3) / 32), (
        "with the actors' request and answer"
    )


@pytest.mark.parametrize(
    ("acting_s", "steps_s", "factor"),
    [
        (0.7e-3, 160e-3, 1.0),  # the steps' noise, 10 ms, is 14 times as long as acting
        (30e-3, 165e-3, 1.5),
        (30e-3, 195e-3, 2.0),  # 45 ms for 30 ms of acting: more than taking turns would cost
    ],
)
def test_noise_of_long_steps_does_not_slow_down_two_threads(
    acting_s: float, steps_s: float, factor: float
) -> None:
    pieces = BESIDE_S | HANDED_S
    pieces |= {("overlapped_round.steps", "native"): 150e-3, ("beside_actors.steps", "native"): steps_s}
    pieces[("overlapped_round.collect", "cpu")] = acting_s
    mapping = Mapping.parse("native-native-cpu")
    relaxed = ComposedLoop(Loop.RELAXED).predict(table(pieces), Problem(32, 27), with_cores(8), mapping)
    assert relaxed.terms_s["learner"] == pytest.approx(factor * 0.2e-3)
    replay_and_learner_s = 32 * (0.05e-3 + 0.2e-3 + 0.05e-3)
    added_s = (factor - 1) * min(replay_and_learner_s, acting_s)
    assert relaxed.terms_s["actor"] == pytest.approx((acting_s + added_s) / 32)


def test_parts_in_turn_need_one_core() -> None:
    found = [
        ComposedLoop()
        .predict(table(PIECES_S), Problem(32, 27), with_cores(cores), Mapping.parse("torch-flat-cpu"))
        .gps
        for cores in (1, 8)
    ]
    assert found[0] == found[1]
