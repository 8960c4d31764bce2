"""Verdicts that rest on cycles, at the assumed clock and at the placed one."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness import papers
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import Finding, Outcome, clocks
from placerl.harness.papers.evidence import number, records
from placerl.harness.papers.number import Number, ratio
from placerl.primitives.fpga.tools import placed
from tests.harness.papers.rows import PLACED_MHZ as PLACED
from tests.harness.papers.rows import claim_of, frame_of, profiled


def clocked(value: float, unit: str = "s", mhz: float = 285.0, **fields: Any) -> Any:
    base = {"suite": "simulated_profile", "device": "fpga:u200", "backend": "fpga", "samples": (value,)}
    details = {"clock_mhz": mhz, "clock_assumed": True}
    return profiled(
        "learner.step", value, unit=unit, provenance="simulated", details=details, **(base | fields)
    )


BLOCKS = ("processing-element",)


def test_the_placed_clock_is_that_of_the_slowest_block_of_the_design() -> None:
    for design in (
        clocks.REPLAY,
        clocks.LEARNERS,
        clocks.FLOAT32_PRODUCTS,
        clocks.CONVOLUTIONS,
        clocks.FIXAR,
    ):
        assert clocks.placed_clock(design).mhz == PLACED
    assert (
        clocks.placed_clock(clocks.LEARNERS).words
        == "64.5 MHz, which the slowest placed block of the design (processing-element) reaches on an ECP5"
    )


def test_a_design_of_some_blocks_has_the_clock_of_the_slowest_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks_mhz = {"a wide=1": 90.0, "a wide=2": 80.0, "a-b": 10.0, "b": 70.0, "c": 60.0}
    rows = {name: placed.Placed("", 8, mhz, "", {}, {}) for name, mhz in clocks_mhz.items()}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    assert clocks.placed_clock(("a",)) == clocks.PlacedClock(80.0, "a")
    assert clocks.placed_clock(("a wide=1",)) == clocks.PlacedClock(90.0, "a")
    assert clocks.placed_clock(("a", "b")) == clocks.PlacedClock(70.0, "b")
    assert clocks.unplaced(("a", "a wide=3", "d")) == ["a wide=3", "d"]
    with pytest.raises(ValueError, match="blocks: found d; placed: a wide=1, a wide=2, a-b, b, c"):
        clocks.placed_clock(("a", "d"))


def test_the_blocks_of_a_claim_s_design_are_those_that_can_be_placed() -> None:
    pytest.importorskip("amaranth", reason="needs the extra fpga")
    from placerl.primitives.fpga.tools.placement import SUBJECTS

    designs = {claim.key: claim.blocks for claim in papers.claims() if isinstance(claim, clocks.AtBothClocks)}
    assert {"PPO-T2-CPU", "MAP-T5", "PRL-F6", "FIX-F9"} <= designs.keys()
    for key, blocks in (designs | {"PPO-F15": clocks.FLOAT32_PRODUCTS}).items():
        assert blocks, key
        for block in blocks:
            assert any(name == block or name.startswith(f"{block} ") for name in SUBJECTS), (key, block)


@pytest.mark.parametrize("key", ["PPO-T2-CPU", "PPO-T2", "PPO-F10", "PPO-F11"])
def test_no_block_of_integers_stands_for_one_of_ppo_s_float32_design(key: str) -> None:
    blocks = claim_of(key).blocks  # type: ignore[attr-defined]
    assert "processing-element" not in blocks
    assert "gemm-core float32=true" in blocks


@pytest.mark.parametrize(
    ("limit", "factor", "outcome"),
    [
        (1.0, 1.5, Outcome.CONSISTENT),  # it agrees at the assumed clock: so it does under one of any two
        (1.0, 50.0, Outcome.CONSISTENT),
        (20.0, 50.0, Outcome.NO_VERDICT),  # not refuted at the assumed clock alone
    ],
)
def test_a_design_with_a_block_that_was_not_placed_shows_and_refutes_nothing(
    limit: float, factor: float, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"a": placed.Placed("", 8, 142.5, "", {}, {})}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    frame = frame_of(tmp_path, clocked(1.0), profiled("learner.step", 10.0))
    check = faster_than(limit, factor)
    found = clocks.at_both_clocks(check, ("a", "adam-unit"))(frame)
    assert found.outcome is outcome
    assert found.ours == check(frame).ours
    assert "No placement is committed of these blocks of the design: adam-unit." in found.explanation
    assert ("adam-unit" in found.decides) == (outcome is Outcome.NO_VERDICT)
    assert clocks.at_both_clocks(check, ("a",))(frame).outcome is not outcome


def test_a_ratio_of_cycles_needs_no_placement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "committed", dict)
    frame = frame_of(tmp_path, clocked(0.3), clocked(2.1))
    found = clocks.at_both_clocks(faster_than(1.0, 5.0), ("adam-unit",))(frame)
    assert found.outcome is Outcome.REPRODUCED
    assert "Ratios of cycles: the same at every clock." in found.explanation


def test_a_check_of_some_blocks_is_judged_at_their_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {name: placed.Placed("", 8, mhz, "", {}, {}) for name, mhz in (("a", 142.5), ("b", 28.5))}
    monkeypatch.setattr(placed, "committed", lambda: rows)
    frame = frame_of(tmp_path, clocked(1.0), profiled("learner.step", 4.0))
    check = faster_than(1.0, 1.5)
    assert clocks.at_both_clocks(check, blocks=("a",))(frame).outcome is Outcome.REPRODUCED
    assert clocks.at_both_clocks(check, blocks=("a", "b"))(frame).outcome is Outcome.CONSISTENT


def test_seconds_grow_and_rates_fall_with_a_slower_clock(tmp_path: Path) -> None:
    rows = (
        clocked(2.0),
        clocked(10.0, "IPS"),
        clocked(10.0, "B/s"),
        clocked(7.0, "cycles"),
        profiled("x", 3.0),
    )
    frame = frame_of(tmp_path, *rows)
    half = clocks.at_clock(frame, 142.5)
    assert list(half["value"]) == pytest.approx([4, 5, 5, 7, 3])
    assert list(half["high"]) == pytest.approx([4.04, 5.05, 5.05, 7.07, 3.03])
    assert list(half["samples"]) == [(4.0,), (5.0,), (5.0,), (7.0,), ()]
    assert list(half["clock_mhz"]) == [142.5] * 4 + [None]
    assert list(frame["value"]) == [2, 10, 10, 7, 3]  # what was given stays as it is


def test_a_unit_that_does_not_say_what_the_clock_does_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unit: found 'IPS/W'"):
        clocks.at_clock(frame_of(tmp_path, clocked(1.0, "IPS/W")), 100.0)


def test_without_rows_on_cycles_nothing_changes(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, profiled("learner.step", 1.0))
    assert clocks.at_clock(frame, 100.0) is frame
    finding = Finding(Outcome.REPRODUCED, (number(records(frame)[0], "step"),), "Said.")
    assert clocks.at_both_clocks(lambda _: finding, BLOCKS)(frame) is finding
    assert clocks.at_both_clocks(lambda _: Finding(Outcome.NOT_RUN, needs="x"), BLOCKS)(frame).needs == "x"


def faster_than(limit: float, factor: float) -> Any:
    """A check: reproduced above a factor, in kind above a limit, else not reproduced."""

    def check(frame: pd.DataFrame) -> Finding:
        fpga, cpu = (number(row, "step") for row in records(frame))
        gain = ratio("gain", cpu, fpga)
        outcome = Outcome.REPRODUCED if gain.value > factor else Outcome.IN_KIND
        return Finding(outcome if gain.value > limit else Outcome.NOT_REPRODUCED, (gain,), "Said.")

    return check


@pytest.mark.parametrize(
    ("limit", "factor", "outcome"),
    [
        (1.0, 1.5, Outcome.REPRODUCED),  # 10 times as fast at 285 MHz, 2.26 times at 64.5
        (1.0, 5.0, Outcome.IN_KIND),  # the published factor at one clock alone
        (1.0, 50.0, Outcome.IN_KIND),
        (5.0, 50.0, Outcome.CONSISTENT),  # the order turns
        (5.0, 5.0, Outcome.CONSISTENT),
        (20.0, 50.0, Outcome.NOT_REPRODUCED),
    ],
)
def test_an_outcome_follows_from_both_clocks(
    limit: float, factor: float, outcome: Outcome, tmp_path: Path
) -> None:
    frame = frame_of(tmp_path, clocked(1.0), profiled("learner.step", 10.0))
    found = clocks.at_both_clocks(faster_than(limit, factor), BLOCKS)(frame)
    assert found.outcome is outcome
    assert [n.quantity for n in found.ours] == ["gain, at 285 MHz", "gain, at 64.5 MHz"]
    assert [n.value for n in found.ours] == pytest.approx([10, 10 * PLACED / 285])
    assert found.ours[1].rows == (0, 1)
    assert "The clock is assumed: at 285 MHz " in found.explanation
    assert ("The order turns with the clock." in found.explanation) == (outcome is Outcome.CONSISTENT)


def test_a_ratio_of_cycles_does_not_depend_on_the_clock(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, clocked(0.3), clocked(2.1))
    found = clocks.at_both_clocks(faster_than(1.0, 5.0), BLOCKS)(frame)
    assert found.outcome is Outcome.REPRODUCED
    assert [(n.quantity, n.value) for n in found.ours] == [("gain", pytest.approx(7))]
    assert "Ratios of cycles: the same at the assumed 285 MHz and at 64.5 MHz" in found.explanation


def test_agreement_at_one_clock_alone_is_consistent(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, clocked(1.0))
    row = number(records(frame)[0], "step")
    one, other = Finding(Outcome.REPRODUCED, (row,)), Finding(Outcome.NO_VERDICT, (row,))
    found = clocks.merged(one, other, "285 MHz", clocks.placed_clock(BLOCKS))
    assert found.outcome is Outcome.CONSISTENT
    assert "turns" not in found.explanation


def test_a_number_of_a_model_at_the_placed_clock() -> None:
    rate = Number("rate", 285.0, "IPS", Provenance.MODELLED, low=142.5)
    slow = clocks.at_placed_clock(rate, 285.0, BLOCKS)
    assert (slow.quantity, slow.value, slow.low) == ("rate, at 64.5 MHz", PLACED, PLACED / 2)
    assert slow.high is None


def test_rows_of_two_clocks_name_both(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, clocked(1.0, mhz=164.0), clocked(10.0))
    found = clocks.at_both_clocks(faster_than(1.0, 5.0), BLOCKS)(frame)
    assert found.ours[0].quantity == "gain, at 164 MHz and 285 MHz"


def test_runs_in_virtual_time_name_their_one_clock() -> None:
    assert clocks.at_one_clock(["measured", Provenance.MEASURED]) == ""
    for other in (Provenance.SIMULATED, "modelled"):
        said = clocks.at_one_clock(["measured", other])
        assert said == " The FPGA is simulated at 285 MHz; at another clock it has to be run again."
