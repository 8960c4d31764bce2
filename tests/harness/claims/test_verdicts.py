"""Verdicts, from rows that should and should not carry them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import claims
from harness.claims import Finding, Outcome, Verdict, accelerator_cycles, experiments
from harness.claims.base import SHOWN_HERE
from harness.claims.number import Number, format_value, from_text, ratio
from harness.errors import UserError
from harness.measurement import Measurement
from harness.provenance import Provenance
from tests.harness.claims.rows import compared, frame_of, profiled

# Tables and figures that must each be a claim.
LISTED = (
    [f"MAP-F{n}" for n in range(10, 15)]
    + [f"MAP-T{n}" for n in (3, 5, 6, 7)]
    + [f"PAL-F{n}" for n in range(8, 13)]
    + ["PAL-VI-H"]
    + [f"PRL-F{n}" for n in range(6, 10)]
    + ["PRL-T3", "PRL-T4", "PPO-T1", "PPO-T2"]
    + [f"PPO-F{n}" for n in range(10, 16)]
    + [f"FIX-F{n}" for n in range(7, 11)]
    + ["FIX-T1", "FIX-T2"]
)


def verdict(key: str, folder: Path, *rows: Measurement) -> Verdict:
    (found,) = (v for v in claims.evaluate(frame_of(folder, *rows), key) if v.key == key)
    return found


def test_every_listed_table_and_figure_is_a_claim() -> None:
    keys = [claim.key for claim in claims.claims()]
    assert len(set(keys)) == len(keys)
    for listed in LISTED:
        assert claims.claims(listed), listed
    for claim in claims.claims():
        assert all([claim.place, claim.statement, claim.needs])
        assert all(number.provenance is Provenance.PUBLISHED for number in claim.published)


SHOWN_WITHOUT_ROWS = {"MAP-T6-cells", "FIX-T1"}
"""Claims whose checks need no row: cells that Yosys counted of the blocks."""


def test_without_rows_nothing_measured_is_reproduced(tmp_path: Path) -> None:
    for found in claims.evaluate(frame_of(tmp_path)):
        outcome = found.finding.outcome
        if outcome in SHOWN_HERE:
            assert found.key in SHOWN_WITHOUT_ROWS, found.verdict
        assert bool(found.needs) == (outcome is Outcome.NOT_RUN)
        assert found.rows == ()
        if outcome is Outcome.NOT_RUN:
            assert found.verdict.startswith("not run: needs ")
        else:
            assert found.ours
            assert found.provenance


def test_no_label_of_a_verdict_stands_there_twice(tmp_path: Path) -> None:
    for found in claims.evaluate(frame_of(tmp_path)):
        for numbers in (found.claim.published, found.finding.ours):
            labels = [number.quantity for number in numbers]
            assert len(set(labels)) == len(labels), found.key


@pytest.mark.parametrize("key", ["PPO-F12", "PPO-F13"])
def test_a_gain_names_its_network_and_the_model_of_its_cycles(key: str, tmp_path: Path) -> None:
    for number in verdict(key, tmp_path).finding.ours:
        network, _, rest = number.quantity.partition(", ")
        assert network in {"PPO-F12": ("Hopper", "Humanoid"), "PPO-F13": ("Pong",)}[key]
        assert any(f", {model}: gain" in rest for model in accelerator_cycles.MODELS), number.quantity


@pytest.mark.parametrize(
    ("key", "needs"),
    [
        ("MAP-F14-Pong", "RLlib"),
        ("PPO-T2-bases", "CPU-FPGA"),
        ("PPO-T2-trajectory", "CPU-FPGA"),
        ("PPO-T2-steps", "CPU-FPGA"),
    ],
)
def test_a_paper_that_agrees_with_itself_reproduces_nothing(key: str, needs: str, tmp_path: Path) -> None:
    found = verdict(key, tmp_path).finding
    assert found.outcome is Outcome.CONSISTENT
    assert found.explanation.startswith("The paper's own numbers agree.")
    assert needs in found.explanation.partition("A measurement would need ")[2]
    assert found.ours


def test_contradictions_of_the_papers(tmp_path: Path) -> None:
    found = {
        v.key: v.finding
        for v in claims.evaluate(frame_of(tmp_path))
        if v.finding.outcome is Outcome.INCONSISTENT
    }
    assert set(found) == {
        "MAP-T6",
        "PAL-VI-H",
    }
    assert found["PAL-VI-H"].ours[0].value == pytest.approx(4063.49, abs=0.01)


def tree_rows(
    capacity: int, fanout: int, time_s: float, null_s: float = 0.0, **details: object
) -> list[Measurement]:
    """A row of the sum tree experiments and its A/A null, which takes as long unless told otherwise."""
    return [
        tree_row(capacity, fanout, time_s, null=False, **details),
        tree_row(capacity, fanout, null_s or time_s, null=True, **details),
    ]


def tree_row(capacity: int, fanout: int, time_s: float, **details: object) -> Measurement:
    """A row of the sum tree experiments, with 30 samples that vary by 2%."""
    known = {"experiment": "fanout", "capacity": capacity, "fanout": fanout, "aligned": True}
    samples = tuple(time_s * (0.98 + 0.04 * ((7 * i + 11 * fanout) % 30) / 29) for i in range(30))
    return profiled(
        experiments.PRIMITIVE,
        time_s,
        64,
        suite="claim",
        workload="",
        samples=samples,
        details=known | details,
    )


@pytest.mark.parametrize(
    ("ours_s", "null_s", "binary_s", "outcome"),
    [
        (10e-6, 10e-6, 20e-6, Outcome.IN_KIND),
        (20e-6, 20e-6, 10e-6, Outcome.NOT_REPRODUCED),
        (10e-6, 10e-6, 10e-6, Outcome.NO_VERDICT),
        (10e-6, 25e-6, 20e-6, Outcome.NO_VERDICT),  # the same tree differs from itself by more
        (20e-6, 8e-6, 10e-6, Outcome.NO_VERDICT),
    ],
)
def test_k_ary_tree_against_binary(
    ours_s: float, null_s: float, binary_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*tree_rows(1000, 16, ours_s, null_s), *tree_rows(1000, 2, binary_s)]
    found = verdict("PAL-F9", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(binary_s / ours_s, rel=0.02)
    assert found.rows == (0, 1, 2)
    assert verdict("PAL-F9", tmp_path, *rows[:2]).finding.outcome is Outcome.NOT_RUN
    assert verdict("PAL-F9", tmp_path, *rows[::2]).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("best", "advantage", "itself", "outcome"),
    [
        ((256, 128, 64), 2.0, 1.0, Outcome.REPRODUCED),
        ((64, 16, 16), 2.0, 1.0, Outcome.IN_KIND),
        ((64, 16, 16), 2.0, 2.5, Outcome.NO_VERDICT),
        ((64, 16, 16), 1.0001, 1.0, Outcome.NO_VERDICT),
        ((16, 64, 256), 2.0, 1.0, Outcome.NOT_REPRODUCED),
        ((16, 16, 16), 2.0, 1.0, Outcome.NOT_REPRODUCED),
        ((64, 128, 16), 2.0, 1.0, Outcome.NOT_REPRODUCED),  # falls in the end, having risen
    ],
)
def test_best_fanout(
    best: tuple[int, int, int], advantage: float, itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    times_s = [
        (n, fanout, 1e-6 * (1 if fanout == chosen else advantage if fanout in best else 3))
        for n, chosen in zip((1_000, 10_000, 100_000), best, strict=True)
        for fanout in (2, 16, 64, 128, 256)
    ]
    rows = [row for n, k, time_s in times_s for row in tree_rows(n, k, time_s, itself * time_s)]
    found = verdict("PAL-F9-fanout", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert [number.value for number in found.finding.ours[:3]] == list(best)
    assert verdict("PAL-F9-fanout", tmp_path, *rows[:-1]).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize("seed", range(4))
def test_fanouts_that_noise_alone_orders_give_no_verdict(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        replace(row, samples=tuple(row.samples[0] * np.exp(rng.normal(0, 0.1, 30))))
        for capacity in (1_000, 10_000, 100_000)
        for fanout in (2, 4, 8, 16, 32, 64, 128, 256)
        for row in tree_rows(capacity, fanout, 1e-6 * (1 + 2e-3 * rng.random()))
    ]
    found = verdict("PAL-F9-fanout", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "not told apart" in found.explanation


def test_a_best_fanout_that_is_not_told_apart_from_another_may_still_fall(tmp_path: Path) -> None:
    """Of two alike in the small buffer either is above the one of the large buffer."""
    slow = {(1_000, 2): 3, (1_000, 16): 3, (1_000, 32): 3, (100_000, 64): 2, (100_000, 128): 2}
    slow |= {(capacity, k): 3 for capacity in (10_000, 100_000) for k in (2, 32)} | {(10_000, 16): 2}
    rows = [
        row
        for capacity in (1_000, 10_000, 100_000)
        for k in (2, 16, 32, 64, 128)
        for row in tree_rows(capacity, k, 1e-6 * slow.get((capacity, k), 1))
    ]
    found = verdict("PAL-F9-fanout", tmp_path, *rows).finding
    assert found.outcome is Outcome.IN_KIND
    assert "buffer of 1,000: 64, 128;" in found.explanation


@pytest.mark.parametrize(
    ("gain", "itself", "outcome"),
    [
        (1.01, 1.0, Outcome.IN_KIND),
        (0.8, 1.0, Outcome.IN_KIND),
        (1.05, 1.0, Outcome.NO_VERDICT),
        (1.5, 1.0, Outcome.NOT_REPRODUCED),
        (1.5, 1.6, Outcome.NO_VERDICT),
        (1.01, 1.2, Outcome.NO_VERDICT),
    ],
)
def test_the_aligned_layout_gains_little(
    gain: float, itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [
        row
        for time, aligned in ((1.0, True), (gain, False))
        for row in tree_rows(1_000_000, 16, 1e-6 * time, itself * 1e-6, experiment="layout", aligned=aligned)
    ]
    found = verdict("PAL-VI-H-layout", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(100 * (gain - 1))


def test_experiments_are_named_by_claims() -> None:
    assert set(experiments.EXPERIMENTS) <= {claim.key for claim in claims.claims()}


def test_an_experiment_measures_every_configuration() -> None:
    rows = experiments.layout(0.0, lambda *_: None)
    assert [(row.details["aligned"], row.details["null"]) for row in rows] == [
        (True, False),
        (True, True),
        (False, False),
        (False, True),
    ]
    assert {(row.suite, row.primitive) for row in rows} == {("claim", experiments.PRIMITIVE)}
    assert all(row.status != "failed" for row in rows), [row.reason for row in rows]


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        ((2.0, "faster"), Outcome.IN_KIND),
        ((0.5, "slower"), Outcome.NOT_REPRODUCED),
        ((1.001, "no verdict"), Outcome.NO_VERDICT),
        ((2.0, "no verdict"), Outcome.NO_VERDICT),  # the interval leaves 1 out, the A/A null reaches as far
        ((0.5, "no verdict"), Outcome.NO_VERDICT),
    ],
)
def test_beside_the_libraries(second: tuple[float, str], outcome: Outcome, tmp_path: Path) -> None:
    rows = [compared(1.5, "faster"), compared(*second, "rllib")]
    found = verdict("PRL-T3", tmp_path, *rows, compared(9.0, "faster", "cpprb"))
    assert found.finding.outcome is outcome
    assert [number.value for number in found.finding.ours] == [1.5, second[0]]
    noisy = compared(2.0, "faster", status="too_noisy", reason="the interval is 40% of the median")
    assert verdict("PRL-T3", tmp_path, rows[0], noisy).finding.outcome is Outcome.NO_VERDICT


def test_learner_order_over_devices(tmp_path: Path) -> None:
    def steps(gpu_small_s: float) -> list[Measurement]:
        times = {("cpu", 32): 9e-4, ("cuda:0", 32): gpu_small_s, ("fpga", 32): 1e-4}
        times |= {("cpu", 2048): 9e-2, ("cuda:0", 2048): 1e-3, ("fpga", 2048): 9e-3}
        return [profiled("learner.step", t, size, device=device) for (device, size), t in times.items()]

    assert verdict("MAP-F11", tmp_path, *steps(5e-4)).finding.outcome is Outcome.IN_KIND
    assert verdict("MAP-F11", tmp_path, *steps(5e-5)).finding.outcome is Outcome.NOT_REPRODUCED
    cpu_only = verdict("MAP-F11", tmp_path, steps(5e-4)[0])
    assert cpu_only.verdict == "not run: needs a CUDA device and FPGA primitives (simulated)"


def test_only_chooses_by_key_and_refuses_what_is_unknown() -> None:
    assert [claim.key for claim in claims.claims("MAP-T5")] == ["MAP-T5", "MAP-T5-gains"]
    assert [claim.key for claim in claims.claims("MAP-T5-gains")] == ["MAP-T5-gains"]
    assert {claim.paper for claim in claims.claims("FIX")} == {"FIX"}
    with pytest.raises(UserError, match="--only: found 'NONE'"):
        claims.claims("NONE")


def test_a_finding_cannot_contradict_itself() -> None:
    with pytest.raises(ValueError, match="needs"):
        Finding(Outcome.REPRODUCED, from_text("MAP.optimum_gap"), needs="a GPU")
    with pytest.raises(ValueError, match="needs"):
        Finding(Outcome.NOT_RUN)
    with pytest.raises(ValueError, match="ours"):
        Finding(Outcome.REPRODUCED)
    for outcome in (Outcome.REPRODUCED, Outcome.IN_KIND):
        with pytest.raises(ValueError, match="found published numbers"):
            Finding(outcome, from_text("MAP.optimum_gap"))


def test_ratio_keeps_interval_rows_and_the_weakest_provenance() -> None:
    a = Number("a", 6.0, "s", Provenance.MEASURED, low=5.0, high=8.0, rows=(3,))
    b = Number("b", 2.0, "s", Provenance.MODELLED, low=1.0, high=4.0, rows=(1, 3))
    found = ratio("a/b", a, b)
    assert (found.value, found.low, found.high) == (3.0, 1.25, 8.0)
    assert found.provenance is Provenance.MODELLED
    assert found.rows == (1, 3)
    with pytest.raises(ValueError, match="divisor"):
        ratio("a/0", a, Number("zero", 0.0, "s", Provenance.MEASURED))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (18.8e6, "18,800,000"), (1.23456, "1.235"), (1234.56, "1,235"), (0.00012346, "0.0001235"),
     (1.5e-6, "1.500e-06"), (-0.5, "-0.5"), (float("nan"), "nan")],
)  # fmt: skip
def test_format_value(value: float, text: str) -> None:
    assert format_value(value) == text


def test_published_numbers_are_shown_as_printed() -> None:
    assert str(from_text("FIX.accelerator_ips")[0]) == "53,826.8 IPS"
    assert str(from_text("MAP.rllib_speedup_low")[0]) == "1.06x"
