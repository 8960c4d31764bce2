"""What each tier plans to measure: its cells, their order, the libraries that it compares with and its time."""

import dis

import pytest

from placerl.harness import workloads
from placerl.harness.compare.registry import RLLIB
from placerl.harness.core.suites import Suite
from placerl.harness.plan import plan
from placerl.harness.plan.tiers import TIERS
from placerl.harness.store.cell import Cell


@pytest.mark.parametrize("name", TIERS)
def test_what_a_cell_needs_stands_before_it(name: str) -> None:
    seen: set[str] = set()
    for cell in plan.plan(TIERS[name]):
        assert seen.issuperset(cell.needs), cell.key
        assert bool(cell.needs) == cell.key.startswith(("prediction/", "run/", "compare/")), cell.key
        seen.add(cell.key)


@pytest.mark.parametrize(("name", "lines"), [("quick", ()), ("standard", RLLIB), ("full", RLLIB)])
def test_a_workload_is_compared_with_the_line_of_rllib_that_has_its_algorithm(
    name: str, lines: tuple[str, ...]
) -> None:
    """MAP and PAL compare with RLlib's DDPG, which the newest line no longer has.

    Whether a line has the environment, too, is seen when it runs: 2.6.3 says that it has no Hopper-v5.
    """
    planned = {cell.key for cell in plan.plan(TIERS[name])}
    for item in map(workloads.load, TIERS[name].workloads):
        of = {line for line in RLLIB if f"compare/{item.name}/{line}" in planned}
        expected = "rllib_2_6_3" if item.algorithm.name in ("ddpg", "td3") else "rllib"
        assert of == ({expected} if lines else set()), item.name
        assert f"compare/{item.name}/sb3" in planned


@pytest.mark.parametrize("name", TIERS)
def test_no_cell_of_a_tier_has_another_ones_key(name: str) -> None:
    keys = [cell.key for cell in plan.plan(TIERS[name])]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", TIERS)
def test_the_row_of_a_failed_cell_is_of_a_suite_that_there_is(name: str) -> None:
    for cell in plan.plan(TIERS[name]):
        failed = cell.failure(ValueError("a failure"))
        assert Suite(failed.suite).holds(failed.quantity), cell.key


def reads_rows(cell: Cell) -> bool:
    """Whether its code uses the run that it is given."""
    code = cell.measure.__code__
    return any(instruction.argval == code.co_varnames[0] for instruction in dis.get_instructions(code))


@pytest.mark.parametrize("name", TIERS)
def test_a_cell_that_reads_others_rows_is_of_their_chain(name: str) -> None:
    """Without, a cluster measures it somewhere else, and without their rows."""
    cells = plan.plan(TIERS[name])
    reading = {cell.key.partition("/")[0]: cell.chain for cell in cells if reads_rows(cell)}
    assert {"prediction", "run", "compare", "validation"} >= reading.keys() >= {"prediction", "run"}
    assert "validation" in reading or not any(cell.key.startswith("validation/") for cell in cells)
    for cell in cells:
        if reads_rows(cell):
            assert cell.chain == cell.key.split("/")[1], f"{cell.key}: its workload's"


def test_the_quick_tier_measures_for_eleven_minutes_at_most() -> None:
    cells = plan.plan(TIERS["quick"])
    assert sum(cell.estimate_s for cell in cells) < 11 * 60
    simulated_s = sum(
        cell.estimate_s for cell in cells if cell.key.startswith(("simulated", "claim/FIX-F10"))
    )
    assert simulated_s < 30
