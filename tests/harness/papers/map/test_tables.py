"""MAP's tables against counts and its own text: each outcome that a check can give."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from harness.core.provenance import Provenance
from harness.papers import Outcome
from harness.papers.map import tables
from harness.papers.number import Number, from_cell, from_text
from tests.harness.papers.rows import trained, verdict

NOTHING = pd.DataFrame()


def printed(monkeypatch: pytest.MonkeyPatch, **values: float) -> None:
    """Has the text of the paper say other numbers, by the key without its paper."""

    def changed(*keys: str) -> tuple[Number, ...]:
        return tuple(
            replace(n, value=values.get(key.partition(".")[2], n.value))
            for key, n in zip(keys, from_text(*keys), strict=True)
        )

    monkeypatch.setattr(tables, "from_text", changed)


def in_table(
    monkeypatch: pytest.MonkeyPatch, row: str, column: str, value: float, module: ModuleType = tables
) -> None:
    """Has a cell of a table hold another number, for what a module reads."""

    def changed(table: str, *place: str) -> Number:
        found = from_cell(table, *place)
        return replace(found, value=value) if place == (row, column) else found

    monkeypatch.setattr(module, "from_cell", changed)


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        ("MAP-T3-CartPole", [104, 112, 129, 137]),
        ("MAP-T3-Hopper", [69_120, 69_376, 69_889, 70_145]),
        ("MAP-T3-Pong", [2_967_040, 9_346_048, 18_692_096]),
    ],
)
def test_counts_that_an_unstated_convention_could_explain_give_no_verdict(
    key: str, counts: list[int], tmp_path: Path
) -> None:
    found = verdict(key, tmp_path)
    assert [number.value for number in found.finding.ours] == counts
    assert (found.provenance, found.finding.outcome) == ("modelled", Outcome.NO_VERDICT)
    assert "The paper does not say" in found.finding.explanation


@pytest.mark.parametrize(
    ("key", "row", "macs"),
    [
        ("MAP-T3-CartPole", "CartPole", 104),  # 4 x 8 + 8 x 8 + 8 x 1, the actor's
        ("MAP-T3-CartPole", "CartPole", 112),  # with an action as input, the critic's
        ("MAP-T3-Hopper", "Hopper", 69_376),  # 14 x 256 + 256 x 256 + 256
    ],
)
def test_a_count_of_the_row_s_own_network_is_consistent(
    key: str, row: str, macs: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_table(monkeypatch, row, "MACs", macs)
    assert verdict(key, tmp_path).finding.outcome is Outcome.CONSISTENT


def test_counts_of_the_networks_themselves_are_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    # 135 inputs and one neuron a layer: 135 + 1 + 1 multiply-accumulates.
    assert tables.table_3("CartPole", 135, 1, 1).outcome is Outcome.CONSISTENT
    neither = tables.table_3("CartPole", 50, 1, 8)
    assert neither.outcome is Outcome.NO_VERDICT
    assert "parameter count" not in neither.explanation
    # Three digits are printed: 137 are counted.
    for printed_macs, outcome in ((136.5, Outcome.CONSISTENT), (136.4, Outcome.NO_VERDICT)):
        with monkeypatch.context() as patch:
            in_table(patch, "CartPole", "MACs", printed_macs)
            assert tables.table_3("CartPole", 135, 1, 1).outcome is outcome


@pytest.mark.parametrize(
    ("off", "outcome"),
    [
        (1.0, Outcome.CONSISTENT),
        (1.009, Outcome.CONSISTENT),
        (0.991, Outcome.CONSISTENT),
        (1.011, Outcome.NO_VERDICT),
    ],
)
def test_pong_s_count_is_that_of_the_cited_network_within_a_percent(
    off: float, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_table(monkeypatch, "Pong", "MACs", 2_967_040 / off)
    assert tables.table_3_pong(NOTHING).outcome is outcome


def test_pong_s_nearest_count_is_named() -> None:
    found = tables.table_3_pong(NOTHING)
    assert "network of Mnih et al. 2015, operations (2 a MAC), 0.6% away" in found.explanation


def test_the_nodes_of_the_tree_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict("MAP-IV-C4", tmp_path).finding
    assert (found.ours[0].value, found.outcome) == (1_999_999, Outcome.CONSISTENT)
    for limit, outcome in (
        (1_999_999, Outcome.CONSISTENT),
        (1_999_998, Outcome.INCONSISTENT),  # more nodes than that
        (2_020_000, Outcome.CONSISTENT),  # a percent fewer
        (2_021_000, Outcome.INCONSISTENT),
    ):
        printed(monkeypatch, binary_tree_nodes=limit)
        assert tables.tree_nodes(NOTHING).outcome is outcome, limit


def test_the_memory_of_the_tree_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict("MAP-IV-C4-memory", tmp_path).finding
    assert found.outcome is Outcome.CONSISTENT
    size = found.ours[0]
    assert (size.value, size.provenance) == (pytest.approx(1_999_999 * 4e-6), Provenance.MODELLED)
    used = from_cell("map_table_6", "RMM (S=32)", "SRAM").value
    assert found.ours[1].value == pytest.approx(8e6 * used / 1_999_999)
    # Narrower nodes would fit.
    for megabytes, outcome in (
        (8.0, Outcome.CONSISTENT),
        (size.value, Outcome.NO_VERDICT),
        (7.9, Outcome.NO_VERDICT),
    ):
        with monkeypatch.context() as patch:
            in_table(patch, "last-level cache or SRAM", "FPGA", megabytes)
            assert tables.tree_memory(NOTHING).outcome is outcome


def test_hopper_s_gain_at_the_largest_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict("MAP-F14-Hopper", tmp_path).finding
    assert found.ours[2].value == pytest.approx(1.911, abs=0.001)
    assert found.outcome is Outcome.NO_VERDICT
    assert "Fig. 14" in found.explanation
    for share, outcome in (
        (0.99, Outcome.CONSISTENT),
        (1.01, Outcome.CONSISTENT),
        (1.03, Outcome.NO_VERDICT),
    ):
        printed(monkeypatch, rllib_speedup_hopper_low=share * found.ours[2].value)
        assert tables.table_7_throughput(NOTHING).outcome is outcome


def test_pong_s_gain_at_the_largest_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict("MAP-F14-Pong", tmp_path).finding.outcome is Outcome.CONSISTENT
    gain = tables.table_7_pong(NOTHING).ours[2].value
    for low, high, outcome in (
        (gain, gain, Outcome.CONSISTENT),  # at an end of the range
        (gain + 0.01, gain + 1, Outcome.INCONSISTENT),
        (gain - 1, gain - 0.01, Outcome.INCONSISTENT),
    ):
        printed(monkeypatch, rllib_speedup_pong_low=low, rllib_speedup_pong_high=high)
        assert tables.table_7_pong(NOTHING).outcome is outcome


def test_throughput_per_watt_is_shown_where_a_run_read_the_counters(tmp_path: Path) -> None:
    row = trained(12.0, quantity="throughput_per_watt", unit="GPS/W")
    found = verdict("MAP-T7", tmp_path, row, trained(99.0)).finding
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, tables.NEEDS_WATTS)
    gain, mine = found.ours
    printed_gain = from_text("MAP.power_efficiency_gain")[0].value
    assert gain.value == pytest.approx(printed_gain, rel=0.02)
    assert (mine.value, mine.unit, mine.rows) == (12.0, "GPS/W", (0,))
