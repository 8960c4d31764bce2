"""What claims say that they read: `placerl reproduce --only` measures that, and nothing else."""

import html
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness import papers, workloads
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.papers import Claim, Outcome, Verdict
from placerl.harness.papers.fix import training
from placerl.harness.papers.ppo import table_2_iterations
from placerl.harness.plan import cell_kinds
from placerl.harness.plan import plan as reproduce
from placerl.harness.plan.tiers import TIERS
from placerl.harness.report import pages, plots
from placerl.harness.report.reading import read
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store import peak_memory, reference
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of
from tests.harness.papers.rows import claim_of, compared, frame_of
from tests.harness.report import sample

Plans = dict[str, list[Cell]]
Verdicts = dict[str, Verdict]

AWAITING = {
    "MAP-F13-hidden",  # a CUDA device
    "MAP-F13-sharing",  # a CUDA device
    "PPO-F10",  # cycles of float32 products, which the run counted in integers
    "PPO-T2",  # cycles of float32 products
    "PPO-T2-CPU",  # cycles of float32 products
    "PRL-T3-platform-portability",  # a second machine
    "PRL-T3-same-hardware",  # a CUDA device
}
"""Claims whose check found nothing in the committed run's rows, and what it lacks beside them."""

MADE_BY = {
    "fanout": "PAL-F9",
    "layout": "PAL-VI-H-layout",
    "locks": "PAL-F9-locks",
    "learner threads": "PAL-V-B",
    "lock order": "PAL-A3",
    "threads in a call": "MAP-F12-threads",
    "optimal mappings": "MAP-T5",
    "gains over other mappings": "MAP-T5",
}
"""The cell of an experiment whose rows say another name."""


def cell_of(row: Row) -> str:
    """The key of the cell that a row of a quick run comes from: references do not keep it."""
    details: dict[str, Any] = dict(details_of(row))
    sized = f"{row.workload}/{row.batch_size}"
    match row.suite:
        case "claim":
            experiment = MADE_BY.get(details["experiment"], details["experiment"])
            key = f"claim/{experiment}"
            if experiment == table_2_iterations.EXPERIMENT:
                device = "fpga" if row.quantity == table_2_iterations.CYCLES else row.where
                return f"{key}/{details['benchmark'].lower()}/{device}"
            curve = row.who
            if experiment in (training.EXPERIMENT, training.SWEEP):
                curve = re.sub(r"[^a-z0-9]+", "-", curve.lower()).strip("-")
            return (
                f"{key}/{row.workload}/{curve}/seed{details['seed']}"
                if row.primitive == "training" and "seed" in details
                else key
            )
        case "compare":
            return f"compare/{row.workload}/{details['baseline']}"
        case "run":
            return f"run/{sized}/seed{details['seed']}"
        case "simulated_profile":
            return f"simulated_profile/{sized}/{row.where}"
        case "roofs":
            return f"simulated_profile/{row.workload}/32/{row.where}" if row.workload else "roofs/machine"
        case "validation":  # a board's peaks have no batch size
            return f"validation/{row.workload}/{row.batch_size or 32}"
        case suite:
            return f"{suite}/{sized}"


@pytest.fixture(scope="module")
def plans() -> dict[str, list[Cell]]:
    """The cells of every tier."""
    return {name: reproduce.plan(tier) for name, tier in TIERS.items()}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory, plans: Plans) -> pd.DataFrame:
    """The committed quick run, with the cells of its rows; without those that have left the quick tier since."""
    planned = {cell.key for cell in plans["quick"]}
    (committed,) = (each for each in reference.load() if each.name == "quick")
    by_cell: dict[str, list[Row]] = {}
    for row in committed.measurements:
        if row.suite != peak_memory.SUITE:  # of the run, not of a cell
            by_cell.setdefault(cell_of(row), []).append(row)
    with Store.open(tmp_path_factory.mktemp("quick") / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "here"})
        for key, rows in by_cell.items():
            for name in planned & {key, f"{key}/replay"}:
                run.finish(name, rows)
        return store.frame()


@pytest.fixture(scope="module")
def verdicts(quick: pd.DataFrame) -> Verdicts:
    """The verdicts of the quick run, by the claims' keys."""
    return {claim.key: claim.evaluate(quick) for claim in papers.claims()}


def test_the_quick_run_has_every_cell_of_its_plan(quick: pd.DataFrame, plans: Plans) -> None:
    assert {cell.key for cell in plans["quick"]} == set(quick["cell"])


