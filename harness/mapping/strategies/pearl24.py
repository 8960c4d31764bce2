"""PRL Algorithm 2: the mapping ("system composition") with the shortest iteration, communication included.

The iteration is Equation 6 as `pearl24_equations` reconstructs it. Step 1 tries every pair of devices for replay
management and learner. Step 2 places the experience memory where the data traffic takes the least time, given the
links between devices and the memory bandwidth within each. Here each pair is judged with the placement that step 2
gives it. Step 2 counts the insertion of an experience of every actor (line 8), while an iteration inserts those of
`update_interval` environment steps: if the two differ, the iteration may be shorter with another placement. Among
equal iterations the one with the least traffic is chosen (PRL 6.3).

If replay and learner share one device, the times measured for that case are used, which the table holds under names
with " sharing" (the third column of PRL's table, 5.2; the authors' table has them). A transfer costs the latency of
its link as well as its bytes, over two links if neither device is the host. `AS_PUBLISHED` is the composer as the
authors published it (CatherineMeng/HeteroRL, SysConfig/SysCon.py): without communication, and with the update
overlapping with training.

Each learner is used with its best number of streams, which work on parts of a batch in parallel (PRL 4.2.1, 5.1): the
command queues of an OpenCL learner, or the pipelines of a simulated FPGA's. A learner that supports several streams has
an entry `learner.step in N streams` for each profiled number, as well as `learner.step`. That is one stream, unless
there is an entry for one stream too; then its number is one of the profiled ones.
"""

import re

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.base import Platform, Prediction, transfer_s
from placerl.harness.mapping.candidates import least_traffic, rmm_targets
from placerl.harness.mapping.pearl24_equations import best_streams, iteration_s, published_iteration_s
from placerl.harness.mapping.problem import WORD_BYTES, Problem
from placerl.harness.mapping.table import Cell, PerformanceTable, inputs_provenance
from placerl.harness.mapping.target import Mapping, Target

SHARING = " sharing"
"""Suffix of a primitive's name if its time was measured with replay and learner on the same device."""
IN_STREAMS = re.compile(r"learner\.step in (?P<streams>\d+) streams")
"""Names of the primitives that are gradient steps in several streams."""


class Pearl24:
    """PRL's mapping strategy (Algorithm 2), which chooses devices for a training's parts, with its performance model.

    The model is Equation 6.
    """

    name = "pearl24"
    loop = Loop.OVERLAPPED

    def __init__(self, *, as_published: bool = False) -> None:
        """Create the strategy; `as_published`: with the iteration of the authors' code in place of Equation 6."""
        self._as_published = as_published

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Return the prediction for the mapping with the shortest iteration."""
        mappings = [
            Mapping(learner, rmm, _storage(table, problem, platform, learner, rmm))
            for learner in table.targets("learner.step")
            for rmm in rmm_targets(table)
        ]
        if not mappings:
            raise ValueError("table: no pair of targets has times for learner.step and the replay operations")
        predictions = [self.predict(table, problem, platform, mapping) for mapping in mappings]
        return min(
            predictions, key=lambda prediction: (1 / prediction.gps, sum(_communication(prediction).values()))
        )

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the throughput of a mapping by PRL's iteration, Equation 6.

        If learner and replay share a GPU, nothing overlaps, unless the table has times measured for this case (PRL's
        combined column).
        """
        learner, rmm, storage = mapping.learner, mapping.rmm, mapping.storage
        streams, learner_cell = _learner_in_streams(table, problem, learner)
        sharing = learner.device == rmm.device and (f"learner.step{SHARING}", learner) in table
        if sharing:
            learner_cell = (f"learner.step{SHARING}", learner)
        sample_cell, update_cell, insert_cell = (
            _shared(table, f"sum_tree.{name}", rmm) if sharing else (f"sum_tree.{name}", rmm)
            for name in ("sample", "update", "insert")
        )
        cells: list[Cell] = [sample_cell, learner_cell, update_cell]
        insertions: list[Cell] = [
            cell for cell in (insert_cell, ("storage.insert", storage)) if cell in table
        ]
        terms_s = {
            "sample": table.time_s(*sample_cell),
            "learner": table.time_s(*learner_cell),
            "insert": problem.update_interval * sum(table.time_s(*cell) for cell in insertions),
            "update": table.time_s(*update_cell),
        } | _communication_s(problem, platform, mapping)
        sample, learn, insert, update = (
            terms_s[name] + terms_s[f"{name} communication"]
            for name in ("sample", "learner", "insert", "update")
        )
        shared_gpu = learner.device == rmm.device and learner.device.startswith("cuda") and not sharing
        if self._as_published:
            times = (terms_s[name] for name in ("sample", "learner", "insert", "update"))
            step_s = published_iteration_s(*times)
        elif shared_gpu:
            step_s = sample + learn + insert + update
        else:
            step_s = iteration_s(sample, learn, insert, update)
        used = (*cells, *insertions)
        return Prediction(
            mapping=mapping,
            model=self.name,
            gps=1 / step_s,
            terms_s=terms_s,
            cells=used,
            inputs=inputs_provenance(table, used),
            settings={"streams": streams},
        )


