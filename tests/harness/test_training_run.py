"""A training run as rows: throughput, returns, and what is kept where a unit dies on the way."""

from pathlib import Path

import pytest

from harness import reproduce, training_run, workload
from harness.mapping import Mapping
from harness.progress import silent
from harness.runtime.options import Options
from harness.runtime.training import Training
from harness.runtime.unit import UnitError
from harness.store import Store
from harness.training_run import Extent

TORCH = Mapping.parse("torch-native-cpu")


def train(extent: Extent, options: Options = Options()) -> dict[str, training_run.Measurement]:  # noqa: B008
    item = workload.load("cartpole-dqn")
    rows = training_run.train(item, TORCH, 32, 0, extent, silent, options)
    assert len({row.quantity for row in rows}) == len(rows)
    return {row.quantity: row for row in rows}


def test_a_short_training_gives_throughput_and_returns_with_their_raw_samples() -> None:
    by_quantity = train(Extent(1.5))
    assert set(by_quantity) == {"gradient_steps_per_s", "environment_steps_per_s", "episode_return"}
    gps = by_quantity["gradient_steps_per_s"]
    assert gps.value is not None
    assert min(gps.samples) <= gps.value <= max(gps.samples)
    assert gps.details["gradient_steps"] > 0
    assert gps.details["options"] == {}
    assert set(gps.details["terms_s"]) >= {"environment", "infer", "sample", "learner", "update"}
    returns = by_quantity["episode_return"]
    assert len(returns.samples) == len(returns.details["environment_step"])
    assert returns.details["environment_step"] == sorted(returns.details["environment_step"])


def test_steps_end_a_run_exactly_and_options_are_told() -> None:
    rows = train(Extent(steps=137), Options(presampled_batches=3))
    assert rows["gradient_steps_per_s"].details["gradient_steps"] == 137
    assert rows["gradient_steps_per_s"].details["options"] == {"presampled_batches": 3}


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
    assert {row.status for row in rows.values()} == {"ok"}
    assert rows["gradient_steps_per_s"].details["gradient_steps"] == sum(calls[:2])


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
    cell = reproduce.run_cell(workload.load("cartpole-dqn"), 32, 0, Extent(steps=10**9), TORCH)
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "machine"})
        with pytest.raises(KeyboardInterrupt):
            reproduce.execute(run, [cell], silent)
        rows = {row.quantity: row for row in run.measurements(suite="run")}
        assert rows["failure"].reason == "interrupted"
        assert rows["gradient_steps_per_s"].details["gradient_steps"] == sum(calls[:2])
        assert cell.stale(run)


def test_ctrl_c_before_the_first_stretch_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    interrupted_in(1, monkeypatch)
    cell = reproduce.run_cell(workload.load("cartpole-dqn"), 32, 0, Extent(steps=10), TORCH)
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "machine"})
        with pytest.raises(KeyboardInterrupt):
            reproduce.measure_now(run, cell, silent)
        assert not run.measurements()
