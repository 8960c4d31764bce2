"""What several commands share: measured first where the run does not hold it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import workloads
from harness.cli import common
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import DEFAULT_STRATEGY
from harness.plan import plan, tiers
from harness.store.store import Run, Store
from harness.workloads import Workload

CARTPOLE, QUICK = workloads.load("cartpole-dqn"), tiers.tier("quick")
TIME = Measurement(
    suite="profile",
    workload="cartpole-dqn",
    primitive="learner.step",
    batch_size=32,
    quantity="time_per_call",
    provenance=Provenance.MEASURED,
    value=1.0,
)
CHOICE = replace(
    TIME,
    suite="prediction",
    backend=DEFAULT_STRATEGY,
    quantity="gradient_steps_per_s",
    unit="1/s",
    details={"mapping": "native-native-cpu", "chosen": True},
)
NO_CHOICE = replace(CHOICE, status="not_run", reason="needs: a time", value=None, details={})


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Store.open(tmp_path / "store.sqlite") as store:
        yield store.begin_run("quick", "revision", {"fingerprint": "here"})


def test_a_prediction_without_a_choice_is_made_again_and_returned_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predictions(item: Workload, size: int, table: list[Measurement], *_: object) -> list[Measurement]:
        return [CHOICE if table else NO_CHOICE]

    monkeypatch.setattr(plan.predict, "measurements", predictions)
    monkeypatch.setattr(plan.measured, "profile", lambda *_: [TIME])
    profile, prediction = plan.profile_cell(CARTPOLE, 32, QUICK), plan.prediction_cell(CARTPOLE, 32)
    profile.store(run, [profile.failure(RuntimeError("killed"))])
    prediction.store(run, [NO_CHOICE])
    for _ in range(2):
        assert common.predicted(run, CARTPOLE, 32, QUICK) == [CHOICE]
        assert [name for name in run.cells() if not name.startswith("memory/")] == [
            "profile/cartpole-dqn/32",
            "prediction/cartpole-dqn/32",
            "profile/cartpole-dqn/32#2",
            "prediction/cartpole-dqn/32#2",
        ]


def test_simulations_that_lacked_their_tools_are_made_and_shown_alone_once_these_are_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = replace(TIME, suite="simulated_profile", device="fpga:u200", provenance=Provenance.SIMULATED)
    peak = replace(cycles, suite="roofs", quantity="peak", unit="FLOP/s")
    lacking = replace(cycles, value=None, status="not_run", reason="needs amaranth")
    monkeypatch.setattr(plan.toolchain, "unavailable_reason", lambda: "")
    monkeypatch.setattr(plan.simulated, "profile", lambda *_: [cycles, peak])
    plan.simulated_cell(CARTPOLE, 32, "fpga:u200").store(run, [lacking])
    assert common.simulated(run, CARTPOLE, 32, "fpga:u200") == [cycles]
