"""The plan of a run: its cells (units of work) in order, and those of them that a claim needs."""

from collections.abc import Sequence
from functools import cache

from placerl.harness import papers, workloads
from placerl.harness.compare.parts import PLAIN
from placerl.harness.papers import Claim
from placerl.harness.plan.cell_kinds import (
    ALONE,
    compare_cell,
    machine_peaks_cell,
    prediction_cell,
    profile_cell,
    run_cell,
    sides,
    simulated_cell,
    simulated_replay_cell,
)
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.store.cell import Cell
from placerl.harness.validate.plan import cells as validation_cells

SIMULATED_DEVICE = "fpga:u200"  # MAP's


def plan(tier: Tier) -> list[Cell]:
    """Return the cells (units of work of a run) that a tier measures, in order.

    Each cell comes after the cells whose rows it needs.
    """
    cells: list[Cell] = [machine_peaks_cell()]
    for item in map(workloads.load, tier.workloads):
        sizes = {size for size in tier.batch_sizes if size <= item.replay.capacity}
        sizes |= {item.training.batch_size, *(item.training.batch_sizes if tier.own_batch_sizes else ())}
        for batch_size in sorted(sizes):
            cells += [profile_cell(item, batch_size, tier), prediction_cell(item, batch_size)]
            cells.append(simulated_cell(item, batch_size, SIMULATED_DEVICE))
        if item.replay.prioritized and item.algorithm.name != "ppo":
            more = {size for size in tier.simulated_replay_sizes if size <= item.replay.capacity}
            cells += [simulated_replay_cell(item, size, SIMULATED_DEVICE) for size in sorted(more - sizes)]
        for seed in item.training.seeds[: tier.seeds]:
            cells.append(run_cell(item, seed, Extent(tier.run_s)))
        baselines = tier.compared_with(item.algorithm.name)
        cells += [
            compare_cell(item, baseline, tier, ours=ours)
            for baseline in baselines
            for ours in (sides(item) if tier.shipped else (PLAIN,))
        ]
        cells += [
            compare_cell(item, baseline, tier, batch_size, environment=False)
            for baseline in baselines
            if ALONE.get(item.name) == baseline and ALONE.keys() <= set(tier.workloads)
            for batch_size in item.training.batch_sizes
        ]
    cells += papers.cells(tier)
    if tier.validate_s:
        cells += validation_cells(tier.name, tier.validate_s, only=tier.validated)
    return cells


def needed(cells: list[Cell], chosen: Sequence[Claim], tier: Tier) -> list[Cell]:
    """Return only the cells of a plan that are needed to judge some of the papers' claims.

    Returns:
        The cells whose rows one of the claims reads, and the cells that these depend on, in the order of the plan.
    """
    keys = set[str]().union(*(claim.needs_cells([cell.key for cell in cells], tier) for claim in chosen))
    for cell in reversed(cells):  # a cell follows those that it needs
        if cell.key in keys:
            keys.update(cell.needs)
    return [cell for cell in cells if cell.key in keys]


def tier_for(claim: Claim, at_least: str) -> str:
    """Return the name of the smallest tier, not smaller than a given one, that measures anything for a claim.

    Args:
        at_least: name of the tier to begin with, which is also returned if no tier measures anything for the claim.
            A name that is not a tier's counts as the smallest tier's.
    """
    names = list(TIERS)
    first = at_least if at_least in TIERS else names[0]
    later = names[names.index(first) :]
    return next((name for name in later if claim.needs_cells(_keys(name), TIERS[name])), first)


@cache
def _keys(tier_name: str) -> tuple[str, ...]:
    """Return the keys of a tier's plan, cached: a report needs them once per claim."""
    return tuple(cell.key for cell in plan(TIERS[tier_name]))
