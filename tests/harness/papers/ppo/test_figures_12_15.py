"""PPO's Fig. 12 to 15 over simulated cycles: rows of the experiments, and verdicts from them.

The closed forms stand in for the RTL's simulation here.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.row import Row
from tests.harness.old_form import details_of, replace, row_of

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import gains_rule
from placerl.harness.papers.base import Outcome, Verdict
from placerl.harness.papers.number import Number, from_text
from placerl.harness.papers.ppo import cycle_models, figures_12_15_cycles
from placerl.harness.papers.ppo.cycle_models import published_throughput
from placerl.harness.papers.ppo.figures_12_15_cycles import EXPERIMENTS
from placerl.harness.plan.tiers import TIERS
from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.tools import placed
from tests.harness.papers.closed_forms import closed_forms  # noqa: F401
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import claim_of, frame_of


def verdict(key: str, folder: Path, rows: list[Row]) -> Verdict:
    return claim_of(key).evaluate(frame_of(folder, *rows))


OUTCOMES = {
    "PPO-F12": Outcome.IN_KIND,
    "PPO-F13": Outcome.IN_KIND,
    "PPO-F14": Outcome.NOT_REPRODUCED,  # in another order than the paper's, at either clock
}


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize("key", OUTCOMES)
def test_rows_lead_to_verdicts(key: str, tmp_path: Path) -> None:
    rows = EXPERIMENTS[key](lambda *_: None)
    assert all(row.provenance is Provenance.SIMULATED and row.status == "ok" for row in rows)
    found = verdict(key, tmp_path, rows).finding
    assert found.outcome is OUTCOMES[key]
    kinds = {number.provenance for number in found.ours}
    over_published = {Provenance.PUBLISHED} if key == "PPO-F14" else set()
    assert kinds == {Provenance.SIMULATED} | over_published
    assert all(number.rows for number in found.ours)
    assert len({number.quantity for number in found.ours}) == len(found.ours)
    said = "The clock is assumed" if over_published else "no clock is in them"
    assert said in found.explanation


@pytest.mark.usefixtures("closed_forms")
def test_a_design_has_the_clock_of_its_own_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"processing-element": 30.0, "layout-transform": 130.0, "lane-route": 20.0}
    clocks |= {"gemm-core float32=true side=2": 170.0, "activation-unit": 180.0, "adam-unit": 140.0}
    rows = {name: placed.Placed("", 8, mhz, "", {}, {}) for name, mhz in clocks.items()}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    said = verdict("PPO-F14", tmp_path, list(EXPERIMENTS["PPO-F14"](lambda *_: None))).finding.explanation
    assert "at 130 MHz, which the slowest placed block of the design (layout-transform)" in said


def cycles(rows: list[Row], change: Callable[[Row, Any], Any]) -> list[Row]:
    """The rows with other cycles."""
    return [
        replace(row, details=details_of(row) | {"cycles": change(row, details_of(row)["cycles"])})
        for row in rows
    ]


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ((23.5, 21.2, 11.2), Outcome.IN_KIND),  # the published ones at PPO's clock, more at the placed one
        ((9.0, 5.0, 1.0), Outcome.IN_KIND),  # the order is enough, at either clock
        ((30.0, 30.0, 30.0), Outcome.NO_VERDICT),  # no order, and none too small
        ((1.0, 5.0, 9.0), Outcome.NOT_REPRODUCED),
        ((9.0, 5.0, -1.0), Outcome.NOT_REPRODUCED),
    ],
)
def test_the_blocked_layout_is_judged_by_the_order_of_its_gains(
    gains: tuple[float, ...], outcome: Outcome, tmp_path: Path
) -> None:
    percent = dict(zip(("Hopper", "Humanoid", "Pong"), gains, strict=True))

    def change(row: Row, found: Any) -> Any:
        benchmark = details_of(row)["benchmark"]
        throughput, (_, _, iteration) = (
            published_throughput(benchmark),
            next(case for case in figures_12_15_cycles.LAYOUT_CASES if case[0] == benchmark),
        )
        saved = percent[benchmark] / 100 / throughput.gain(iteration, 1) / iteration.updates
        return {"blocked": {"BW": 0, "WU": sum(found["blocked"].values())}} | {
            "plain": {"BW": saved, "WU": sum(found["blocked"].values())}
        }

    rows = cycles(EXPERIMENTS["PPO-F14"](lambda *_: None), change)
    found = verdict("PPO-F14", tmp_path, rows).finding
    assert found.outcome is outcome
    shown = [n.value for n in found.ours if n.quantity.endswith("(285 MHz; Pong 300 MHz)")]
    assert shown == pytest.approx(gains)
    for row in rows:
        benchmark, made = details_of(row)["benchmark"], details_of(row)["cycles"]
        (iteration,) = (of for name, _, of in figures_12_15_cycles.LAYOUT_CASES if name == benchmark)
        saved, blocked = made["plain"]["BW"], made["blocked"]["WU"]
        inferences = iteration.steps * details_of(row)["inference_cycles"]
        whole = inferences + iteration.updates * (details_of(row)["forward_cycles"] + blocked)
        values = {n.quantity: n.value for n in found.ours if n.quantity.startswith(benchmark)}
        title = f"{benchmark}: gain of the blocked layout"
        assert values[f"{title} in BW and WU"] == pytest.approx(100 * saved / blocked)
        assert values[f"{title}, were the accelerator all"] == pytest.approx(
            100 * saved * iteration.updates / whole
        )


@pytest.mark.usefixtures("closed_forms")
def test_an_array_that_divides_no_layer_and_gains_less_contradicts_the_claim(tmp_path: Path) -> None:
    def change(row: Row, found: Any) -> Any:
        if details_of(row)["side"] == 32:
            return found
        return dict.fromkeys(found, found["NS"])  # no dataflow gains on the array of 38 x 38

    rows = cycles(EXPERIMENTS["PPO-F13"](lambda *_: None), change)
    found = verdict("PPO-F13", tmp_path, rows).finding
    assert found.outcome is Outcome.NOT_REPRODUCED
    assert "mean gain at 38 x 38 0.0%" in found.explanation


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize("core", [figures_12_15_cycles.FLOAT32, figures_12_15_cycles.AT_ONCE])
def test_a_dataflow_that_does_not_gain_contradicts_the_claim(core: str, tmp_path: Path) -> None:
    """Of the core of float32, or in rows of earlier versions of the one whose blocks come in at once."""
    rows = [
        row
        for row in EXPERIMENTS["PPO-F12"](lambda *_: None)
        if details_of(row)["core"] == figures_12_15_cycles.ROW_BY_ROW
    ]
    slow = [
        row_of(
            **{
                name: getattr(row, name)
                for name in ("suite", "primitive", "backend", "device", "batch_size", "quantity", "unit")
            },
            provenance=row.provenance,
            value=row.value,
            details={**details_of(row), "core": core},
        )
        for row in rows
    ]
    assert verdict("PPO-F12", tmp_path, [*rows, *slow]).finding.outcome is Outcome.NOT_REPRODUCED


@pytest.mark.usefixtures("closed_forms")
def test_the_gain_is_that_of_a_core_of_float32(tmp_path: Path) -> None:
    """As PPO's is; one of integers gains several times as much with one agent."""
    found = verdict("PPO-F12", tmp_path, list(EXPERIMENTS["PPO-F12"](lambda *_: None))).finding
    gains = {number.quantity: number.value for number in found.ours}
    of_core = "Humanoid, P = 16, {}: gain of inferences over NS, N = 1"
    assert gains[of_core.format("float32")] == pytest.approx(235.4, abs=0.1)
    assert gains[of_core.format("blocks at once")] == pytest.approx(1032, abs=1)


