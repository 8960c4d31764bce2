"""The parts of rounds that stay on a device are timed apart, and add up to the rounds."""

from collections.abc import Callable

import pytest

from placerl.harness import workloads
from placerl.harness.mapping import Target
from placerl.harness.mapping.problem import problem_of
from placerl.harness.profile.cases import resident
from placerl.harness.profile.cases.resident import ResidentParts, resident_cases
from placerl.harness.workloads import Workload
from tests.primitives.device.kinds import device_of


def small(prioritized: bool = True) -> Workload:
    item = workloads.override(workloads.load("cartpole-ddpg"), "replay.capacity", 3000, "test")
    return workloads.override(item, "replay.prioritized", prioritized, "test")


def test_each_part_is_timed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    device_of("opencl")
    monkeypatch.setattr(resident, "ROUNDS", 3)
    item = workloads.override(small(), "training.presampled_batches", 4, "test")  # nothing is sampled ahead
    problem = problem_of(item, 8)
    pieces = list(resident_cases(item, problem))
    assert [(one.primitive, one.target, one.batch_size) for one in pieces] == [
        ("resident_round.collect", Target("opencl"), 4),
        ("resident_round.steps", Target("opencl"), 8),
        ("resident_round.runtime", Target("opencl"), 1),
    ]
    (case,) = {id(one.case): one.case for one in pieces}.values()
    parts = case.setup()
    case.check(parts)
    before = parts.rounds.environment_steps
    case.call(parts, None)
    assert parts.rounds.environment_steps - before == 3 * 4
    assert case.parts is not None
    assert case.parts(parts).keys() == {"collect", "steps", "runtime"}
    assert not case.parts(parts)


def test_of_each_part_the_starts_of_its_own_graphs_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of 2 rounds of 3 gradient steps, or of 8 gradient steps."""
    device_of("opencl")
    monkeypatch.setattr(resident, "ROUNDS", 8)
    item = workloads.override(small(), "training.actors", 3, "test")
    parts = next(resident_cases(item, problem_of(item, 8))).case.setup()
    assert isinstance(parts, ResidentParts)
    assert (parts.gradient_steps, parts.rounds.rounds_a_graph) == (3, 2)
    seconds = iter([4.0, 20.0, 43.0])

    def timed(start: Callable[[], object]) -> float:
        start()
        return next(seconds)

    monkeypatch.setattr(parts, "_seconds", timed)
    parts.run()
    assert parts.taken() == {"runtime": 4 / 8, "collect": (20 - 4) / 8, "steps": (43 - 3) / 8}


@pytest.mark.parametrize("item", [workloads.load("hopper-ddpg"), small(prioritized=False)])
def test_what_cannot_stay_on_a_device_has_no_pieces(item: Workload) -> None:
    assert not list(resident_cases(item, problem_of(item, 8)))
