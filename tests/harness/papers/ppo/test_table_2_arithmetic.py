"""PPO's statements about its own tables: each outcome that a check can give, from its tables and from altered ones."""

from dataclasses import replace
from itertools import product

import pytest

from harness.papers import Outcome, published
from harness.papers.ppo import table_2_arithmetic
from tests.harness.papers.rows import finding_without_rows

TABLE_1, TABLE_2 = "ppo_table_1", "ppo_table_2"
Alter = dict[tuple[str, str], float]


@pytest.fixture
def alter(monkeypatch: pytest.MonkeyPatch) -> Alter:
    """Values by row and column that the tables then print."""
    values: Alter = {}
    read = published.table

    def altered(name: str) -> published.Table:
        cells = (replace(c, value=values.get((c.row, c.column), c.value)) for c in read(name).cells)
        return published.Table(tuple(cells))

    monkeypatch.setattr(published, "table", altered)
    return values


UNDECIDED = {
    "PPO-T1": "blocks of 18 Kbit",
    "PPO-T2-trajectory": "does not say over which baseline",
    "PPO-T2-twice": "They may be two runs each",
    "PPO-T2-Pong": "does not say which columns",
    "PPO-T2-robots": "may be meant of the whole",
    "PPO-T2-minibatch": "smaller than every fall of the others",
    "PPO-T2-agents": "may be rounding",
}
CONSISTENT = ("PPO-T2-bases", "PPO-T2-steps")


@pytest.mark.parametrize("key", UNDECIDED)
def test_what_could_be_explained_accuses_no_paper(key: str) -> None:
    found = finding_without_rows(key)
    assert found.outcome is Outcome.NO_VERDICT
    assert UNDECIDED[key] in found.explanation


@pytest.mark.parametrize("key", CONSISTENT)
def test_tables_that_agree_with_the_text_are_consistent(key: str) -> None:
    assert finding_without_rows(key).outcome is Outcome.CONSISTENT


@pytest.mark.parametrize(("hopper", "outcome"), [(10.9, Outcome.CONSISTENT), (11.0, Outcome.NO_VERDICT)])
def test_totals_a_tenth_apart_count_different_blocks(hopper: float, outcome: Outcome, alter: Alter) -> None:
    totals = {("Humanoid", ", M=512"): 10.25, ("Hopper", ", M=512"): hopper, ("Pong", ""): 10.0}
    for (row, sizes), total in totals.items():
        alter[row, f"BRAM{sizes}"] = total
        alter[row, f"BRAM share{sizes}"] = 100.0
    found = finding_without_rows("PPO-T1")
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == list(totals.values())


def test_shares_of_one_number_of_blocks_are_consistent(alter: Alter) -> None:
    alter["Pong", "BRAM"] = 0.72 * 2160
    assert finding_without_rows("PPO-T1").outcome is Outcome.CONSISTENT


def test_the_gain_over_the_cpu_counts_in_the_abstract_s_range(alter: Alter) -> None:
    for column in ("M=256", "N=4"):
        alter["Pong, Baselines, CPU-FPGA", f"{column} speed-up"] = 1.3
    alter["Pong, Baselines, CPU", "M=32"] = 870 / 1.29
    found = finding_without_rows("PPO-T2-Pong")
    assert found.outcome is Outcome.NO_VERDICT
    assert [number.value for number in found.ours] == pytest.approx([1.6, 1.3, 1.3, 1.3, 1.29])


def test_speed_ups_within_the_abstract_s_range_are_consistent(alter: Alter) -> None:
    for column in ("M=256", "N=4"):
        alter["Pong, Baselines, CPU-FPGA", f"{column} speed-up"] = 1.3
    assert finding_without_rows("PPO-T2-Pong").outcome is Outcome.CONSISTENT


@pytest.mark.parametrize("outcome", [Outcome.CONSISTENT, Outcome.INCONSISTENT])
def test_small_mini_batches_on_the_accelerator(outcome: Outcome, alter: Alter) -> None:
    """A fall as large as the CPU's is a slowdown under any convention."""
    share = 1.0 if outcome is Outcome.CONSISTENT else 0.5
    for benchmark in ("Hopper, Spinning Up", "Humanoid, Spinning Up"):
        row = f"{benchmark}, CPU-FPGA"
        alter[row, "M=64"] = share * published.table(TABLE_2).value(row, "M=512")
    assert finding_without_rows("PPO-T2-minibatch").outcome is outcome