@pytest.mark.parametrize("claim", papers.claims(), ids=lambda claim: claim.key)
def test_the_cells_that_a_claim_reads_decide_its_verdict(
    claim: Claim, quick: pd.DataFrame, verdicts: Verdicts, plans: Plans
) -> None:
    cells = reproduce.needed(plans["quick"], [claim], TIERS["quick"])
    alone = quick[quick["cell"].isin([cell.key for cell in cells])]
    assert claim.evaluate(alone).finding == verdicts[claim.key].finding


def test_of_the_quick_run_many_verdicts_rest_on_rows(verdicts: Verdicts) -> None:
    """Else the test above would hold of claims that read nothing."""
    assert sum(bool(verdict.rows) for verdict in verdicts.values()) > 25


def test_a_claim_that_measures_nothing_asks_for_nothing(
    quick: pd.DataFrame, verdicts: Verdicts, plans: Plans
) -> None:
    """One whose verdict is the same without any row reads none, or awaits more than those."""
    every, plan = papers.claims(), plans["quick"]
    same = {claim.key for claim in every if verdicts[claim.key].finding == claim.evaluate(quick[:0]).finding}
    assert {
        claim.key for claim in every if reproduce.needed(plan, [claim], TIERS["quick"])
    } & same == AWAITING


def test_each_experiment_is_read_by_some_claim(plans: Plans) -> None:
    """What no claim reads is measured in vain."""
    every = papers.claims()
    for name, plan in plans.items():
        keys = [cell.key for cell in plan if cell.key.startswith("claim/")]
        read = set[str]().union(*(claim.needs_cells(keys, TIERS[name]) for claim in every))
        assert read == set(keys), name


def test_a_run_under_options_is_read_for_reallocation_and_a_tier_s_own_is_not() -> None:
    item, extent = workloads.load("cartpole-ddpg"), Extent(1.0)
    claim, mapping = claim_of("PRL-T3-reallocation"), Mapping.parse("torch-native-cpu")
    schedule = Schedule(actors=2, processes=2, overlap=4, reallocate=True)
    moving = cell_kinds.run_cell(item, 0, extent, resolve(schedule, item, mapping))
    own = cell_kinds.run_cell(item, 0, extent)
    assert claim.needs_cells([moving.key, own.key], TIERS["quick"]) == {moving.key}


def test_rllib_s_last_line_with_ddpg_counts_as_rllib(tmp_path: Path) -> None:
    """MAP and PRL compare with RLlib's DDPG, which its newest line no longer has."""
    frame = frame_of(tmp_path, compared(50.0, "faster", "rllib_2_6_3"))
    for key in ("MAP-F14", "PRL-T3"):
        assert [number.value for number in claim_of(key).evaluate(frame).finding.ours] == [50.0], key
        assert claim_of(key).needs_cells(["compare/cartpole-ddpg/rllib_2_6_3"], TIERS["quick"]), key


def test_cartpole_s_gain_is_of_cartpole_alone(tmp_path: Path) -> None:
    alone = compared(9.0, "faster", "rllib_2_6_3, learner and replay alone", workload="hopper-ddpg")
    found = claim_of("MAP-F14-CartPole").evaluate(frame_of(tmp_path, alone)).finding
    assert found.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("key", "stale", "says"),
    [
        ("PAL-F8", "no experiment", "`placerl reproduce --only PAL-F8 --tier full`"),
        ("PPO-2.4", "which this project lacks", "a CUDA device"),
    ],
)
def test_what_is_missing_is_said_as_it_is(key: str, stale: str, says: str, verdicts: Verdicts) -> None:
    needs = verdicts[key].needs
    assert stale not in needs
    assert says in needs


def test_a_page_s_command_measures_something(
    tmp_path: Path, plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a report of the quick tier too, which leaves some experiments out. Its plots are not drawn."""
    monkeypatch.setattr(plots, "published_and_ours", lambda verdict: None)
    content = read(sample.write(tmp_path / "store.sqlite"))
    written = dict(pages.render_claims(content, figures={}))
    for claim in papers.claims():
        shown = re.search(r"<pre><code>([^<]+)</code>", written[claim.key])
        assert shown, claim.key
        if claim.commands or not claim.is_measured:
            assert html.unescape(shown[1]).splitlines() == list(claim.commands or ["placerl report"]), (
                claim.key
            )
            continue
        found = re.fullmatch(r"placerl reproduce --only (\S+) --tier (\w+)", shown[1])
        assert found, claim.key
        assert found[1] == claim.key
        assert reproduce.needed(plans[found[2]], [claim], TIERS[found[2]]), claim.key
        assert found[2] == "quick" or not reproduce.needed(plans["quick"], [claim], TIERS["quick"]), claim.key
