"""A prioritised replay that is divided into shards, which together sample like one replay with all their items.

Before sampling, each shard gives its `ShardSummary`: the sum of its priorities, its number of items, its largest
priority. From these and a shared seed, all shards compute how many items of each batch come from which shard.
The counts are multinomial over the sums, so each item of a batch is drawn independently, item i with
probability P(i) / sum(P) over all shards. Importance weights use this sum and the number of all items, and a
new item gets the largest priority of any shard.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from placerl.harness.loop.schedule import Fusion
from placerl.harness.loop.training_loop import not_overwritten
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.runtime import compose
from placerl.harness.workloads import Workload
from placerl.primitives.replay import PrioritizedReplay
from placerl.primitives.replay.prioritized import importance_weights

Arrays = dict[str, npt.NDArray]


class ShardSummary(NamedTuple):
    """The numbers about a shard that all shards need before they sample.

    Attributes:
        process: ID of the shard's process; it changes when the shard is restarted and has lost its items.
        total: sum of its priorities.
        largest: its largest priority, which a new item gets.
    """

    process: str
    total: float
    items: int
    largest: float


class Drawn(NamedTuple):
    """The items that one shard has drawn for the batches of one learner, n items in all.

    Attributes:
        columns: the items by column, (n, ...) each; the items of the first batch come first.
        priorities: (n,) priorities of the items.
        counts: (batches,) how many of the items belong to each batch.
        total, items: sum of priorities and number of items of all shards together.
    """

    columns: Arrays
    priorities: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    total: float
    items: int


class SampleHandle(NamedTuple):
    """Records which items a shard has sampled in one call, so that their priorities can be updated later.

    Attributes:
        process: ID of the shard's process.
        inserted: number of items that had ever been inserted into the shard at the time of the sampling.
        indices: for each learner, (n,) the shard's rows that hold its items, in the order of `Drawn`.
        counts: (learners, batches) number of this shard's items in each batch.
        before: (learners, batches) number of items from shards of lower numbers, which come first in each batch.
    """

    process: str
    inserted: int
    indices: list[npt.NDArray[np.int64]]
    counts: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]


def dealt(
    summaries: Sequence[ShardSummary], shape: tuple[int, ...], batch_size: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw how many items of each batch come from each shard.

    Args:
        shape: leading dimensions of the result, such as (learners, batches).
        rng: generator with the same state in all shards.

    Returns:
        (*shape, shards) int64, with the sum `batch_size` over the last dimension; all 0 if the shards together hold
        fewer items than a batch, as after a restart.
    """
    counts = np.zeros((*shape, len(summaries)), np.int64)
    if sum(shard.items for shard in summaries) >= batch_size:
        totals = np.array([shard.total for shard in summaries])
        held = np.flatnonzero(totals)  # rounding must not assign an item to an empty shard
        counts[..., held] = rng.multinomial(batch_size, totals[held] / totals[held].sum(), shape)
    return counts


class Shard:
    """One shard of a replay. It works in any process; `harness.cluster.roles.ReplayShard` runs it on a cluster.

    Args:
        workload: workload whose replay capacity is the shard's own.
        mapping: names the backend that keeps the priorities.
        seed: seed of this shard's sampling.
        shared_seed: seed of the random numbers that all shards draw alike.
        number: number of the shard, from 0.
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
        # Not fused: fused replays do not report the sum of their priorities.
        self._replay = compose.replay_of(workload, mapping, storage, Fusion.NONE)
        self._rng = np.random.default_rng(seed)
        self._shared_seed = shared_seed.generate_state(4).tolist()
        self._number = number
        self._inserted = 0

    def insert(self, transitions: Mapping[str, npt.NDArray]) -> int:
        """Insert transitions, (n, ...) by column, with the largest priority so far, and return their number n."""
        rows = len(self._replay.insert(transitions))
        self._inserted += rows
        return rows

    def summary(self) -> ShardSummary:
        """Return the sum of the shard's priorities, its number of items and its largest priority.

        In a replay without priorities each item counts as 1.
        """
        replay, items = self._replay, len(self._replay)
        if isinstance(replay, PrioritizedReplay):
            return ShardSummary(self.process, float(replay.tree.total), items, replay.max_priority)
        return ShardSummary(self.process, float(items), items, 1.0)

    def sample(
        self, call: int, learners: int, batches: int, batch_size: int, summaries: Sequence[ShardSummary]
    ) -> tuple[list[Drawn], SampleHandle]:
        """Draw the items that this shard contributes to each learner's batches.

        Nothing may be inserted or updated between the summaries and this call.

        Args:
            call: number of the sampling; all shards must use the same, since their shared random numbers depend on it.
            summaries: summaries of all shards, in the order of their numbers.

        Returns:
            The items for each learner, and the handle with which `update` finds them again.
        """
        rng = np.random.default_rng([*self._shared_seed, call])
        counts = dealt(summaries, (learners, batches), batch_size, rng)
        own, before = counts[..., self._number], counts[..., : self._number].sum(-1)
        if summaries[self._number].process != self.process:
            own = np.zeros_like(own)  # the shard was restarted in between and holds none of these items
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
        """Draw rows by priority; returns the rows and their priorities."""
        if not items:
            return np.zeros(0, np.int64), np.zeros(0)
        if isinstance(self._replay, PrioritizedReplay):
            rows = self._replay.tree.sample(items, self._rng)
            return rows, np.asarray(self._replay.tree.get(rows), np.float64)
        return self._rng.integers(len(self._replay), size=items), np.ones(items)

    def update(self, handle: SampleHandle, *td_errors: Sequence[npt.NDArray]) -> None:
        """Update the priorities of items that this shard sampled, except of items that were overwritten since.

        Args:
            handle: the handle that `sample` returned; ignored if the shard has been restarted since.
            td_errors: for each learner, the (B,) TD errors of each of its complete batches; empty for a batch that
                was not used.
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
                    intact = not_overwritten(rows, capacity, self._inserted, handle.inserted)
                    self._replay.update_priorities(rows[intact], whole[first : first + len(rows)][intact])


def whole_batches(
    drawn: Sequence[Drawn], batch_size: int, betas: Sequence[float]
) -> list[tuple[Arrays, npt.NDArray[np.float32]] | None]:
    """Assemble a learner's batches from the items that all shards have drawn for it.

    Args:
        betas: exponent of the importance weights of each batch.

    Returns:
        Columns and (B,) importance weights of each batch; None for a batch that lacks items of a restarted shard.
    """
    ends = [np.cumsum([0, *shard.counts]) for shard in drawn]
    batches: list[tuple[Arrays, npt.NDArray[np.float32]] | None] = []
    for batch, beta in enumerate(betas):
        parts = [slice(end[batch], end[batch + 1]) for end in ends]
        priorities = np.concatenate([s.priorities[part] for s, part in zip(drawn, parts, strict=True)])
        if len(priorities) != batch_size:
            batches.append(None)
            continue
        columns = {
            name: np.concatenate([s.columns[name][part] for s, part in zip(drawn, parts, strict=True)])
            for name in drawn[0].columns
        }
        batches.append((columns, importance_weights(priorities, drawn[0].total, drawn[0].items, beta)))
    return batches
