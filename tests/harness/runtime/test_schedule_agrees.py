"""The schedule of a model is the one that the runtime's virtual clock makes of the same seconds."""

from dataclasses import replace

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.clock import HOST
from placerl.harness.loop.given_time import Call
from placerl.harness.mapping import Entry, Loop, Mapping, PerformanceTable, Target
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.scheduled_round import ScheduledRound
from placerl.harness.mapping.strategies.composed_loop import ComposedLoop
from tests.harness.mapping.links import Links
from tests.harness.runtime.test_virtual_time import (
    INSERT_S,
    LEARN_S,
    SAMPLE_S,
    UPDATE_S,
    WRITE_S,
    training,
    writes_take,
)

NO_TIME = Call(HOST, 0.0)
AHEAD = 2


@pytest.mark.parametrize(
    ("boards", "learner", "rmm"), [(1, True, True), (2, True, True), (1, True, False), (1, False, True)]
)
@pytest.mark.parametrize("overlap", [0, 4])
def test_it_agrees_with_the_runtime(short, boards: int, learner: bool, rmm: bool, overlap: int) -> None:
    options = {"overlap": overlap} if overlap else {}
    made = training(short("cartpole-dqn"), boards=boards, learner=learner, rmm=rmm, **options)
    names = [device.name for device in made._time._devices.values()]
    on = dict(zip([*["learner"] * learner, *["rmm"] * rmm], names, strict=True))

    def call(unit: str, seconds: float) -> Call:
        return Call(on[unit], seconds) if unit in on else NO_TIME

    expected = ScheduledRound(
        act=NO_TIME,
        insert=call("rmm", INSERT_S),
        sample=call("rmm", SAMPLE_S),
        learn=call("learner", LEARN_S),
        update=call("rmm", UPDATE_S),
        gradient_steps=max(overlap, 1),
        overlapped=bool(overlap),
    )
    made.warm_up()
    made.advance(8)
    progress = made.advance(80)
    taken_s = progress.wall_s / progress.gradient_steps
    assert taken_s == pytest.approx(expected.period_s / max(overlap, 1), rel=5e-3)
    made.close()


def slow_links(latency_s: float) -> Links:
    """Every link and memory has a speed of its own, so slow that the host's own time is nothing, bytes a second.

    A transfer over a link also takes a latency.
    """
    speeds = {("cpu", "fpga"): 3e-5, ("fpga", "cpu"): 7e-5, ("fpga", "fpga"): 19e-5}
    latencies_s = {("cpu", "fpga"): latency_s, ("fpga", "cpu"): 2 * latency_s, ("fpga", "fpga"): 0.0}
    return Links(lambda *pair: speeds[pair], lambda *pair: latencies_s[pair])


@pytest.mark.parametrize(
    ("learner", "rmm", "storage"),
    [
        (True, False, "cpu"),
        (True, False, "fpga"),
        (False, True, "cpu"),
        (False, True, "fpga"),
        (True, True, "cpu"),
        (True, True, "fpga"),
    ],
)
@pytest.mark.parametrize(("loop", "overlap"), [(Loop.STRICT, 0), (Loop.OVERLAPPED, 8), (Loop.RELAXED, 8)])
@pytest.mark.parametrize("latency_s", [0.0, 3e6])
def test_the_prediction_knows_the_links_of_the_clock(
    short, learner: bool, rmm: bool, storage: str, loop: Loop, overlap: int, latency_s: float
) -> None:
    workload = short("cartpole-dqn")
    relaxed = {"ahead": AHEAD, "replay_beside": True} if loop is Loop.RELAXED else {}
    links = slow_links(latency_s)
    made = training(
        workload,
        boards=1,
        links=lambda: links,
        learner=learner,
        rmm=rmm,
        storage=storage,
        overlap=overlap,
        **relaxed,
    )
    if rmm:  # the host's writing in the board's place does not count
        writes_take(made, WRITE_S)
    on = {"learn": "fpga" if learner else "native", "collect": "fpga" if learner else "native"}
    on |= dict.fromkeys(("insert", "sample", "update"), "fpga" if rmm else "native")
    told_s = {"insert": INSERT_S, "sample": SAMPLE_S, "learn": LEARN_S, "update": UPDATE_S}

    def entry(name: str, target: str) -> Entry:
        part = name.partition(".")[2]
        simulated = target == "fpga" and part in told_s
        time_s = told_s[part] if simulated else WRITE_S if part == "write" else 0.0
        provenance = Provenance.SIMULATED if simulated else Provenance.MEASURED
        return Entry(name, Target(target), 8, time_s, time_s, time_s, provenance)

    named = [(f"round.{part}", target) for part, target in on.items()]
    named += [(f"round.{part}", "cpu") for part in ("gather", "write", "runtime")]
    named += [("overlapped_round.insert", on["insert"]), ("overlapped_round.write", "cpu")]
    table = PerformanceTable(entry(*one) for one in named)
    mapping = Mapping.parse(f"{on['learn']}-{on['sample']}-{storage}")
    problem = replace(problem_of(workload, 8), ahead=AHEAD)
    predicted = ComposedLoop(loop).predict(table, problem, links, mapping)
    made.warm_up()
    made.advance(8)
    progress = made.advance(80)
    made.close()
    achieved_s = {term: value / progress.gradient_steps for term, value in progress.terms_s.items()}
    for term in ("insert", "write", "gather", "learner", "update"):
        assert achieved_s.get(term, 0.0) == pytest.approx(
            predicted.terms_s.get(term, 0.0), rel=1e-6, abs=10.0
        )
    assert progress.wall_s / progress.gradient_steps == pytest.approx(1 / predicted.gps, rel=5e-3)
