"""What several commands share: measured first where the run does not hold it."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.measure import control_groups
from placerl.harness.measure.cpu_quota import CpuQuota
from placerl.harness.measure.noise import Noise
from placerl.harness.plan import cell_kinds, predicting, tiers, under_load
from placerl.harness.platforms import this_machine
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.store.store import Run, Store
from placerl.harness.workloads import Workload
from tests.harness.measure import trees
from tests.harness.old_form import details_of, replace, row_of

CARTPOLE, QUICK = workloads.load("cartpole-dqn"), tiers.tier("quick")
TIME = row_of(
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
    def predictions(item: Workload, size: int, table: list[Row], *_: object) -> list[Row]:
        return [CHOICE if table else NO_CHOICE]

    monkeypatch.setattr(under_load, "last_noise", lambda: None)
    monkeypatch.setattr(cell_kinds.predict, "measurements", predictions)
    monkeypatch.setattr(cell_kinds.measured, "profile", lambda *_: [TIME])
    profile, prediction = (
        cell_kinds.profile_cell(CARTPOLE, 32, QUICK),
        cell_kinds.prediction_cell(CARTPOLE, 32),
    )
    profile.store(run, [profile.failure(RuntimeError("killed"))])
    prediction.store(run, [NO_CHOICE])
    for _ in range(2):
        (choice,) = predicting.predicted(run, CARTPOLE, QUICK)
        assert details_of(choice).keys() - details_of(CHOICE).keys() == {"conditions"}
        assert replace(choice, details=details_of(CHOICE)) == CHOICE
        assert [name for name in run.cells() if not name.startswith("memory/")] == [
            "profile/cartpole-dqn/32",
            "prediction/cartpole-dqn/32",
            "profile/cartpole-dqn/32#2",
            "prediction/cartpole-dqn/32#2",
        ]


@pytest.mark.parametrize(
    ("quota", "score", "said"),
    [
        ("max", 1.0, []),
        ("50000", 1.0, ["found a quota of 0.5 cores"]),
        ("max", 1.5, ["found a load of 0.8 busy cores next to this process, noise score 1.50"]),
        ("50000", 1.5, ["found a quota of 0.5 cores", "found a load of 0.8 busy cores"]),
    ],
)
def test_a_run_begins_with_a_line_for_what_takes_cores_away(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    quota: str,
    score: float,
    said: list[str],
) -> None:
    trees.proc(tmp_path, "0::/", trees.V2)
    trees.write(tmp_path, **{"sys/fs/cgroup/cpu.max": f"{quota} 100000"})
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    noise = Noise(score, score, 1.0, 1.0, 0.8, 0.0, 1.0, None)
    monkeypatch.setattr(this_machine, "measure_noise", lambda cores: noise)
    monkeypatch.setattr(this_machine, "_memory_links", lambda: [])
    record = predicting.begin(tmp_path, QUICK).record
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == len(said)
    assert all(line.startswith(f"machine: {words}") for line, words in zip(lines, said, strict=True))
    assert record.machine["noise"] == noise.to_json()
    assert record.machine["cpu"]["quota_cores"] == (None if quota == "max" else 0.5)


def test_a_prediction_states_the_quota_and_the_noise_under_which_it_was_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.proc(tmp_path, "1:cpu:/", trees.v1("cpu"))
    trees.write(tmp_path, **{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000"})
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    noise = Noise(1.5, 1.5, 1.0, 1.0, 0.8, 0.0, 1.0, None)
    monkeypatch.setattr("placerl.harness.measure.conditions.last_noise", lambda: noise)
    monkeypatch.setattr(under_load, "last_noise", lambda: noise)
    monkeypatch.setattr(under_load, "usable_cores", lambda: [0, 1])
    monkeypatch.setattr(cell_kinds.predict, "measurements", lambda *_: [CHOICE])
    (row,) = cell_kinds.prediction_cell(CARTPOLE, 32).measure(run, silent)
    assert details_of(row)["conditions"] == {"quota_cores": 1.5, "noise": noise.to_json()}
    assert (row.value, row.status) == (CHOICE.value, "ok"), "a core is left"
    monkeypatch.setattr(under_load, "usable_cores", lambda: [0])
    (row,) = cell_kinds.prediction_cell(CARTPOLE, 32).measure(run, silent)
    assert (row.value, row.status, row.reason) == (CHOICE.value, "too_noisy", noise.warning())


@pytest.mark.parametrize("device", [None, "fpga:u200"])
def test_a_change_of_this_machine_is_predicted_under_the_quota_as_the_machine_itself_is(
    run: Run, monkeypatch: pytest.MonkeyPatch, device: str | None
) -> None:
    """Both are shown side by side; a mapping without a part on the simulated device is this machine's own."""
    monkeypatch.setattr(under_load, "last_noise", lambda: None)
    for module in (cell_kinds, under_load, predicting):
        monkeypatch.setattr(module, "cpu_quota", lambda: CpuQuota(0.5))
    monkeypatch.setattr(predicting.platforms, "of_this_machine", lambda: None)
    monkeypatch.setattr(predicting.simulated_profile, "with_device", lambda host, _: host)
    monkeypatch.setattr(predicting.what_if, "changed", lambda host, _: host)
    monkeypatch.setattr(predicting, "profiled", lambda *_: [TIME])
    monkeypatch.setattr(predicting, "simulated", lambda *_: [])
    monkeypatch.setattr(predicting.predict, "with_slow_links", lambda *_: [CHOICE])
    (row,) = predicting._with_changes(run, CARTPOLE, QUICK, (), device, ["device.cpu.cores=8"])
    assert row.value == CHOICE.value / 2