@pytest.mark.parametrize(
    ("key", "outcome"),
    [
        ("PPO-F12", Outcome.CONSISTENT),
        ("PPO-F13", Outcome.CONSISTENT),
        ("PPO-F14", Outcome.NO_VERDICT),
    ],
)
def test_without_rows_the_formulas_reproduce_nothing(key: str, outcome: Outcome, tmp_path: Path) -> None:
    found = verdict(key, tmp_path, []).finding
    assert {number.provenance for number in found.ours} == {Provenance.MODELLED}
    assert found.outcome is outcome
    assert ("formulas do not know" in found.explanation) == (outcome is Outcome.NO_VERDICT)


def test_formulas_are_of_ppo_s_arrays_and_agents(tmp_path: Path) -> None:
    """Fig. 12: P = 16; Fig. 13: P = 32, and 38 x 38, which divides no layer."""
    mujoco = {number.quantity: number.value for number in verdict("PPO-F12", tmp_path, []).finding.ours}
    assert len(mujoco) == 2 * 3 * 2
    for name, model, agents in product(("Hopper", "Humanoid"), cycle_models.MODELS, (4, 16)):
        assert mujoco[f"{name}, P = 16, {model}: gain of inferences over NS, N = {agents}"] >= 0
    for name in ("Hopper", "Humanoid"):
        title = f"{name}, P = 16, Equation 5: gain of inferences over NS, N = "
        assert mujoco[f"{title}4"] > mujoco[f"{title}16"]
    pong = {
        number.quantity: number.value for number in verdict("PPO-F13", tmp_path / "pong", []).finding.ours
    }
    assert len(pong) == 3 * 2 + 3 * 2
    for model in cycle_models.MODELS:
        for agents in (4, 32):
            assert pong[f"Pong, P = 32, {model}: gain of inferences over NS, N = {agents}"] >= 0
        gains = [
            pong[f"Pong, P = {side}, {model}: gain of an iteration over NS, N = 16"] for side in (32, 38)
        ]
        assert 0 <= gains[0] < gains[1]


