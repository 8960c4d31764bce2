"""`placerl cycles`: what it lists, simulates and checks."""

import json
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.cli import cycles_command
from placerl.harness.plan import cycles
from placerl.harness.plan.cycles import DesignNeed, Difference
from placerl.primitives.fpga.cycles import timed_block
from placerl.primitives.fpga.cycles.table import CyclesTable, DesignKey
from placerl.primitives.fpga.cycles.timed_block import TimedBlock
from tests.harness.cli.command_line import Placerl, refused

BLOCK = TimedBlock("squares", "placerl.primitives.fpga.gemm.timer", lambda: None, lambda *_: [])


class Kept(CyclesTable):
    """A table that is written nowhere."""

    def write(self, *_: Any) -> None:
        """Do nothing."""


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> CyclesTable:
    """A table with one of the two sizes that the tiers need; what is simulated is 7."""
    made = Kept({"gone": DesignKey("", "", "")})
    made.designs[BLOCK.design([])] = DesignKey("", *BLOCK.code())
    made.add(BLOCK.design([]), "1", 7)
    need = DesignNeed(BLOCK, [], {"1": 1, "2": 2})

    def update(table: CyclesTable, due: list[DesignNeed], report: Any, write: Any) -> None:
        assert due == [need]
        for text in need.missing:
            table.add(need.name, text, 7)

    for module in (cycles_command, timed_block):
        monkeypatch.setattr(module, "committed", lambda: made)
    monkeypatch.setattr(cycles, "needs", lambda tiers, report: [need])
    monkeypatch.setattr(cycles, "update", update)
    monkeypatch.setattr(cycles_command.toolchain, "unavailable_reason", str)
    return made


def test_what_the_table_lacks_is_listed_and_nothing_is_simulated(
    placerl: Placerl, table: CyclesTable
) -> None:
    outcome = placerl("cycles", "--list", "--tier", "standard")
    assert outcome.status == 0, outcome.err
    assert "incomplete" in outcome.out
    assert (
        "The tiers quick, standard need 2 results of 1 designs; the table lacks 1. `placerl cycles` simulates them."
        in outcome.out
    )
    assert "2" not in table.results[BLOCK.design([])]
    found = json.loads(placerl("cycles", "--list", "--json").out)
    assert found["due"] == [{"design": BLOCK.design([]), "state": "incomplete", "needed": 2, "missing": 1}]
    assert not found["simulated"]


def test_what_is_missing_is_simulated_and_what_no_tier_needs_goes(
    placerl: Placerl, table: CyclesTable
) -> None:
    outcome = placerl("cycles", "--tier", "quick")
    assert "the table has all of them now" in outcome.out
    assert table.results[BLOCK.design([])] == {"1": 7, "2": 7}
    assert "gone" in table.designs, "another tier may need it"
    table.results[BLOCK.design([])].pop("2")
    placerl("cycles")
    assert table.designs.keys() == table.results.keys() == {BLOCK.design([])}
    outcome = placerl("cycles")
    assert outcome.out == "The tiers quick, standard, full need 2 results of 1 designs; the table lacks 0.\n"


def test_without_the_tools_nothing_is_simulated(
    placerl: Placerl, table: CyclesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycles_command.toolchain, "unavailable_reason", lambda: "not installed: verilator")
    for arguments in ((), ("--check", "3")):
        outcome = placerl("cycles", *arguments)
        assert (outcome.status, outcome.err) == (1, "placerl: not run: needs not installed: verilator\n")
    assert placerl("cycles", "--list").status == 0


def test_a_check_names_what_differs_and_fails(
    placerl: Placerl, table: CyclesTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    different: list[Difference] = []
    asked: list[tuple[int, int]] = []

    def check(found: CyclesTable, count: int, seed: int, report: Any) -> list[Difference]:
        assert found is table
        asked.append((count, seed))
        return different

    monkeypatch.setattr(cycles, "check", check)
    outcome = placerl("cycles", "--check", "5", "--seed", "3")
    assert (outcome.status, outcome.out) == (0, "Simulated again: 5; different: 0.\n")
    different.append(Difference("d", "[1]", 2, 3))
    outcome = placerl("cycles", "--check", "5")
    assert outcome.status == 1
    assert "d: [1]: the table has 2, a simulation gives 3" in outcome.out
    assert asked == [(5, 3), (5, 0)]
    found = json.loads(placerl("cycles", "--check", "5", "--json").out)
    assert found["different"] == [{"design": "d", "size": "[1]", "stored": 2, "simulated": 3}]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--seed", "3"), "--seed: found 3; allowed: 0 without --check"),
        (("--check", "5", "--list"), "--list: found it with --check; allowed: nothing with --check"),
        (
            ("--check", "5", "--tier", "quick"),
            "--tier: found quick with --check; allowed: nothing with --check",
        ),
    ],
)
def test_an_option_that_another_makes_ignored_is_refused(
    placerl: Placerl, table: CyclesTable, arguments: tuple[str, ...], words: str
) -> None:
    refused(placerl("cycles", *arguments), words)


def test_a_tier_that_there_is_not_is_refused(placerl: Placerl, table: CyclesTable) -> None:
    refused(placerl("cycles", "--tier", "huge"), "--tier: found huge; allowed: quick, standard, full")


def test_a_command_that_needs_cycles_which_the_table_lacks_says_so_in_a_line(
    placerl: Placerl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(timed_block.SIMULATE_VARIABLE, "0")

    def needs(tiers: object, report: object) -> list[DesignNeed]:
        BLOCK([], 3)
        return []

    monkeypatch.setattr(cycles, "needs", needs)
    outcome = placerl("cycles")
    refused(outcome, '"squares" []: found no design', "allowed: `placerl cycles` adds", "PLACERL_SIMULATE=1")