def test_with_a_device_own_mappings_keep_their_share_and_those_on_it_have_slower_times_of_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quota of half a core doubles each time of this machine, but none of the board, which is then the choice."""
    monkeypatch.setattr(under_load, "last_noise", lambda: None)
    monkeypatch.setattr(under_load, "cpu_quota", lambda: CpuQuota(0.5))
    here, there = replace(TIME, value=1e-3), replace(TIME, value=1.5e-3, device="fpga:u200")

    def predictions(times: Sequence[PieceTime]) -> list[PredictedRate]:
        host_s, board_s = (row.value or 0.0 for row in times)
        rates = {
            "native-native-cpu": 1 / host_s,
            "fpga:u200-native-cpu": 1 / (board_s + host_s),
            "fpga:u200-fpga:u200-fpga:u200": 1 / board_s,
        }
        best = max(rates.values())
        return [
            replace(CHOICE, value=rate, mapping=mapping, chosen=rate == best)
            for mapping, rate in rates.items()
        ]

    rows = under_load.beside_added(predictions, [here, there], {"fpga:u200"})
    assert [row.value for row in rows] == pytest.approx([500, 1 / 3.5e-3, 1 / 1.5e-3])
    assert [row.chosen for row in rows] == [False, False, True]
    monkeypatch.setattr(under_load, "cpu_quota", lambda: CpuQuota(2.0))
    assert under_load.beside_added(predictions, [here, there], {"fpga:u200"}) == predictions([here, there])


@pytest.mark.parametrize(
    ("strategy", "cores", "status"),
    [
        ("composed-loop", 2, "ok"),
        ("concurrent-loop", 2, "too_noisy"),
        ("concurrent-loop", 3, "too_noisy"),
        ("concurrent-loop", 4, "ok"),
        ("pal21", 3, "ok"),
        ("pal21", 2, "too_noisy"),
    ],
)
def test_a_stored_prediction_of_busy_threads_needs_their_cores_now(
    run: Run, monkeypatch: pytest.MonkeyPatch, strategy: str, cores: int, status: str
) -> None:
    """Others keep 0.8 cores busy, which they did not when it was made."""
    monkeypatch.setattr(under_load, "last_noise", lambda: Noise(1.4, 1.4, 1.0, 1.0, 0.8, 0.0, 1.0, None))
    monkeypatch.setattr(under_load, "usable_cores", lambda: list(range(cores)))
    monkeypatch.setattr(predicting, "held", lambda *_: [TIME, replace(CHOICE, backend=strategy)])
    (row,) = predicting.predicted(run, CARTPOLE, QUICK)
    assert row.status == status
    assert ("0.8 busy cores" in row.reason) == (status == "too_noisy")


def test_simulations_that_lacked_their_tools_are_made_and_shown_alone_once_these_are_there(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = replace(TIME, suite="simulated_profile", device="fpga:u200", provenance=Provenance.SIMULATED)
    peak = replace(cycles, suite="roofs", quantity="peak", unit="FLOP/s")
    lacking = replace(cycles, value=None, status="not_run", reason="needs amaranth")
    monkeypatch.setattr(cell_kinds.timed_block, "unavailable_reason", lambda: "")
    monkeypatch.setattr(cell_kinds.simulated, "profile", lambda *_: [cycles, peak])
    cell_kinds.simulated_cell(CARTPOLE, 32, "fpga:u200").store(run, [lacking])
    assert predicting.simulated(run, CARTPOLE, "fpga:u200") == [cycles]
