"""A prioritised replay in shards that sample as one replay of all their items would.

Before it is sampled, each shard gives its `ShardSummary`: the sum of its priorities, its items, its largest priority.
From these and a seed that they share, all compute how many items of each batch come from which shard: multinomial over
the sums, so that each item of a batch is drawn by itself, item i with probability P(i) / sum(P) of all shards. Its
importance weight is of that sum and of all their items, and a new item takes the largest priority of any shard.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from harness.mapping import Mapping as Placement
from harness.mapping.loop import not_overwritten
from harness.runtime import compose
from harness.runtime.compose import Fusion
from harness.workloads import Workload
from primitives.replay import PrioritizedReplay
from primitives.replay.prioritized import importance_weights

Arrays = dict[str, npt.NDArray]


class ShardSummary(NamedTuple):
    """What a shard holds.

    Attributes:
        process: of the shard; another one holds other items.
        total: sum of its priorities.
        items: that it holds.
        largest: priority that a new item takes.
    """

    process: str
    total: float
    items: int
    largest: float


class Drawn(NamedTuple):
    """A shard's part of a learner's batches.

    Attributes:
        columns: (n, ...) each, the first batch's items first.
        priorities: (n,) of the items.
        counts: (batches,) items of each batch.
        total, items: of all shards together.
    """

    columns: Arrays
    priorities: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    total: float
    items: int


class SampleHandle(NamedTuple):
    """Where a shard's part of a round's batches came from, for the update of its priorities.

    Attributes:
        process: of the shard.
        inserted: items that the shard had taken when they were sampled.
        indices: (n,) rows of each learner's items, as in `Drawn`.
        counts: (learners, batches) items of each batch.
        before: (learners, batches) items of each batch that come from earlier shards.
    """

    process: str
    inserted: int
    indices: list[npt.NDArray[np.int64]]
    counts: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]


def dealt(
    summaries: Sequence[ShardSummary], shape: tuple[int, ...], batch_size: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """How many items of each batch come from each shard.

    Args:
        summaries: of all shards.
        shape: of the batches.
        batch_size: items in a batch.
        rng: the same for all shards.

    Returns:
        (*shape, shards) int64; all 0 where the shards do not hold a batch, as after a new start.
    """
    counts = np.zeros((*shape, len(summaries)), np.int64)
    if sum(shard.items for shard in summaries) >= batch_size:
        totals = np.array([shard.total for shard in summaries])
        held = np.flatnonzero(totals)  # rounding must not give an item to a shard that has none
        counts[..., held] = rng.multinomial(batch_size, totals[held] / totals[held].sum(), shape)
    return counts


class Shard:
    """A shard, wherever it is.

    Args:
        workload: of the shard's own capacity.
        mapping: what keeps the priorities.
        seed: of sampling, its own.
        shared_seed: of what all shards draw alike.
        number: of the shard.
    """

    def __init__(
        self,
        workload: Workload,
        mapping: Placement,
        seed: np.random.SeedSequence,
        shared_seed: np.random.SeedSequence,
        number: int,
    ) -> None:
        self.process = uuid4().hex
        storage = compose.storage_of(workload, mapping)
        # Not fused: what is fused does not tell the sum of its priorities.
        self._replay = compose.replay_of(workload, mapping, storage, Fusion.NONE)
        self._rng = np.random.default_rng(seed)
        self._shared_seed = shared_seed.generate_state(4).tolist()
        self._number = number
        self._inserted = 0

    def insert(self, transitions: Mapping[str, npt.NDArray]) -> int:
        """Takes items of the largest priority; says how many."""
        rows = len(self._replay.insert(transitions))
        self._inserted += rows
        return rows

    def summary(self) -> ShardSummary:
        """What it holds now."""
        replay, items = self._replay, len(self._replay)
        if isinstance(replay, PrioritizedReplay):
            return ShardSummary(self.process, float(replay.tree.total), items, replay.max_priority)
        return ShardSummary(self.process, float(items), items, 1.0)

    def sample(
        self, call: int, learners: int, batches: int, batch_size: int, summaries: Sequence[ShardSummary]
    ) -> tuple[list[Drawn], SampleHandle]:
        """Its part of each learner's batches: nothing has been inserted or updated since it gave its summary.

        Args:
            call: number of the round.
            learners, batches, batch_size: how many, for each and in each.
            summaries: of all shards, in the order of their numbers.
        """
        rng = np.random.default_rng([*self._shared_seed, call])
        counts = dealt(summaries, (learners, batches), batch_size, rng)
        own, before = counts[..., self._number], counts[..., : self._number].sum(-1)
        if summaries[self._number].process != self.process:
            own = np.zeros_like(own)  # it was started anew in between, and holds none of these items
        if isinstance(self._replay, PrioritizedReplay):
            self._replay.max_priority = max(shard.largest for shard in summaries)
        total, items = sum(shard.total for shard in summaries), sum(shard.items for shard in summaries)
        drawn, indices = [], []
        for each in own:
            rows, priorities = self._draw(int(each.sum()))
            drawn.append(Drawn(self._replay.storage.gather(rows), priorities, each, total, items))
            indices.append(rows)
        return drawn, SampleHandle(self.process, self._inserted, indices, own, before)

    def _draw(self, items: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Rows and priorities of items, each drawn by priority."""
        if not items:
            return np.zeros(0, np.int64), np.zeros(0)
        if isinstance(self._replay, PrioritizedReplay):
            rows = self._replay.tree.sample(items, self._rng)
            return rows, np.asarray(self._replay.tree.get(rows), np.float64)
        return self._rng.integers(len(self._replay), size=items), np.ones(items)

    def update(self, handle: SampleHandle, *td_errors: Sequence[npt.NDArray]) -> None:
        """The new priorities of its part of a round's batches, but of items that have been replaced since.

        Args:
            handle: of that sampling; one of an earlier process is of no use.
            td_errors: (B,) of each learner's whole batches; empty where a batch was not learnt from.
        """
        if handle.process != self.process:
            return
        capacity = self._replay.storage.capacity
        for indices, counts, before, errors in zip(
            handle.indices, handle.counts, handle.before, td_errors, strict=True
        ):
            parts = np.split(indices, np.cumsum(counts)[:-1])
            for rows, first, whole in zip(parts, before, errors, strict=True):
                if len(rows) and len(whole):
                    kept = not_overwritten(rows, capacity, self._inserted, handle.inserted)
                    self._replay.update_priorities(rows[kept], whole[first : first + len(rows)][kept])


def whole_batches(
    drawn: Sequence[Drawn], batch_size: int, betas: Sequence[float]
) -> list[tuple[Arrays, npt.NDArray[np.float32]] | None]:
    """A learner's batches, of the parts of every shard.

    Args:
        drawn: of each shard, in the order of their numbers.
        batch_size: items in a batch.
        betas: exponent of the importance weights of each batch.

    Returns:
        Columns and (B,) importance weights of each batch; None for one that lacks the part of a shard that has died.
    """
    ends = [np.cumsum([0, *shard.counts]) for shard in drawn]
    made: list[tuple[Arrays, npt.NDArray[np.float32]] | None] = []
    for batch, beta in enumerate(betas):
        parts = [slice(end[batch], end[batch + 1]) for end in ends]
        priorities = np.concatenate([s.priorities[part] for s, part in zip(drawn, parts, strict=True)])
        if len(priorities) != batch_size:
            made.append(None)
            continue
        columns = {
            name: np.concatenate([s.columns[name][part] for s, part in zip(drawn, parts, strict=True)])
            for name in drawn[0].columns
        }
        made.append((columns, importance_weights(priorities, drawn[0].total, drawn[0].items, beta)))
    return made
