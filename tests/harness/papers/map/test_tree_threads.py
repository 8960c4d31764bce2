"""MAP's own sum tree answers as cumulative sums do, and the claim about its threads reads its rows."""

from pathlib import Path

import numpy as np
import pytest

from harness.core.progress import silent
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome, claims
from harness.papers.map import tree_threads
from harness.papers.map.tree_threads import EXPERIMENT, FIND, UPDATE, sides
from harness.papers.sum_tree import EXPERIMENTS
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


def rows(times_us: dict[tuple[str, int], float]) -> list[Measurement]:
    made = []
    for side in sides():
        time_s = times_us[side.call, side.threads] * 1e-6
        samples = tuple(time_s * (1 + 0.01 * (7 * i % 30) / 30) for i in range(30))
        made.append(
            Measurement(
                suite="claim",
                primitive=side.call,
                backend="atomic",
                device="cpu",
                batch_size=side.batch_size,
                quantity="time_per_call",
                unit="s",
                provenance=Provenance.MEASURED,
                value=time_s,
                low=time_s,
                high=1.01 * time_s,
                samples=samples,
                details={"experiment": EXPERIMENT, "threads": side.threads, "null": side.null},
            )
        )
    return made


@pytest.mark.parametrize(
    ("find", "update", "outcome"),
    [
        (5, 10, Outcome.REPRODUCED),
        (5, 15, Outcome.REPRODUCED),
        (5, 6, Outcome.NOT_REPRODUCED),  # updates gain too
        (12, 10, Outcome.NOT_REPRODUCED),
        (10, 10, Outcome.NO_VERDICT),
        (4, 10, Outcome.NO_VERDICT),  # 2 threads 2.5 times as fast: suspect
    ],
)
def test_the_verdict(find: float, update: float, outcome: Outcome, tmp_path: Path) -> None:
    (claim,) = (claim for claim in claims() if claim.key == "MAP-F12-threads")
    times = {(FIND, 1): 10.0, (FIND, 2): find, (UPDATE, 1): 10.0, (UPDATE, 2): update}
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", {"fingerprint": "test-machine"})
        run.finish("threads", rows(times))
        frame = store.frame()
    finding = claim.evaluate(frame).finding
    assert finding.outcome is outcome
    assert finding.ours[0].value == pytest.approx(10 / find, rel=0.01)
    assert claim.evaluate(frame[frame["batch_size"] == 1]).finding.outcome is Outcome.NOT_RUN


def test_a_core_for_two_threads_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_threads.os, "sched_getaffinity", lambda _: {0})
    (row,) = tree_threads.measured(1.0, silent)
    assert (row.status, row.value) == ("not_run", None)
    assert row.reason == "2 threads need as many cores, found 1"


def test_what_is_measured_leads_to_a_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Through the store, as a tier's cell: which verdict is the machine's to say."""
    monkeypatch.setattr(tree_threads, "CAPACITY", 5000)
    monkeypatch.setattr(tree_threads.os, "sched_getaffinity", lambda _: {0, 1})
    (cell,) = (c for c in plan.plan(tiers.tier("quick")) if c.key == "claim/MAP-F12-threads")
    monkeypatch.setitem(EXPERIMENTS, "MAP-F12-threads", lambda _, report: tree_threads.measured(0.0, report))
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
