"""The transcription, checked against arithmetic that the papers themselves allow."""

import csv
import math
from pathlib import Path

import pytest

from placerl.harness.papers import published, titles
from placerl.harness.papers.number import from_cell, ratio
from placerl.harness.papers.published import FOLDER, quantity, table, text

MAP5, MAP6, MAP7 = table("map_table_5"), table("map_table_6"), table("map_table_7")
PPO1, PPO2 = table("ppo_table_1"), table("ppo_table_2")
FIX1, FIX2 = table("fix_table_1"), table("fix_table_2")
TABLES = sorted(path.stem for path in FOLDER.glob("*_table_*.csv"))
FIGURES = sorted(path.stem for path in FOLDER.glob("*_figure_*.csv"))
FIX8, FIX9, FIX10 = (table(f"fix_figure_{number}") for number in (8, 9, 10))
BATCH_SIZES = (64, 128, 256, 512)
BARS = [f"{name}, B = {size}" for name in ("HalfCheetah", "Hopper", "Swimmer") for size in BATCH_SIZES]


def rounds_to(value: float, printed: str) -> bool:
    """Whether `value` could have been printed as `printed`, rounded or cut off."""
    decimals = len(printed.partition(".")[2])
    return abs(value - float(printed)) < 10**-decimals


def test_every_cell_names_its_source_and_its_paper() -> None:
    assert set(TABLES) == {
        *(f"map_table_{n}" for n in (3, 4, 5, 6, 7)),
        *(f"{paper}_table_{n}" for paper in ("ppo", "fix") for n in (1, 2)),
    }
    for name in TABLES:
        for cell in table(name).cells:
            assert cell.source.split()[0] in titles()
            assert cell.row
            assert cell.column
            assert cell.printed or cell.note, cell.place
            assert cell.unit or cell.value is None or cell.printed == str(cell.value), cell.place


def test_every_number_of_the_text_names_its_place() -> None:
    assert {q.paper for q in text().values()} == set(titles())
    for key, number in text().items():
        assert key == f"{number.paper}.{key.partition('.')[2]}"
        assert math.isfinite(number.value)
        assert all([number.place, number.unit, number.words, number.quantity])


def test_printed_cells_hold_their_values() -> None:
    for name in TABLES:
        for cell in table(name).cells:
            if cell.value is None or "x" in cell.printed or "84" in cell.printed or cell.printed == "2.26":
                continue
            factor = {"K": 1e3, "k": 1e3, "M": 1e6}
            number = (
                cell.printed.split("(")[0] if "share" not in cell.column else cell.printed.partition("(")[2]
            )
            digits = "".join(c for c in (number or cell.printed).split(" ")[0] if c.isdigit() or c == ".")
            suffix = 1.0 if cell.unit in ("MB", "%", "MHz") else factor.get(number.strip()[-1:], 1.0)
            assert float(digits) * suffix == pytest.approx(cell.value), cell.place


def test_map_power_efficiency_gives_throughput_and_the_ratio_of_the_text() -> None:
    gps = MAP7.value("CartPole, DDPG", "MAP efficiency") * MAP7.value("CartPole, DDPG", "MAP power")
    assert gps == pytest.approx(1525.1, abs=0.05)
    gains = [
        MAP7.value(row, "MAP efficiency") / MAP7.value(row, "RLlib efficiency")
        for row in ("Pong, DQN", "Hopper, DDPG", "CartPole, DDPG")
    ]
    assert rounds_to(max(gains), "3.8")
    assert quantity("MAP.power_efficiency_gain").value == 3.8


def test_map_pong_gain_over_rllib_agrees_between_table_and_text() -> None:
    ours, theirs = (
        MAP7.value("Pong, DQN", f"{system} efficiency") * MAP7.value("Pong, DQN", f"{system} power")
        for system in ("MAP", "RLlib")
    )
    low, high = (quantity(f"MAP.rllib_speedup_pong_{end}").value for end in ("low", "high"))
    assert low <= ours / theirs <= high


def test_map_best_speedup_is_the_largest_of_the_table() -> None:
    speedups = [cell.value for cell in MAP5.cells if cell.unit == "ratio" and cell.value is not None]
    assert max(speedups) == quantity("MAP.best_speedup_over_baseline_mapping").value


