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
    "PPO-F14": Outcome.NOT_REPRODUCED,  # in another order than the paper's, at every clock
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
    said = "it takes no clock" if over_published else "no clock is in them"
    assert said in found.explanation


def cycles(rows: list[Row], change: Callable[[Row, Any], Any]) -> list[Row]:
    """The rows with other cycles."""
    return [
        replace(row, details=details_of(row) | {"cycles": change(row, details_of(row)["cycles"])})
        for row in rows
    ]


BENCHMARKS = ("Hopper", "Humanoid", "Pong")
PUBLISHED = (23.5, 21.2, 11.2)


def layout_rows(over_published: tuple[float, ...], alone: tuple[float, ...]) -> list[Row]:
    """Rows of PPO-F14 that gain so many percent, over the published iteration and in the accelerator alone."""
    percents = dict(zip(BENCHMARKS, zip(over_published, alone, strict=True), strict=True))

    def changed(row: Row) -> Row:
        benchmark = details_of(row)["benchmark"]
        throughput = published_throughput(benchmark)
        (iteration,) = (of for name, _, of in figures_12_15_cycles.LAYOUT_CASES if name == benchmark)
        ours, of_all = percents[benchmark]
        saved = ours / 100 / throughput.gain(iteration, 1) / iteration.updates
        blocked = saved / (of_all / 100)
        made = {
            "cycles": {"blocked": {"BW": 0, "WU": blocked}, "plain": {"BW": saved, "WU": blocked}},
            "inference_cycles": 0,
            "forward_cycles": 0,
        }
        return replace(row, details=details_of(row) | made)

    return [
        changed(row) if details_of(row)["core"] == figures_12_15_cycles.FLOAT32 else row
        for row in EXPERIMENTS["PPO-F14"](lambda *_: None)
    ]


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize(
    ("over_published", "alone", "outcome"),
    [
        (PUBLISHED, PUBLISHED, Outcome.REPRODUCED),
        (PUBLISHED, (40.0, 30.0, 20.0), Outcome.IN_KIND),
        ((9.0, 5.0, 1.0), (40.0, 30.0, 20.0), Outcome.IN_KIND),  # the order is enough
        ((9.0, 5.0, 1.0), (40.0, 50.0, 20.0), Outcome.CONSISTENT),  # the order at one end alone
        ((1.0, 5.0, 9.0), (40.0, 30.0, 20.0), Outcome.CONSISTENT),
        # Pong's two printed throughputs leave the order open, and none is too small.
        ((26.0, 25.0, 24.0), (25.0, 25.0, 25.0), Outcome.NO_VERDICT),
        ((26.0, 25.0, 24.0), (1.0, 5.0, 9.0), Outcome.NO_VERDICT),  # refuted at one end alone
        ((1.0, 5.0, 9.0), (1.0, 5.0, 9.0), Outcome.NOT_REPRODUCED),
        ((9.0, 5.0, -1.0), (40.0, 30.0, -1.0), Outcome.NOT_REPRODUCED),
    ],
)
def test_the_blocked_layout_is_judged_at_both_ends_of_what_a_clock_may_be(
    over_published: tuple[float, ...], alone: tuple[float, ...], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PPO-F14", tmp_path, layout_rows(over_published, alone)).finding
    assert found.outcome is outcome
    values = {number.quantity: number.value for number in found.ours}
    for benchmark, one, other in zip(BENCHMARKS, over_published, alone, strict=True):
        title = f"{benchmark}: gain of the blocked layout"
        assert values[f"{title} in throughput"] == pytest.approx(one)
        assert values[f"{title}, were the accelerator all"] == pytest.approx(other)


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize("placements", [{}, {"gemm-core float32=true side=2": 30.0, "adam-unit": 140.0}])
def test_the_blocked_layout_takes_no_placed_clock(
    placements: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gains at slower clocks than PPO's lie between the two that are judged, in an order that one of them has."""
    rows = {name: placed.Placed("", 8, mhz, "", {}, {}) for name, mhz in placements.items()}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    stored = EXPERIMENTS["PPO-F14"](lambda *_: None)
    found = verdict("PPO-F14", tmp_path, stored).finding
    assert found.outcome is Outcome.NOT_REPRODUCED
    assert "it takes no clock of a placed block" in found.explanation
    ends = {}
    for benchmark in BENCHMARKS:
        title = f"{benchmark}: gain of the blocked layout"
        values = {number.quantity: number for number in found.ours}
        ends[benchmark] = (
            values[f"{title} in throughput"].value,
            values[f"{title}, were the accelerator all"].value,
        )
    for slower in (1.0, 1.5, 4.0, 16.0, 1e6):
        gains = {}
        for row in stored:
            stated = details_of(row)
            if stated["core"] != figures_12_15_cycles.FLOAT32:
                continue
            benchmark, throughput = stated["benchmark"], published_throughput(stated["benchmark"])
            (iteration,) = (of for name, _, of in figures_12_15_cycles.LAYOUT_CASES if name == benchmark)
            blocked, plain = (sum(stated["cycles"][layout].values()) for layout in ("blocked", "plain"))
            whole = stated["inference_cycles"] * iteration.steps
            whole += (stated["forward_cycles"] + blocked) * iteration.updates
            published_s = iteration.samples / throughput.samples_per_s
            host_s = published_s - whole / throughput.clock_hz
            saved_s = slower * (plain - blocked) * iteration.updates / throughput.clock_hz
            gains[benchmark] = 100 * saved_s / (host_s + slower * whole / throughput.clock_hz)
            low, high = ends[benchmark]
            assert low * (1 - 1e-9) <= gains[benchmark] <= high * (1 + 1e-9)
        assert gains["Hopper"] < gains["Pong"], "which PPO has the other way round"


@pytest.mark.usefixtures("closed_forms")
def test_gains_of_the_blocked_layout_are_those_of_a_float32_array(tmp_path: Path) -> None:
    """Hopper's update in WS, 512 samples, P = 16, of the plain layout: blocks of A that are read, 17 cycles each."""
    rows = EXPERIMENTS["PPO-F14"](lambda *_: None)
    (hopper,) = (
        details_of(row)
        for row in rows
        if (details_of(row)["benchmark"], details_of(row)["core"]) == ("Hopper", "float32")
    )
    # WU: 32 columns of 1, 4 and 4 blocks of activations, less the first of each; passes of 64, 64 and 5 vectors.
    core = 32 * 64 + 4 * 32 * 64 + 4 * 32 * 5 - 2 + 3 * (15 * 4 + 8)
    assert hopper["stalls"]["WU"] == (32 + 128 + 128 - 3) * 17
    assert hopper["cycles"]["plain"]["WU"] == core + hopper["stalls"]["WU"]
    assert hopper["cycles"]["blocked"]["WU"] == core, "which needs no stall in WS"
    found = verdict("PPO-F14", tmp_path, rows).finding
    values = {number.quantity: number.value for number in found.ours}
    blocked, plain = (sum(hopper["cycles"][layout].values()) for layout in ("blocked", "plain"))
    # PPO 5.3.3: N = 32, T = M = 512, K = 10, at 285 MHz; Table 2: 28,600 inferences a second.
    of_published = 320 * (plain - blocked) / 285e6 / (32 * 512 / 28_600)
    assert values["Hopper: gain of the blocked layout in throughput"] == pytest.approx(100 * of_published)
    assert of_published == pytest.approx(0.0132, abs=1e-4)


@pytest.mark.parametrize("core", [None, figures_12_15_cycles.ROW_BY_ROW])
@pytest.mark.usefixtures("closed_forms")
def test_layouts_of_integers_alone_leave_the_formulas(core: str | None, tmp_path: Path) -> None:
    """As in rows of earlier versions, which do not say of which core they are."""
    rows = [
        replace(row, details={**details_of(row), "core": core})
        for row in EXPERIMENTS["PPO-F14"](lambda *_: None)
        if details_of(row)["core"] == figures_12_15_cycles.ROW_BY_ROW
    ]
    found = verdict("PPO-F14", tmp_path, rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert {number.provenance for number in found.ours} == {Provenance.MODELLED}
    assert "`placerl reproduce --only PPO-F14 --tier standard`" in found.decides


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
    assert cycle_models.blocked_layout("its rows").outcome is Outcome.CONSISTENT


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
        **{
            f"training alone, {core}, policy stops after epoch {epoch} (simulated)": 2
            for core in (figures_12_15_cycles.FLOAT32, figures_12_15_cycles.AT_ONCE)
            for epoch in (1, 9)
        },
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