@pytest.mark.parametrize(
    ("others", "accelerator", "outcome"),
    [
        (0.89, 0.91, Outcome.CONSISTENT),
        (0.91, 0.91, Outcome.NO_VERDICT),  # the others lose less than a tenth
        (
            0.88,
            0.89,
            Outcome.NO_VERDICT,
        ),  # the accelerator loses more than a tenth, though less than the others
        (0.89, 0.89, Outcome.INCONSISTENT),  # as much as they do
        (0.89, 1.1, Outcome.CONSISTENT),
    ],
)
def test_a_tenth_less_is_a_slowdown(
    others: float, accelerator: float, outcome: Outcome, alter: Alter
) -> None:
    kept = {"CPU": others, "CPU-GPU": others, "CPU-FPGA": accelerator}
    for benchmark, platform in product((*table_2_arithmetic.BENCHMARKS, table_2_arithmetic.PONG), kept):
        smallest, largest = ("M=32", "M=256") if benchmark == table_2_arithmetic.PONG else ("M=64", "M=512")
        alter[f"{benchmark}, {platform}", smallest] = 100 * kept[platform]
        alter[f"{benchmark}, {platform}", largest] = 100
    found = finding_without_rows("PPO-T2-minibatch")
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([others] * 10 + [accelerator] * 5)
    names = [number.quantity for number in found.ours]
    assert (names[0], names[-1]) == (
        "Hopper, Spinning Up, CPU: M=64 over M=512",
        "Pong, Baselines, CPU-FPGA: M=32 over M=256",
    )


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(96, 104, Outcome.CONSISTENT), (94, 100, Outcome.NO_VERDICT), (100, 106, Outcome.NO_VERDICT)],
)
def test_throughputs_within_a_twentieth_are_the_same(
    low: float, high: float, outcome: Outcome, alter: Alter
) -> None:
    for cell in published.table(TABLE_2).cells:
        alter[cell.row, cell.column] = 100
    alter["Hopper, Spinning Up, CPU", "N=16"], alter["Pong, Baselines, CPU", "N=4"] = low, high
    found = finding_without_rows("PPO-T2-twice")
    assert found.outcome is outcome
    values = {number.quantity: number.value for number in found.ours}
    assert len(values) == 18
    assert values["Hopper, Spinning Up, CPU: N=16 over M=512"] == low / 100
    assert values["Pong, Baselines, CPU: N=4 over M=128"] == high / 100


def test_a_larger_gain_on_hopper_everywhere_is_consistent(alter: Alter) -> None:
    for library in ("Spinning Up", "Baselines"):
        for column in (c.column for c in published.table(TABLE_2).cells if "speed-up" not in c.column):
            alter[f"Humanoid, {library}, CPU-FPGA", column] = 1.0
    assert finding_without_rows("PPO-T2-robots").outcome is Outcome.CONSISTENT


@pytest.mark.parametrize(
    ("rate", "gain", "outcome"),
    [(2.0, 1.1, Outcome.CONSISTENT), (1.0, 1.1, Outcome.NO_VERDICT), (2.0, 1.0, Outcome.NO_VERDICT)],
)
def test_as_much_for_humanoid_is_not_more_for_hopper(
    rate: float, gain: float, outcome: Outcome, alter: Alter
) -> None:
    """Hopper's throughput over Humanoid's without the accelerator, and its gain by it over Humanoid's."""
    for library, cell in product(("Spinning Up", "Baselines"), published.table(TABLE_2).cells):
        for platform in table_2_arithmetic.PLATFORMS:
            faster = 3 if platform == "CPU-FPGA" else 1
            alter[f"Humanoid, {library}, {platform}", cell.column] = faster
            alter[f"Hopper, {library}, {platform}", cell.column] = faster * rate * (gain if faster > 1 else 1)
    found = finding_without_rows("PPO-T2-robots")
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([rate, rate * gain, gain, gain])


