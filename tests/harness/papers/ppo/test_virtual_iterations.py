"""PPO's iterations in virtual time: rows of them, and what they add to verdicts from bounds."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from placerl.harness.core.row import Row
from tests.harness.old_form import details_of, replace, row_of

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Outcome
from placerl.harness.papers.ppo import table_2_iterations, virtual_iterations
from placerl.harness.papers.ppo.table_2_iterations import BENCHMARKS, EXPERIMENT, TIME
from placerl.harness.papers.ppo.virtual_iterations import DEVICE, accelerator, cells, networks_of, virtual
from placerl.harness.runtime.accelerated import DEVICE_TERMS, HOST_TERMS, LINK_TERMS
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from tests.harness.papers.ppo.test_table_2 import CLOCK_MHZ, LARGE, SMALL, finding, rows

SHORT = PpoIteration(agents=2, steps=8, minibatch=8, epochs=2)


def test_every_network_has_a_unit_of_its_own() -> None:
    policy, value = networks_of("Hopper")
    assert [layer.outputs for layer in policy] == [64, 64, 3]
    assert [layer.outputs for layer in value] == [64, 64, 1]


def test_iterations_run_in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (table_2_iterations, virtual_iterations):
        monkeypatch.setattr(module, "cores_used", lambda _: {"threads": 1, "processes": 0})
    monkeypatch.setattr(virtual_iterations.timed_block, "unavailable_reason", lambda: "")
    (row,) = virtual("Hopper", [SHORT], 0.0, silent)
    assert (row.quantity, row.device, row.provenance) == (TIME, DEVICE, Provenance.MODELLED)
    assert details_of(row)["transfers"] == 2 * (8 + 1) + 3 * SHORT.updates
    terms = details_of(row)["terms_s"]
    assert set(terms) == {*HOST_TERMS, *DEVICE_TERMS, *LINK_TERMS}
    made = accelerator("Hopper")
    assert made.cycles.activation == "relu", "as the networks that run"
    expected_s = made.cycles.forward_cycles(2) * (8 + 1) / made.clock_hz
    assert terms["infer"] == pytest.approx([expected_s] * len(row.samples))
    assert details_of(row)["cycles"]["inference"] == pytest.approx(
        expected_s * 1e6 * details_of(row)["design_mhz"]
    )
    trained_s = details_of(row)["cycles"]["training"] / made.clock_hz
    assert terms["learner"] == pytest.approx([trained_s] * len(row.samples))
    sent = 2 * (8 + 1) * 4 * (11 + 4) + 8 * SHORT.updates * 4 * (
        11 + 4 + 4
    )  # observations there, 3 + 1 outputs and back
    assert [sum(each) for each in zip(*(terms[name] for name in LINK_TERMS), strict=True)] == pytest.approx(
        [sent / 16e9] * len(row.samples)
    )


def test_without_the_tools_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_iterations.timed_block, "unavailable_reason", lambda: "no compiler")
    (row,) = virtual("Hopper", [SHORT], 0.0, silent)
    assert (row.status, row.reason, row.value) == ("not_run", "no compiler", None)


def test_the_larger_tiers_run_the_iterations_that_they_time() -> None:
    def keys(name: str) -> list[str]:
        return [cell.key for cell in cells(SimpleNamespace(name=name, experiment_s=1.0))]

    assert keys("quick") == [], "its time is short"
    assert (
        keys("standard")
        == keys("full")
        == [f"claim/PPO-T2/{name}/virtual" for name in ("hopper", "humanoid")]
    )
    assert keys("own") == []


def joined(iteration: PpoIteration, seconds: float, transfers: int = 100) -> list[Row]:
    """An iteration in virtual time of that many seconds, all of them the host's."""
    pace = [1 + 0.002 * number for number in range(9)]
    terms = dict.fromkeys((*HOST_TERMS, *DEVICE_TERMS, *LINK_TERMS), [0.0] * len(pace))
    parts = {"environment": 0.5, "draw": 0.2, "objective": 0.3}
    terms |= {name: [share * seconds * each for each in pace] for name, share in parts.items()}
    return [
        row_of(
            suite="claim",
            workload=BENCHMARKS["Hopper"],
            primitive="training",
            batch_size=iteration.minibatch,
            device=DEVICE,
            quantity=TIME,
            provenance=Provenance.MODELLED,
            value=seconds,
            samples=tuple(seconds * each for each in pace),
            details={
                "experiment": EXPERIMENT,
                "iteration": asdict(iteration),
                "terms_s": terms,
                "transfers": transfers,
                "design_mhz": CLOCK_MHZ,
            },
        )
    ]