def test_map_table_5_lost_cells_are_marked_and_never_filled() -> None:
    lost = [cell for cell in MAP5.cells if cell.note == "not in the text"]
    assert len(lost) == 2 * (5 + 5)
    assert all(cell.value is None and not cell.printed for cell in lost)
    with pytest.raises(ValueError, match="not in the text"):
        MAP5.value("worst mapping: speed-up of the optimal one", "Hopper, batch size 32")


@pytest.mark.parametrize(("column", "total"), [("SRAM", 35), ("REG", 2.37e6), ("DSP", 6840)])
def test_map_table_6_shares_are_of_one_device(column: str, total: float) -> None:
    for row in ("RMM (S=32)", "DQN learner", "DDPG learner"):
        share = 100 * MAP6.value(row, column) / total
        assert share == pytest.approx(MAP6.value(row, f"{column} share"), abs=1.01), row


def test_ppo_speedups_are_over_cpu_gpu() -> None:
    checked = 0
    for cell in PPO2.cells:
        if not cell.column.endswith("speed-up"):
            continue
        column = cell.column.removesuffix(" speed-up")
        base = cell.row.replace("CPU-FPGA", "CPU-GPU")
        ratio = PPO2.value(cell.row, column) / PPO2.value(base, column)
        printed = cell.printed.partition("(")[2].rstrip("x)")
        # The table's own throughputs have two or three digits.
        assert ratio == pytest.approx(float(printed), rel=0.04), cell.place
        checked += 1
    assert checked == 20


def test_ppo_best_speedups_of_the_text_are_in_the_table() -> None:
    best = {
        base: max(
            PPO2.value(f"{bench}, CPU-FPGA", column) / PPO2.value(f"{bench}, {base}", column)
            for bench in (
                "Hopper, Spinning Up",
                "Humanoid, Spinning Up",
                "Hopper, Baselines",
                "Humanoid, Baselines",
            )
            for column in ("M=64", "M=128", "M=256", "M=512", "N=4", "N=8", "N=16")
        )
        for base in ("CPU", "CPU-GPU")
    }
    assert rounds_to(best["CPU"], str(quantity("PPO.speedup_over_cpu_high").value))
    assert rounds_to(best["CPU-GPU"], "26")


def test_ppo_trajectory_speedups_are_over_the_cpu() -> None:
    ratios = [
        PPO2.value(f"{bench}, CPU-FPGA", column) / PPO2.value(f"{bench}, CPU", column)
        for bench in {cell.row.rpartition(", ")[0] for cell in PPO2.cells}
        for column in ("T=128", "T=256", "T=512", "T=1024")
        if any(cell.row == f"{bench}, CPU" and cell.column == column for cell in PPO2.cells)
    ]
    assert len(ratios) == 15
    assert rounds_to(min(ratios), "1.8")
    assert rounds_to(max(ratios), "10.9")


@pytest.mark.parametrize(
    ("row", "column", "total"),
    [
        ("Hopper", "BRAM, M=512", 2160),
        ("Humanoid", "BRAM, M=256", 2160),
        ("Hopper and Humanoid", "DSP", 6840),
        ("Pong", "DSP", 6840),
        ("Hopper and Humanoid", "logic", 1.182e6),
        ("Pong", "flip-flop", 2.364e6),
    ],
)
def test_ppo_table_1_shares(row: str, column: str, total: float) -> None:
    share_column = column.replace("BRAM", "BRAM share") if "BRAM" in column else f"{column} share"
    assert 100 * PPO1.value(row, column) / total == pytest.approx(PPO1.value(row, share_column), abs=1.01)


@pytest.mark.parametrize("resource", ["LUT", "FF", "BRAM", "URAM", "DSP"])
def test_fix_table_1_adds_up(resource: str) -> None:
    parts = [cell for cell in FIX1.cells if cell.column == resource and not cell.row.startswith("Total")]
    assert len(parts) == 7
    assert sum(cell.value or 0 for cell in parts) == pytest.approx(FIX1.value("Total", resource), abs=101)


def test_fix_table_2_normalises_by_network_size() -> None:
    size = FIX2.value("network size", "FIXAR")
    for column in ("ASPLOS'19 [19]", "FCCM'20 [20]"):
        normalised = FIX2.value("peak performance", column) * FIX2.value("network size", column) / size
        assert normalised == pytest.approx(
            FIX2.value("peak performance normalised to FIXAR", column), abs=0.1
        )


