"""The cluster's benchmark: a cell here and over the cluster takes turns, and their ratio is judged."""

from collections import Counter
from contextlib import nullcontext

import pytest

pytest.importorskip("ray", reason="needs the extra 'cluster'")

from placerl.harness.cli.bench import cluster_bench as cluster
from placerl.harness.core.errors import UserError
from placerl.harness.store.cell import Cell
from placerl.harness.store.store import Store


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells that take 1 s here and 2 s over the cluster; what was asked of whom."""
    log = []

    def taking(name: str, seconds: float):
        def measure(store: Store, cell: Cell) -> list[float]:
            assert not store.measurements(), "a store of its own"
            log.append(name)
            return [100.0] if len(log) <= 3 else [seconds, 10 * seconds, 10 * seconds]  # the first round

        return measure

    monkeypatch.setattr(cluster, "nodes", lambda number: nullcontext("address"))
    monkeypatch.setattr(cluster, "connected", nullcontext)
    monkeypatch.setattr(cluster, "_here", taking("here", 1.0))
    monkeypatch.setattr(cluster, "_over_the_cluster", taking("there", 2.0))
    return log


def test_the_same_cell_is_compared_here_and_there(turns: list[str]) -> None:
    rows = {row.quantity: row for row in cluster.same_numbers(15)}
    assert rows["here_over_cluster"].value == pytest.approx(0.5)
    assert rows["here_over_cluster"].verdict == "faster"
    assert rows["here_over_here"].value == pytest.approx(1.0)
    assert rows["here_over_here"].pairs == 15
    rounds = [tuple(turns[first : first + 3]) for first in range(0, len(turns), 3)]
    assert len(rounds) == 16
    assert all(Counter(names) == {"here": 2, "there": 1} for names in rounds)
    assert len(set(rounds)) == 3, "in orders of their own"


def test_too_few_pairs_are_refused(turns: list[str]) -> None:
    with pytest.raises(UserError, match="at least 15"):
        cluster.same_numbers(14)