@pytest.mark.parametrize(
    ("small_s", "large_s", "transfers", "outcome"),
    [
        (3.0, 3.0, 100, Outcome.CONSISTENT),  # 18 and 5 times as fast
        (60.0, 3.0, 100, Outcome.NO_VERDICT),  # the small one is slower than the CPU
        (13.0, 3.0, 100, Outcome.NO_VERDICT),  # faster, but the large one gains more
        (3.0, 3.0, 60_000, Outcome.NO_VERDICT),  # a minute of latencies
    ],
)
def test_iterations_in_virtual_time_are_judged(
    small_s: float, large_s: float, transfers: int, outcome: Outcome, tmp_path: Path
) -> None:
    timed = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, 53.7), (LARGE, 14.8))]
    made = [joined(SMALL, small_s, transfers), joined(LARGE, large_s, transfers)]
    found = finding("PPO-T2-CPU", tmp_path, *timed, *made)
    assert found.outcome is outcome
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper, N=16, T=512, M=64: CPU and FPGA over CPU, in virtual time"
    assert values[name] == pytest.approx(54.2 / small_s)
    slow_s = small_s + 1e-3 * transfers
    assert values[f"{name}, 1000 us a transfer"] == pytest.approx(54.2 / slow_s, rel=0.02)
    assert "(slow links)" in found.explanation


def test_bounds_that_refute_stay_refuted(tmp_path: Path) -> None:
    timed = [rows("Hopper", item, 0.0, 0.5, s) for item, s in ((SMALL, 1.2), (LARGE, 1.0))]
    found = finding("PPO-T2-CPU", tmp_path, *timed, joined(SMALL, 0.1), joined(LARGE, 0.1))
    assert found.outcome is Outcome.NOT_REPRODUCED


def test_the_accelerator_s_part_follows_the_clock(tmp_path: Path) -> None:
    timed = [rows("Hopper", SMALL, 0.0, 0.5, 53.7)]
    (row,) = joined(SMALL, 3.0)
    terms = details_of(row)["terms_s"] | {"infer": [1.0] * 9, "learner": [0.5] * 9}
    slow = replace(row, details=details_of(row) | {"terms_s": terms, "design_mhz": 2 * CLOCK_MHZ})
    found = finding("PPO-T2-CPU", tmp_path, *timed, [slow])
    values = [number.value for number in found.ours if number.quantity.endswith("in virtual time")]
    assert values == pytest.approx([54.2 / 4.5], rel=0.01), "1.5 s at half the clock take 1.5 s more"


def test_parts_in_virtual_time_are_judged(tmp_path: Path) -> None:
    """Of 3 s drawing takes 0.6 and the objective 0.9; a mini-batch has three transfers, an inference two."""
    timed = [rows("Hopper", SMALL, 0.0, 2.0, 53.7)]
    found = finding("PPO-F10", tmp_path, *timed, joined(SMALL, 3.0))
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper, N=16, T=512, M=64"
    assert values[f"{name}: training, FPGA over CPU, in virtual time"] == pytest.approx(53.7 / 0.9)
    assert values[f"{name}: inference, FPGA over CPU, in virtual time"] == pytest.approx(2.0 / 0.6)
    slow = 53.7 / (0.9 + 1e-3 * 3 * SMALL.updates)
    assert values[f"{name}: training, FPGA over CPU, in virtual time, 1000 us a transfer"] == pytest.approx(
        slow, rel=0.02
    )


def test_values_of_samples_are_inferences_on_both_sides(tmp_path: Path) -> None:
    """On the CPU they are in `prepare`, in virtual time in `infer`, and `prepare` has the advantages on both."""
    (row,) = joined(SMALL, 3.0)
    there = replace(
        row, details=details_of(row) | {"terms_s": details_of(row)["terms_s"] | {"prepare": [0.4] * 9}}
    )
    timed = rows("Hopper", SMALL, 0.0, 2.0, 53.7, prepare_s=1.0)
    found = finding("PPO-F10", tmp_path, timed, [there])
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper, N=16, T=512, M=64: inference, FPGA over CPU, in virtual time"
    assert values[name] == pytest.approx(3.0 / (0.6 + 0.4), rel=0.01)


@pytest.mark.parametrize("key", ["PPO-T2-CPU", "PPO-F10"])
def test_one_size_of_mini_batch_agrees_with_nothing_said_of_two(key: str, tmp_path: Path) -> None:
    found = finding(key, tmp_path, rows("Hopper", SMALL, 0.0, 2.0, 53.7), joined(SMALL, 3.0))
    assert found.outcome is Outcome.NO_VERDICT
    assert "Of no robot were two sizes of mini-batch run" in found.explanation


@pytest.mark.parametrize(
    ("small_s", "outcome"),
    [
        (
            3.0,
            Outcome.CONSISTENT,
        ),  # the CPU's training takes 3.6 times as long with the small mini-batch, this as long
        (12.0, Outcome.NO_VERDICT),  # it gains, but slows down 4 times
    ],
)
def test_small_mini_batches_slow_down_training_less(small_s: float, outcome: Outcome, tmp_path: Path) -> None:
    timed = [rows("Hopper", item, 0.0, 9.0, s) for item, s in ((SMALL, 530.7), (LARGE, 140.8))]
    found = finding("PPO-F10", tmp_path, *timed, joined(SMALL, small_s), joined(LARGE, 3.0))
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper, N=16, T=512, M=64: its gain in training over that with M=512, in virtual time"
    assert values[name] == pytest.approx(530.7 / 140.8 * 3.0 / small_s)
    assert found.outcome is outcome