def test_fix_network_size_is_the_actors_weights_of_halfcheetah() -> None:
    state, action = quantity("FIX.halfcheetah_state").value, quantity("FIX.halfcheetah_action").value
    hidden_1, hidden_2 = quantity("FIX.hidden_1").value, quantity("FIX.hidden_2").value
    weights = state * hidden_1 + hidden_1 * hidden_2 + hidden_2 * action
    assert 4 * weights / 1000 == FIX2.value("network size", "FIXAR")


def test_fix_efficiency_is_throughput_over_watts() -> None:
    efficiency = quantity("FIX.accelerator_ips").value / quantity("FIX.accelerator_power").value
    # 20.4 W is printed to three digits.
    assert efficiency == pytest.approx(quantity("FIX.accelerator_efficiency").value, rel=0.05 / 20.4)


def test_fix_gpu_throughput_agrees_between_speedup_and_efficiency() -> None:
    by_speedup = quantity("FIX.accelerator_ips").value / quantity("FIX.accelerator_speedup").value
    efficiency_gpu = (
        quantity("FIX.accelerator_efficiency").value / quantity("FIX.accelerator_efficiency_gain").value
    )
    assert by_speedup == pytest.approx(efficiency_gpu * quantity("FIX.gpu_power").value, rel=0.015)


def test_prl_comparison_with_the_earlier_work() -> None:
    peak, other_peak = quantity("PRL.cartpole_peak").value, quantity("PRL.other_work_peak").value
    assert rounds_to(100 * (1 - peak / other_peak), "36")
    eps, other_eps = quantity("PRL.cartpole_eps").value, quantity("PRL.other_work_eps").value
    assert rounds_to(100 * (eps / other_eps - 1), "11")


def test_two_cells_in_one_place_are_refused() -> None:
    cell = table("map_table_3").cells[0]
    with pytest.raises(ValueError, match="same row and column"):
        published.Table((cell, cell))


def test_what_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    heading, row = "key,paper,place,quantity,value,unit,words\n", "MAP.a,MAP,IV,a,1,s,so\n"
    (tmp_path / "text.csv").write_text(heading + row + row)
    with pytest.raises(ValueError, match="two rows have the same key"):
        text.__wrapped__()
    (tmp_path / "text.csv").write_text(f'{heading}"MAP.a"b,MAP,IV,a,1,s,so\n')
    with pytest.raises(csv.Error):
        text.__wrapped__()


def test_a_cell_without_a_number_has_no_value_and_a_printed_one_no_reading_error() -> None:
    words = next(cell for cell in MAP5.cells if cell.value is None)
    with pytest.raises(ValueError, match=f"{words.column}.*allowed: a cell with a number"):
        MAP5.value(words.row, words.column)
    with pytest.raises(KeyError):
        MAP5.cell(words.row, "no such column")
    assert {cell.reading_error for name in TABLES for cell in table(name).cells} == {0.0}


def test_a_quantity_s_source_is_its_paper_and_place() -> None:
    found = quantity("FIX.accelerator_ips")
    assert found.source == f"FIX {found.place}"


def near(found: published.Table, row: str, column: str, value: float) -> bool:
    """Whether a value read off a figure is within its reading error of `value`."""
    return abs(found.value(row, column) - value) <= found.cell(row, column).reading_error


def mean_of_bars(found: published.Table, column: str) -> float:
    return sum(found.value(row, column) for row in BARS) / len(BARS)


def test_every_value_of_a_figure_says_how_it_was_read() -> None:
    assert FIGURES == ["fix_figure_10", "fix_figure_7", "fix_figure_8", "fix_figure_9"]
    for name in FIGURES:
        for cell in table(name).cells:
            assert cell.source.startswith(f"FIX Fig. {name.rpartition('_')[2]}")
            assert cell.value is not None
            # Either a label, which is exact, or read off an axis whose scale the note gives.
            assert bool(cell.printed) == (cell.reading_error == 0) == ("per pixel" not in cell.note), (
                cell.place
            )


def test_a_value_read_off_a_figure_has_its_reading_error_as_interval() -> None:
    bar = from_cell("fix_figure_8", "Swimmer, B = 512", "FIXAR")
    assert (bar.low, bar.value, bar.high) == (38_650, 38_900, 39_150)
    assert "read off the figure" in bar.source
    label = from_cell("fix_figure_8", "average", "gain")
    assert (label.low, label.value, label.high) == (None, 2.7, None)


