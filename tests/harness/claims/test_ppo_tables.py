"""PPO's statements about its own tables: each outcome that a check can give, from its tables and from altered ones."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from harness.claims import Outcome, ppo_networks, ppo_tables, published
from harness.claims.base import Finding
from tests.harness.claims.test_verdicts import verdict

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


def finding(key: str, folder: Path) -> Finding:
    return verdict(key, folder).finding


UNDECIDED = {
    "PPO-T1": "blocks of 18 Kbit",
    "PPO-T2-twice": "They may be two runs each",
    "PPO-T2-Pong": "does not say which columns",
    "PPO-T2-robots": "may be meant of the whole",
    "PPO-T2-minibatch": "smaller than every fall of the others",
    "PPO-T2-agents": "may be rounding",
}
CONSISTENT = ("PPO-T2-bases", "PPO-T2-trajectory", "PPO-T2-steps")


@pytest.mark.parametrize("key", UNDECIDED)
def test_what_could_be_explained_accuses_no_paper(key: str, tmp_path: Path) -> None:
    found = finding(key, tmp_path)
    assert found.outcome is Outcome.NO_VERDICT
    assert UNDECIDED[key] in found.explanation


@pytest.mark.parametrize("key", CONSISTENT)
def test_tables_that_agree_with_the_text_are_consistent(key: str, tmp_path: Path) -> None:
    assert finding(key, tmp_path).outcome is Outcome.CONSISTENT


def test_shares_of_one_number_of_blocks_are_consistent(tmp_path: Path, alter: Alter) -> None:
    alter["Pong", "BRAM"] = 0.72 * 2160
    assert finding("PPO-T1", tmp_path).outcome is Outcome.CONSISTENT


def test_speed_ups_within_the_abstract_s_range_are_consistent(tmp_path: Path, alter: Alter) -> None:
    for column in ("M=256", "N=4"):
        alter["Pong, Baselines, CPU-FPGA", f"{column} speed-up"] = 1.3
    assert finding("PPO-T2-Pong", tmp_path).outcome is Outcome.CONSISTENT


@pytest.mark.parametrize("outcome", [Outcome.CONSISTENT, Outcome.INCONSISTENT])
def test_small_mini_batches_on_the_accelerator(outcome: Outcome, tmp_path: Path, alter: Alter) -> None:
    """A fall as large as the CPU's is a slowdown under any convention."""
    share = 1.0 if outcome is Outcome.CONSISTENT else 0.5
    for benchmark in ("Hopper, Spinning Up", "Humanoid, Spinning Up"):
        row = f"{benchmark}, CPU-FPGA"
        alter[row, "M=64"] = share * published.table(TABLE_2).value(row, "M=512")
    assert finding("PPO-T2-minibatch", tmp_path).outcome is outcome


def test_a_larger_gain_on_hopper_everywhere_is_consistent(tmp_path: Path, alter: Alter) -> None:
    for library in ("Spinning Up", "Baselines"):
        for column in (c.column for c in published.table(TABLE_2).cells if "speed-up" not in c.column):
            alter[f"Humanoid, {library}, CPU-FPGA", column] = 1.0
    assert finding("PPO-T2-robots", tmp_path).outcome is Outcome.CONSISTENT


def test_the_same_throughput_twice_is_consistent(tmp_path: Path, alter: Alter) -> None:
    for cell in published.table(TABLE_2).cells:
        alter[cell.row, cell.column] = 100.0
    assert finding("PPO-T2-twice", tmp_path).outcome is Outcome.CONSISTENT


def test_more_agents(tmp_path: Path, alter: Alter) -> None:
    suspect = finding("PPO-T2-agents", tmp_path / "printed")
    assert "2.157 times or more as fast with 2 times the resources" in suspect.explanation
    powers = {"CPU": 0.5, "CPU-GPU": 0.5, "CPU-FPGA": 0.9}
    for benchmark in (*ppo_tables.BENCHMARKS, ppo_tables.PONG):
        for platform, agents in product(powers, (4, 8, 16)):
            alter[f"{benchmark}, {platform}", f"N={agents}"] = agents ** powers[platform]
    assert finding("PPO-T2-agents", tmp_path / "grows").outcome is Outcome.CONSISTENT


@pytest.mark.parametrize(
    ("key", "row", "column"),
    [
        ("PPO-T2-bases", "Hopper, Spinning Up, CPU", "M=64"),
        ("PPO-T2-trajectory", "Pong, Baselines, CPU", "T=256"),
        ("PPO-T2-steps", "Pong, Baselines, CPU", "T=256"),
    ],
)
def test_another_throughput_gives_no_verdict(
    key: str, row: str, column: str, tmp_path: Path, alter: Alter
) -> None:
    alter[row, column] = 2 * published.table(TABLE_2).value(row, column)
    assert finding(key, tmp_path).outcome is Outcome.NO_VERDICT


def test_counts_and_closed_forms_are_consistent(tmp_path: Path) -> None:
    for key in ("PPO-3.1", "PPO-5.2-side"):
        assert finding(key, tmp_path).outcome is Outcome.CONSISTENT


def test_a_count_that_differs_gives_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppo_networks, "_megabits", lambda parameters: 40 * parameters / 1e6)
    assert finding("PPO-3.1", tmp_path).outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("cycles", "words"), [(1.0, "Cycles fall with every doubling in 0"), (8.0, "Suspect")]
)
def test_arrays_that_gain_nothing_or_too_much_give_no_verdict(
    cycles: float, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an array with four times the elements."""

    class Total:
        def __init__(self, side: int):
            self.total = 1e9 / side ** (3 * (cycles > 1))

    monkeypatch.setattr(ppo_networks.ppo, "iteration_cycles", lambda *_, side, **__: Total(side))
    found = finding("PPO-5.2-side", tmp_path)
    assert found.outcome is Outcome.NO_VERDICT
    assert words in found.explanation
