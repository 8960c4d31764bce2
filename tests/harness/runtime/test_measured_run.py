"""A training run as rows: throughput, returns, and what is kept where a unit dies on the way."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import STRICT, Environments, Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure.episodes import EPISODES
from placerl.harness.plan import cell_kinds, execution
from placerl.harness.platforms.energy import Counter, EnergyMeter
from placerl.harness.runtime import measured_run
from placerl.harness.runtime.measured_run import Extent, start
from placerl.harness.runtime.native_iterations import NativeIterations
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.runtime.training import Progress, Training
from placerl.harness.runtime.units.unit import UnitError
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of
from tests.harness.runtime.short_workloads import short

PER_WATT = "throughput_per_watt"
TORCH, NATIVE = Mapping.parse("torch-native-cpu"), Mapping.parse("native-native-cpu")
CARTPOLE = workloads.load("cartpole-dqn")


def train(extent: Extent, schedule: Schedule = Schedule()) -> dict[str, Row]:  # noqa: B008
    item = workloads.load("cartpole-dqn")
    rows = measured_run.train(resolve(schedule, item, TORCH), 0, extent, silent)
    assert len({row.quantity for row in rows}) == len(rows)
    return {row.quantity: row for row in rows}


def test_a_short_training_gives_throughput_and_returns_with_their_raw_samples() -> None:
    by_quantity = train(Extent(steps=300))
    rates = {"gradient_steps_per_s", "environment_steps_per_s", PER_WATT}
    assert set(by_quantity) >= {*rates, "episode_return", "evaluation_return"}
    gps = by_quantity["gradient_steps_per_s"]
    assert gps.value is not None
    assert min(gps.samples) <= gps.value <= max(gps.samples)
    assert gps.gradient_steps > 0
    assert details_of(gps)["options"] == {}
    assert set(gps.terms_s) >= {"environment", "infer", "sample", "learner", "update"}
    returns = by_quantity["episode_return"]
    assert len(returns.samples) == len(details_of(returns)["environment_step"])
    assert details_of(returns)["environment_step"] == sorted(details_of(returns)["environment_step"])
    last = returns.samples[-EPISODES:]
    assert returns.value == pytest.approx(sum(last) / len(last))
    evaluated = by_quantity["evaluation_return"]
    assert len(evaluated.samples) == EPISODES
    assert evaluated.value == pytest.approx(sum(evaluated.samples) / EPISODES)


def test_a_run_says_when_it_reached_the_threshold_of_its_workload() -> None:
    """Random actions keep the pole up for more than 10 steps, and nothing keeps it up for 1e6."""
    rows = solved_at(10.0)
    steps, seconds = rows["environment_steps_to_threshold"], rows["time_to_threshold"]
    assert (steps.unit, seconds.unit, steps.threshold) == ("count", "s", 10.0)
    assert steps.value in details_of(rows["episode_return"])["environment_step"]
    assert rows["best_return"].value is not None
    assert rows["best_return"].value > 10
    assert not {"environment_steps_to_threshold", "time_to_threshold"} & set(solved_at(1e6))
    assert not {"environment_steps_to_threshold", "time_to_threshold"} & set(solved_at(None))


def solved_at(threshold: float | None) -> dict[str, Row]:
    """Train cart-pole for ten gradient steps after its thousand random steps, with another threshold."""
    item = workloads.override(workloads.load("cartpole-dqn"), "training.solved_return", threshold, "test")
    rows = measured_run.train(
        resolve(STRICT, item, Mapping.parse("native-native-cpu")), 0, Extent(steps=10), silent
    )
    return {row.quantity: row for row in rows}


def test_gradient_steps_per_watt_come_from_the_energy_of_the_stretches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a clock by which every stretch takes half a second, with a counter of microjoules that goes up at 50 W."""
    now_s, advance = 0.0, Training.advance

    def half_a_second(training: Training, gradient_steps: int) -> Progress:
        nonlocal now_s
        now_s += 0.5
        return advance(training, gradient_steps)

    meter = EnergyMeter([Counter("made up", lambda: int(now_s * 50e6), 1e-6)])
    monkeypatch.setattr(Training, "advance", half_a_second)
    monkeypatch.setattr(measured_run, "time", SimpleNamespace(perf_counter=lambda: now_s))
    monkeypatch.setattr(measured_run, "meter_of", lambda devices, simulated: meter)
    rows = train(Extent(1.5))
    row, gps = rows[PER_WATT], rows["gradient_steps_per_s"]
    assert row.unit == "1/s/W"
    assert row.watts == pytest.approx(50)
    assert row.counters == ["made up"]
    assert (
        len(row.samples) == len(gps.samples) == 2
    )  # of three, the first of which found how long the others are
    assert row.samples == pytest.approx([sample / 50 for sample in gps.samples])