@pytest.mark.parametrize(("share", "outcome"), [(1.19, Outcome.CONSISTENT), (1.21, Outcome.NO_VERDICT)])
def test_throughputs_within_a_fifth_are_about_the_same_whatever_the_steps(
    share: float, outcome: Outcome, alter: Alter
) -> None:
    for cell in published.table(TABLE_2).cells:
        alter[cell.row, cell.column] = 100
    alter["Hopper, Spinning Up, CPU", "T=512"] = 100 * share
    found = finding_without_rows("PPO-T2-steps")
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == pytest.approx([1, share])
    assert f"Within 20% of each other on {15 if share < 1.2 else 14} of 15" in found.explanation


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [(0.98, Outcome.CONSISTENT), (0.94, Outcome.NO_VERDICT), (1.07, Outcome.NO_VERDICT)],
)
@pytest.mark.parametrize(
    ("key", "row", "column"),
    [
        ("PPO-T2-bases", "Hopper, Spinning Up, CPU", "M=64"),  # the end over the CPU
        ("PPO-T2-bases", "Hopper, Spinning Up, CPU-GPU", "M=64"),  # and over CPU-GPU
        ("PPO-T2-trajectory", "Pong, Baselines, CPU", "T=256"),  # the low end
        ("PPO-T2-trajectory", "Hopper, Spinning Up, CPU", "T=1024"),  # the high end
    ],
)
def test_an_end_of_a_range_is_the_printed_one_within_rounding(
    key: str, row: str, column: str, changed: float, outcome: Outcome, alter: Alter
) -> None:
    for other in ("T=256", "T=512", "T=128"):  # so that no other column becomes the end
        if column == "T=1024":
            alter[row, other] = 2 * published.table(TABLE_2).value(row, "T=256") if other != "T=128" else 0
        elif column == "T=256" and other != column:
            alter[row, other] = 0.7 * published.table(TABLE_2).value(row, other)
    alter[row, column] = published.table(TABLE_2).value(row, column) / changed
    if key == "PPO-T2-trajectory":  # over the other baseline the gains are the same
        table = published.table(TABLE_2)
        for cell in table.cells:
            if cell.row.endswith(", CPU") and cell.column.startswith("T="):
                alter[f"{cell.row}-GPU", cell.column] = cell.value
    assert finding_without_rows(key).outcome is outcome


def test_the_same_throughput_twice_is_consistent(alter: Alter) -> None:
    for cell in published.table(TABLE_2).cells:
        alter[cell.row, cell.column] = 100.0
    assert finding_without_rows("PPO-T2-twice").outcome is Outcome.CONSISTENT


def test_more_agents(alter: Alter) -> None:
    suspect = finding_without_rows("PPO-T2-agents")
    assert "2.157 times or more as fast with 2 times the resources" in suspect.explanation
    powers = {"CPU": 0.5, "CPU-GPU": 0.5, "CPU-FPGA": 0.9}
    for benchmark in (*table_2_arithmetic.BENCHMARKS, table_2_arithmetic.PONG):
        for platform, agents in product(powers, (4, 8, 16)):
            alter[f"{benchmark}, {platform}", f"N={agents}"] = agents ** powers[platform]
    found = finding_without_rows("PPO-T2-agents")
    assert found.outcome is Outcome.CONSISTENT
    assert [number.value for number in found.ours] == pytest.approx([2**0.5, 2**0.9])
    row = "Hopper, Spinning Up, CPU-GPU"
    alter[row, "N=8"] = alter[row, "N=4"]  # as much with twice the agents
    found = finding_without_rows("PPO-T2-agents")
    assert found.outcome is Outcome.NO_VERDICT
    assert "Of 30 steps to more agents 1 do not" in found.explanation
    assert "for 4 of 5 benchmarks" in found.explanation


def test_a_gain_that_is_largest_with_few_agents_gives_no_verdict(alter: Alter) -> None:
    powers = {"CPU": 0.5, "CPU-GPU": 0.9, "CPU-FPGA": 0.5}
    for benchmark, platform in product((*table_2_arithmetic.BENCHMARKS, table_2_arithmetic.PONG), powers):
        for agents in (4, 8, 16):
            alter[f"{benchmark}, {platform}", f"N={agents}"] = agents ** powers[platform]
    found = finding_without_rows("PPO-T2-agents")
    assert found.outcome is Outcome.NO_VERDICT
    assert "Of 30 steps to more agents 0 do not" in found.explanation
    assert "for 0 of 5 benchmarks" in found.explanation


@pytest.mark.parametrize(
    ("key", "row", "column"),
    [
        ("PPO-T2-bases", "Hopper, Spinning Up, CPU", "M=64"),
        ("PPO-T2-trajectory", "Pong, Baselines, CPU", "T=256"),
        ("PPO-T2-steps", "Pong, Baselines, CPU", "T=256"),
    ],
)
def test_another_throughput_gives_no_verdict(key: str, row: str, column: str, alter: Alter) -> None:
    alter[row, column] = 2 * published.table(TABLE_2).value(row, column)
    assert finding_without_rows(key).outcome is Outcome.NO_VERDICT
