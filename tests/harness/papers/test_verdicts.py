"""Verdicts, from rows that should and should not carry them."""

from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.base import SHOWN_HERE
from placerl.harness.papers.notes import notes
from placerl.harness.papers.number import Number, format_value, from_text, ratio
from placerl.harness.papers.ppo import cycle_models
from tests.harness.papers.rows import frame_of, profiled, verdict

# Tables and figures that must each be a claim.
LISTED = (
    [f"MAP-F{n}" for n in range(10, 15)]
    + ["MAP-T5"]
    + [f"PAL-F{n}" for n in range(8, 13)]
    + ["PAL-VI-H-layout"]
    + [f"PRL-F{n}" for n in range(6, 10)]
    + ["PRL-T3", "PRL-T4", "PPO-T1-memory", "PPO-T2"]
    + [f"PPO-F{n}" for n in range(10, 16)]
    + [f"FIX-F{n}" for n in range(7, 11)]
    + ["FIX-T1", "FIX-T2"]
)


def test_every_listed_table_and_figure_is_a_claim() -> None:
    keys = [claim.key for claim in papers.claims()]
    assert len(set(keys)) == len(keys)
    for listed in LISTED:
        assert papers.claims(listed), listed
    assert {"MAP-T6-cells", "MAP-T7"} <= {note.key for note in notes()}, "the tables that no run decides"
    for claim in papers.claims():
        assert all([claim.place, claim.statement, claim.needs])
        assert all(number.provenance is Provenance.PUBLISHED for number in claim.published)


def test_without_rows_nothing_measured_is_reproduced(tmp_path: Path) -> None:
    for found in papers.evaluate(frame_of(tmp_path)):
        outcome = found.finding.outcome
        assert outcome not in SHOWN_HERE, found.verdict
        assert bool(found.needs) == (outcome is Outcome.NOT_RUN)
        assert found.rows == ()
        if outcome is Outcome.NOT_RUN:
            assert found.verdict.startswith("not run: needs ")
        else:
            assert found.ours
            assert found.provenance


def test_no_label_of_a_verdict_stands_there_twice(tmp_path: Path) -> None:
    for found in papers.evaluate(frame_of(tmp_path)):
        for numbers in (found.claim.published, found.finding.ours):
            labels = [number.quantity for number in numbers]
            assert len(set(labels)) == len(labels), found.key


@pytest.mark.parametrize("key", ["PPO-F12", "PPO-F13"])
def test_a_gain_names_its_network_and_the_model_of_its_cycles(key: str, tmp_path: Path) -> None:
    for number in verdict(key, tmp_path).finding.ours:
        network, _, rest = number.quantity.partition(", ")
        assert network in {"PPO-F12": ("Hopper", "Humanoid"), "PPO-F13": ("Pong",)}[key]
        assert any(f", {model}: gain" in rest for model in cycle_models.MODELS), number.quantity


def test_learner_order_over_devices(tmp_path: Path) -> None:
    def steps(gpu_small_s: float) -> list[Row]:
        times = {("cpu", 32): 9e-4, ("cuda:0", 32): gpu_small_s, ("fpga", 32): 1e-4}
        times |= {("cpu", 2048): 9e-2, ("cuda:0", 2048): 1e-3, ("fpga", 2048): 9e-3}
        return [profiled("learner.step", t, size, device=device) for (device, size), t in times.items()]

    assert verdict("MAP-F11", tmp_path, *steps(5e-4)).finding.outcome is Outcome.CONSISTENT
    assert verdict("MAP-F11", tmp_path, *steps(5e-5)).finding.outcome is Outcome.NOT_REPRODUCED
    cpu_only = verdict("MAP-F11", tmp_path, steps(5e-4)[0])
    assert cpu_only.verdict == "not run: needs a CUDA device and FPGA primitives (simulated)"


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