def _shared(table: PerformanceTable, primitive: str, target: Target) -> Cell:
    """Return the cell of a primitive next to the learner on its device; the primitive's own if there is none."""
    cell = (f"{primitive}{SHARING}", target)
    return cell if cell in table else (primitive, target)


def _learner_in_streams(table: PerformanceTable, problem: Problem, learner: Target) -> tuple[int, Cell]:
    """Return the number of streams with the shortest profiled step of a learner, and its cell."""
    cells: dict[int, Cell] = {1: ("learner.step", learner)}  # replaced by an entry for one stream
    for entry in table:
        if entry.target == learner and (match := IN_STREAMS.fullmatch(entry.primitive)):
            cells[int(match["streams"])] = (entry.primitive, learner)
    times_s = {streams: table.time_s(*cell) for streams, cell in cells.items()}
    streams = best_streams(times_s, problem.batch_size)
    return streams, cells[streams]


def _communication_s(problem: Problem, platform: Platform, mapping: Mapping) -> dict[str, float]:
    """Return the transfer seconds of each component's inputs (PRL Algorithm 2 line 8), by link or memory
    bandwidth.
    """
    learner, rmm, storage = (target.device for target in (mapping.learner, mapping.rmm, mapping.storage))
    batch, experience = problem.batch_size, problem.item_words

    def seconds(words: int, source: str, target: str) -> float:
        return transfer_s(platform, source, target, words * WORD_BYTES)

    return {
        "sample communication": seconds(batch, rmm, storage),
        "learner communication": seconds(batch * experience, storage, learner) + seconds(batch, rmm, learner),
        "insert communication": seconds(problem.update_interval * experience, "cpu", storage),
        "update communication": seconds(batch, learner, rmm),
    }


def _communication(prediction: Prediction) -> dict[str, float]:
    return {name: value for name, value in prediction.terms_s.items() if name.endswith("communication")}


def _storage(
    table: PerformanceTable, problem: Problem, platform: Platform, learner: Target, rmm: Target
) -> Target:
    """Return the place of the experience memory: seconds of its transfers, also within a device (PRL Algorithm 2
    lines 7-13).
    """
    costs = [
        (learner.device, problem.batch_size * (problem.item_words + 1)),
        ("cpu", problem.actors * problem.item_words),
        (rmm.device, problem.batch_size),
    ]
    return least_traffic(
        table, costs, lambda place, other, words: transfer_s(platform, place, other, words * WORD_BYTES)
    )


STRATEGIES = (Pearl24(),)
AS_PUBLISHED = Pearl24(as_published=True)