def test_without_a_meter_it_is_not_run_and_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_run, "meter_of", lambda devices, simulated: EnergyMeter(reason="no counter"))
    row = train(Extent(steps=3))[PER_WATT]
    assert (row.status, row.reason, row.value) == ("not_run", "not run: needs watts: no counter", None)
    still = EnergyMeter([Counter("still", lambda: 7, 1e-6)])
    monkeypatch.setattr(measured_run, "meter_of", lambda devices, simulated: still)
    assert "a run longer than" in train(Extent(steps=3))[PER_WATT].reason


def test_steps_end_a_run_exactly_and_options_are_told() -> None:
    rows = train(Extent(steps=137), Schedule(presampled_batches=3))
    assert rows["gradient_steps_per_s"].gradient_steps == 137
    assert details_of(rows["gradient_steps_per_s"])["options"] == {"presampled_batches": 3}


def test_what_was_measured_before_a_unit_died_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    advance, calls = Training.advance, []

    def dies(self: Training, gradient_steps: int) -> object:
        calls.append(gradient_steps)
        if len(calls) == 3:
            raise UnitError("actor 1: its process was ended by SIGKILL")
        return advance(self, gradient_steps)

    monkeypatch.setattr(Training, "advance", dies)
    rows = train(Extent(steps=10**9))
    failure = rows.pop("failure")
    assert failure.status == "failed"
    assert failure.reason == "UnitError: actor 1: its process was ended by SIGKILL"
    assert {row.status for name, row in rows.items() if name != PER_WATT} == {"ok"}
    assert rows["gradient_steps_per_s"].gradient_steps == sum(calls[:2])


def test_a_run_that_dies_before_the_first_stretch_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: Training) -> None:
        raise OSError("the simulator is gone")

    monkeypatch.setattr(Training, "warm_up", dies)
    assert set(train(Extent(steps=10))) == {"failure"}


def interrupted_in(call: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has Ctrl-C come in one of a training's stretches; the gradient steps asked for so far."""
    advance, calls = Training.advance, []

    def stops(self: Training, gradient_steps: int) -> object:
        calls.append(gradient_steps)
        if len(calls) == call:
            raise KeyboardInterrupt
        return advance(self, gradient_steps)

    monkeypatch.setattr(Training, "advance", stops)
    return calls


def test_ctrl_c_keeps_the_stretches_that_had_ended_and_leaves_the_run_due(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = interrupted_in(3, monkeypatch)
    cell = cell_kinds.run_cell(CARTPOLE, 0, Extent(steps=10**9), resolve(STRICT, CARTPOLE, TORCH))
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "machine"})
        with pytest.raises(KeyboardInterrupt):
            execution.execute(run, [cell], silent)
        rows = {row.quantity: row for row in run.measurements(suite="run")}
        assert rows["failure"].reason == "interrupted"
        assert rows["gradient_steps_per_s"].gradient_steps == sum(calls[:2])
        assert cell.stale(run)


def test_ctrl_c_before_the_first_stretch_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupted_in(1, monkeypatch)
    cell = cell_kinds.run_cell(CARTPOLE, 0, Extent(steps=10), resolve(STRICT, CARTPOLE, TORCH))
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "machine"})
        with pytest.raises(KeyboardInterrupt):
            execution.measure_now(run, cell, silent)
        assert not run.measurements()


def test_rows_are_kept_though_closing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Training.close

    def fails(self: Training) -> None:
        close(self)
        raise OSError("the simulator does not answer")

    monkeypatch.setattr(Training, "close", fails)
    rows = train(Extent(steps=3))
    assert rows["failure"].reason == "OSError: the simulator does not answer"
    assert rows["gradient_steps_per_s"].gradient_steps == 3


def test_a_training_is_closed_though_energy_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    closed, close = [], Training.close
    monkeypatch.setattr(Training, "close", lambda self: closed.append(close(self)))

    def fails(devices: object, simulated: bool) -> EnergyMeter:
        raise OSError("no such counter")

    monkeypatch.setattr(measured_run, "meter_of", fails)
    with pytest.raises(OSError, match="no such counter"):
        train(Extent(steps=3))
    assert closed == [None]


@pytest.mark.parametrize(
    ("name", "options", "expected", "fusion"),
    [
        ("cartpole-dqn", {}, Training, Fusion.ROUND),
        ("cartpole-dqn", {"threads_native": True}, ThreadedTraining, Fusion.REPLAY),
        ("cartpole-ppo", {"environments": Environments.GYMNASIUM}, OnPolicyTraining, Fusion.NONE),
        ("cartpole-ppo", {}, NativeIterations, Fusion.ITERATION),
    ],
)
def test_each_kind_of_training_has_its_class(
    name: str, options: dict[str, Any], expected: type, fusion: Fusion
) -> None:
    resolved = resolve(Schedule(**options), short(name), NATIVE)
    assert resolved.fusion == fusion
    with closing(start(resolved, 3)) as training:
        assert type(training) is expected
        assert training.fusion == fusion
        training.warm_up()
        assert training.gradient_steps > 0