def test_published_throughputs_are_those_of_table_2_at_ppo_s_clocks() -> None:
    found = {name: published_throughput(name) for name in ("Hopper", "Humanoid", "Pong")}
    assert {name: (each.samples_per_s, each.clock_hz) for name, each in found.items()} == {
        "Hopper": (28_600, 285e6),
        "Humanoid": (9_200, 285e6),
        "Pong": (904, 300e6),
    }
    assert published_throughput("Pong", 64.5).clock_hz == pytest.approx(64.5e6)


def test_a_gain_spans_the_throughputs_that_are_printed_for_one_iteration() -> None:
    """Pong's stands in two columns of Table 2: 904 and 1,058 inferences per second."""
    gain = Number("gain", 5.5, "%", Provenance.PUBLISHED)
    pong = cycle_models.over_every_print(gain, "Pong")
    assert (pong.value, pong.low) == (5.5, 5.5)
    assert pong.high == pytest.approx(5.5 * 1058 / 904)
    assert cycle_models.over_every_print(gain, "Hopper") is gain
    printed = [(n.value, n.value) for n in from_text(*cycle_models.LAYOUT_GAINS)]
    others = [Number("gain", value, "%", Provenance.PUBLISHED) for value in (24.0, 6.0)]
    assert gains_rule.judged([*others, gain], printed) is Outcome.IN_KIND
    assert gains_rule.judged([*others, pong], printed) is Outcome.NO_VERDICT, "perhaps more than Humanoid's"


@pytest.mark.parametrize("key", ["PPO-F12", "PPO-F13"])
def test_a_formula_under_which_no_dataflow_gains_gives_no_verdict(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cycle_models.MODELS, "Equation 5", gemm.core_cycles)  # blocks row by row
    found = verdict(key, tmp_path, []).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "does not grow" in found.explanation


def test_a_formula_that_gives_the_published_gains_is_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    published = iter([0.235, 0.212, 0.112])

    def layout(*_: Any, dataflow: str | None = None, **__: Any) -> float:
        return next(published) if dataflow is None else 1.0

    monkeypatch.setattr(cycle_models.gains, "layout_gain", layout)
    assert cycle_models.blocked_layout(None).outcome is Outcome.CONSISTENT


def test_without_the_tools_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_12_15_cycles.timed_block, "unavailable_reason", lambda: "no compiler")
    for key in ("PPO-F12", "PPO-F13", "PPO-F14", "PPO-F15"):
        (row,) = EXPERIMENTS[key](lambda *_: None)
        assert (row.status, row.reason, row.value) == ("not_run", "no compiler", None)


def test_named_tiers_simulate_them() -> None:
    stops = {"PPO-F15": [f"claim/PPO-F15-stops/{name}" for name in ("hopper", "humanoid")]}
    for key in EXPERIMENTS:
        cells = [cell.key for cell in claim_of(key).cells(TIERS["full"])]
        assert cells == [f"claim/{key}", *stops.get(key, [])]
        assert not claim_of(key).cells(TIERS["quick"])


DRAWN = {
    "PPO-F12": dict.fromkeys((f"{core} (simulated)" for core in figures_12_15_cycles.CORES), 14),
    "PPO-F13": dict.fromkeys((f"{core} (simulated)" for core in figures_12_15_cycles.CORES), 14),
    "PPO-F14": {"BW and WU alone (simulated)": 3, "throughput (published)": 3},
    "PPO-F15": {
        "training alone, policy stops after epoch 1 (simulated)": 2,
        "training alone, policy stops after epoch 9 (simulated)": 2,
        "throughput, least (published)": 2,
        "throughput, most (published)": 2,
    },
}


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize("key", DRAWN)
def test_every_row_of_inferences_and_gains_is_drawn(key: str, tmp_path: Path) -> None:
    claim = claim_of(key)
    figure = claim.draw(frame_of(tmp_path, *EXPERIMENTS[key](lambda *_: None)))
    assert points(figure) == DRAWN[key]
