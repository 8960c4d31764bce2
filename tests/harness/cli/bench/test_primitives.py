import timeit
from types import SimpleNamespace

import pytest

from placerl.harness import workloads
from placerl.harness.cli.bench.timed import primitives
from placerl.harness.measure.pace import Piece
from placerl.harness.measure.timed_case import Case
from placerl.harness.profile import cases


def test_the_cases_are_those_of_the_profile():
    for name in primitives.WORKLOADS:
        workload_name, batch_size = name.split("/")
        made = cases.all_cases(workloads.load(workload_name), int(batch_size))
        expected = [case.name for case in cases.distinct(made)]
        assert list(primitives.cases(name)) == expected == primitives.names(name)


def test_asv_has_every_case_that_is_here_and_those_of_a_gpu():
    """By place: what is new goes to where `names` has it, and asv leaves it out of commits without it."""
    left = set(primitives.CASES)
    for workload in primitives.WORKLOADS:
        here = primitives.names(workload)
        assert [name for name in primitives.CASES if name in here] == here
        left -= {*here}
    assert all("cuda" in name or "opencl" in name for name in left)


def test_asv_leaves_out_what_a_commit_does_not_have(monkeypatch):
    monkeypatch.setattr(primitives, "cases", lambda _: {})
    with pytest.raises(NotImplementedError, match=r"storage\.gather"):
        primitives.Primitives().setup(primitives.WORKLOADS[0], "storage.gather")


@pytest.mark.parametrize("case_name", primitives.names(primitives.WORKLOADS[0]))
def test_each_benchmark_runs_with_a_state_that_is_made_once(case_name):
    benchmark = primitives.Primitives()
    name = primitives.WORKLOADS[0]
    benchmark.setup(name, case_name)
    for _ in range(5):
        benchmark.once()
    again = primitives.Primitives()
    again.setup(name, case_name)
    assert again.state is benchmark.state


def test_calls_take_the_prepared_arguments_in_turn(monkeypatch):
    numbers, called, waited = iter(range(1000)), [], []
    case = Case(
        "counted",
        lambda: "state",
        lambda _: None,
        inputs=lambda _, rng: next(numbers),
        call=lambda *call: called.append(call),
        synchronise=lambda: waited.append(len(called)),
    )
    monkeypatch.setattr(primitives, "cases", lambda _: {"counted": SimpleNamespace(case=case)})
    monkeypatch.setattr(primitives, "_ready", primitives._ready.__wrapped__)  # without its cache
    benchmark = primitives.Primitives()
    benchmark.setup("any", "counted")
    called.clear()
    waited.clear()
    for _ in range(primitives.RING + 2):
        benchmark.once()
    assert called == [("state", number) for number in (*range(primitives.RING), 0, 1)]
    assert waited == list(range(1, primitives.RING + 3)), "after each call"


def test_a_time_is_a_call_where_no_neighbour_slowed_it(monkeypatch):
    """A clock that goes by the calls: 2 ms each, and 4 ms for the last two thirds of the time."""
    clock_s = [0.0]
    monkeypatch.setattr(primitives, "perf_counter", lambda: clock_s[0])
    monkeypatch.setattr(primitives, "Timer", lambda call: timeit.Timer(call, timer=lambda: clock_s[0]))
    benchmark = primitives.Primitives()
    benchmark.parts = None

    def once():
        clock_s[0] += 0.002 if clock_s[0] < primitives.SAMPLED_S / 3 else 0.004

    benchmark.once = once
    assert benchmark.track_call("", "") == pytest.approx(0.002)
    assert clock_s[0] == pytest.approx(primitives.SAMPLED_S, rel=0.05)


def test_the_time_of_a_round_is_the_sum_of_its_parts_however_many_rounds_a_call_runs(monkeypatch):
    """A call of 10 ms runs 5 rounds of 2 ms, of which 0.5 ms are the actors'."""
    clock_s, pieces = [0.0], []
    monkeypatch.setattr(primitives, "perf_counter", lambda: clock_s[0])
    benchmark = primitives.Primitives()

    def once():
        clock_s[0] += 0.01
        pieces.append(1)

    def parts():
        count = len(pieces)
        pieces.clear()
        return (
            {"collect": [Piece(2.5e-3, 5.0)] * count, "learn": [Piece(7.5e-3, 5.0)] * count} if count else {}
        )

    benchmark.once, benchmark.parts = once, parts
    assert benchmark.track_call("", "") == pytest.approx(0.002)