def test_fix_figure_8_holds_what_the_text_prints() -> None:
    average = quantity("FIX.platform_ips").value
    assert near(FIX8, "average", "FIXAR", average)
    assert mean_of_bars(FIX8, "FIXAR") == pytest.approx(average, abs=250)
    assert near(FIX8, "average", "CPU-GPU", mean_of_bars(FIX8, "CPU-GPU"))
    peak = FIX2.value("peak performance", "FIXAR")
    best = max(BARS, key=lambda row: FIX8.value(row, "FIXAR"))
    assert best.endswith("B = 512")
    assert near(FIX8, best, "FIXAR", peak)


def test_fix_figure_8_labels_are_ratios_of_its_bars() -> None:
    assert mean_of_bars(FIX8, "FIXAR") / mean_of_bars(FIX8, "CPU-GPU") == pytest.approx(2.7, abs=0.05)
    gains = {row: FIX8.value(row, "FIXAR") / FIX8.value(row, "CPU-GPU") for row in BARS}
    assert max(gains, key=lambda row: gains[row]) == "HalfCheetah, B = 64"
    assert min(gains, key=lambda row: gains[row]) == "Hopper, B = 512"
    for row in ("HalfCheetah, B = 64", "Hopper, B = 512"):
        bars = from_cell("fix_figure_8", row, "FIXAR"), from_cell("fix_figure_8", row, "CPU-GPU")
        found = ratio("gain", *bars)
        assert found.low is not None
        assert found.high is not None
        assert found.low < FIX8.value(row, "gain") < found.high


@pytest.mark.parametrize("size", BATCH_SIZES)
def test_fix_figure_9_agrees_with_itself_and_with_figures_8_and_10(size: int) -> None:
    row = f"B = {size}"
    parts = ("accelerator", "PCIe communication", "Python environment")
    whole_ms = FIX9.value(row, "whole step, time")
    assert sum(FIX9.value(row, f"{part}, time") for part in parts) == pytest.approx(whole_ms, abs=0.02)
    assert sum(FIX9.value(row, f"{part}, share") for part in parts) == pytest.approx(1, abs=0.002)
    for part in parts:
        share = FIX9.value(row, f"{part}, time") / whole_ms
        assert share == pytest.approx(FIX9.value(row, f"{part}, share"), abs=0.04)
    assert size / whole_ms * 1e3 == pytest.approx(FIX8.value(f"HalfCheetah, {row}", "FIXAR"), rel=0.03)
    assert near(FIX9, row, "accelerator, time", size / quantity("FIX.accelerator_ips").value * 1e3)


@pytest.mark.parametrize(
    ("what", "text_key", "gain_key"),
    [
        ("throughput", "FIX.accelerator_ips", "FIX.accelerator_speedup"),
        ("efficiency", "FIX.accelerator_efficiency", "FIX.accelerator_efficiency_gain"),
    ],
)
def test_fix_figure_10_holds_what_the_text_prints(what: str, text_key: str, gain_key: str) -> None:
    for row in [*BARS, "average"]:
        assert near(FIX10, row, f"accelerator, {what}", quantity(text_key).value), row
    assert FIX10.value("average", f"gain in {what}") == quantity(gain_key).value
    gpu = mean_of_bars(FIX10, f"GPU, {what}")
    assert near(FIX10, "average", f"GPU, {what}", gpu)
    assert quantity(text_key).value / gpu == pytest.approx(quantity(gain_key).value, rel=0.03)


@pytest.mark.parametrize("row", BARS)
def test_fix_figure_10_efficiencies_of_the_gpu_are_its_throughputs_over_its_watts(row: str) -> None:
    watts = quantity("FIX.gpu_power").value
    assert near(FIX10, row, "GPU, efficiency", FIX10.value(row, "GPU, throughput") / watts)


def test_fix_figure_7_has_16_bits_fail_and_the_others_train() -> None:
    levels = {
        cell.column: cell.value
        for cell in table("fix_figure_7").cells
        if cell.row == "mean of evaluations 150 to 200"
    }
    assert levels["fixed 16"] < table("fix_figure_7").value("evaluation 0", "all curves")
    assert levels["float 32"] == pytest.approx(quantity("FIX.reward_level").value, rel=0.03)
    assert levels["fixed 32"] < levels["FIXAR"] < levels["float 32"]
