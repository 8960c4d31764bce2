"""MAP's own sum tree answers as cumulative sums do, and what is measured of its threads leads to a verdict."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.progress import silent
from harness.papers import Outcome, claims
from harness.papers.map import tree_threads
from harness.papers.map.tree_threads import sides
from harness.plan import plan, tiers
from harness.store.store import Store
from primitives.sum_tree.atomic_tree import AtomicSumTree


@pytest.mark.parametrize("side", [side for side in sides() if not side.null], ids=str)
def test_every_side_answers_right(side: tree_threads.Side) -> None:
    case = tree_threads.case(side, capacity=40_000)
    tree = case.setup()
    case.check(tree)
    case.call(tree, case.inputs(tree, np.random.default_rng(2)))
    case.check(tree)


def test_threads_that_meet_lose_no_difference() -> None:
    tree = AtomicSumTree(100, 4, threads=2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        tree.update(rng.integers(0, 100, 5000), rng.integers(1, 8, 5000))
    assert tree.total == tree.get(np.arange(100)).sum()


def test_no_leaf_of_priority_zero_is_found() -> None:
    tree = AtomicSumTree(37, 4, threads=1)
    tree.update(np.array([5]), np.array([1.0]))
    assert set(tree.find(np.linspace(0, np.nextafter(1, 0), 50))) == {5}


def test_a_core_for_two_threads_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_threads.os, "sched_getaffinity", lambda _: {0})
    (row,) = tree_threads.measured(1.0, silent)
    assert (row.status, row.value) == ("not_run", None)
    assert row.reason == "2 threads need as many cores, found 1"


def test_what_is_measured_leads_to_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through the store, as a tier's cell: which verdict is the machine's to say."""
    monkeypatch.setattr(tree_threads, "CAPACITY", 5000)
    monkeypatch.setattr(tree_threads.os, "sched_getaffinity", lambda _: {0, 1})
    no_time = replace(tiers.tier("quick"), experiment_s=0.0)
    (cell,) = (c for c in plan.plan(no_time) if c.key == "claim/MAP-F12-threads")
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "test-machine"})
        plan.execute(run, [cell], silent)
        frame = store.frame()
    (claim,) = claims("MAP-F12-threads")
    assert claim.needs_cell(cell.key)
    finding = claim.evaluate(frame).finding
    assert finding.outcome is Outcome.NO_VERDICT, "one round is too few"
    assert len(finding.ours) == 4
    assert {details["threads"] for details in frame["details"]} == {1, 2}
    blocks = {
        (details["calls_per_block"], details["protocol"]["lead_in_calls"]) for details in frame["details"]
    }
    assert blocks == {(tree_threads.BLOCK_CALLS, tree_threads.LEAD_IN_CALLS)}, (
        "as many cold calls on either side"
    )
