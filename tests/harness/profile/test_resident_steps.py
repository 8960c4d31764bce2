"""Timing gradient steps that stay on a device, rehearsed without a GPU."""

import pytest

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.measure.protocol import Timing
from placerl.harness.profile import resident_steps
from placerl.harness.profile.resident_steps import (
    AHEAD,
    ITERATION,
    PARTS,
    PREDICTED,
    ROUND,
    STEP,
    STRICT,
    Taken,
)
from placerl.primitives import device
from placerl.primitives.device.base import KINDS
from tests.primitives.device.kinds import device_of

CAPACITY = 20_000


def small(name: str) -> workloads.Workload:
    return workloads.override(workloads.load(name), "replay.capacity", CAPACITY, "test")


@pytest.mark.parametrize(
    ("name", "size", "ways"),
    [("cartpole-dqn", 32, [ROUND, STEP, AHEAD, STRICT]), ("hopper-ddpg", 64, [STEP, AHEAD, STRICT])],
)
def test_every_way_of_taking_the_steps_learns(name: str, size: int, ways: list[str]) -> None:
    cases = resident_steps.cases(small(name), size, device_of("opencl"), {})
    assert [case.name for case in cases] == ways
    assert all(case.elsewhere for case in cases)
    for case in cases:
        case.check(case.setup())


def test_a_call_says_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes whole rounds of 3 gradient steps, or whole iterations of 2 epochs, with samples that fill no batch."""
    item, on = small("cartpole-dqn"), device_of("opencl")
    for name, value in (("actors", 3), ("update_interval", 4)):
        item = workloads.override(item, f"training.{name}", value, "test")
    taken: dict[str, Taken] = {}
    monkeypatch.setattr(resident_steps, "ENVIRONMENTS", 16)
    ppo = resident_steps.widened(workloads.load("cartpole-ppo"))
    ppo = workloads.override(ppo, "algorithm.epochs", 2, "test")
    rounds, *_ = resident_steps.cases(item, 32, on, taken)
    for case in (rounds, *resident_steps.cases(ppo, 100, on, taken)):
        case.call(case.setup(), 4)
    assert {name: one[1:] for name, one in taken.items()} == {ROUND: (6, None), ITERATION: (2 * 5, 16 * 32)}


@pytest.mark.parametrize("losses", [[0.5, 0.5], [0.5, float("nan")]])
def test_losses_that_say_nothing_was_learnt_are_refused(losses: list[float]) -> None:
    left = iter(losses)
    with pytest.raises(ValueError, match="losses: found"):
        resident_steps.check(lambda steps: Taken(next(left), steps))


def test_a_rehearsal_gives_a_row_for_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_steps, "fitted", lambda item: small(item.name))
    monkeypatch.setattr(resident_steps, "STEPS", dict.fromkeys(resident_steps.STEPS, 2))
    device_of("opencl")
    rows = resident_steps.profile(workloads.load("cartpole-dqn"), 32, "opencl", 0.1, silent)
    assert [row.primitive for row in rows] == [ROUND, STEP, AHEAD, STRICT, PREDICTED]
    assert [row.provenance for row in rows] == [*["measured"] * 4, "modelled"]
    assert not [row.reason for row in rows if row.status == "failed"]
    assert all(row.value and row.gradient_steps == 2 and row.capacity == CAPACITY for row in rows)
    assert [row.error is not None for row in rows] == [False] * 4 + [True]
    assert {row.suite for row in rows} == {"bench-gpu"}


def test_a_rehearsal_of_ppo_states_its_environment_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident_steps, "ENVIRONMENTS", 16)
    monkeypatch.setattr(resident_steps, "STEPS", {ITERATION: 4})
    device_of("opencl")
    (row,) = resident_steps.profile(workloads.load("cartpole-ppo"), 128, "opencl", 0.1, silent)
    assert (row.primitive, row.gradient_steps, row.environment_steps) == (ITERATION, 4, 512)
    assert row.value
    assert row.status != "failed"


def test_a_prediction_is_compared_in_the_rounds_that_timed_both() -> None:
    def timing(name: str, *seconds: float) -> Timing:
        return Timing(name, "ok", "", clock_s=seconds, clock_rounds=tuple(range(len(seconds))))

    def told(part: str, *seconds: float) -> Timing:
        return timing(f"{PARTS}: {part}", *seconds)

    whole = timing(ROUND, *[64 * 1e-3] * 5, 1.0), timing(PARTS, *[1.0] * 5)
    parts = told("collect", *[3e-4] * 5), told("steps", *[8e-4] * 5), told("runtime", *[1e-4] * 5)
    timings = {one.name: one for one in (*whole, *parts)}
    taken = {ROUND: Taken(0.5, 64)}
    columns = resident_steps._predicted(workloads.load("cartpole-dqn"), 32, "opencl", timings, taken)
    assert columns["value"] == pytest.approx(64 * 1.2e-3)
    errors = [columns[name] for name in ("error", "error_low", "error_high")]
    assert errors == pytest.approx([1 / 1.2 - 1] * 3)
    failed = timings | {ROUND: Timing(ROUND, "failed", "no room")}
    columns = resident_steps._predicted(workloads.load("cartpole-dqn"), 32, "opencl", failed, {})
    assert (columns["status"], columns["reason"], columns["value"]) == ("failed", "no room", None)


def test_without_the_device_a_row_says_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "unavailable_reason", lambda kind: "no CUDA device")
    (row,) = resident_steps.profile(workloads.load("cartpole-dqn"), 32, "cuda", 1.0, silent)
    assert (row.status, row.reason) == ("not_run", "not run: needs cuda: no CUDA device")
    assert row.device in KINDS
    assert row.value is None
