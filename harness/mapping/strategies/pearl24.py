"""PRL Algorithm 2: the system composition with the shortest iteration, communication included.

The iteration is Equation 6 as `pearl24_equations` rebuilds it. Step 1 tries every pair of devices for replay
management and learner; step 2 places the experience memory where the data traffic takes the least time, over the
links between devices and the memory bandwidth within one. Here a pair is judged with its own best placement. Of
equal iterations the one with the least traffic wins (PRL 6.3).

The table that it searches holds each learner with its best number of streams (PRL 5.1). A learner that works in
several has a row `learner.step in N streams` for each number that was profiled, beside `learner.step`, which is one;
the learners of this project work in one.
"""

import re

from harness.mapping.base import (
    WORD_BYTES,
    Cell,
    Loop,
    Mapping,
    PerformanceTable,
    Platform,
    Prediction,
    Problem,
    Target,
    inputs_provenance,
    least_traffic,
    rmm_targets,
)
from harness.mapping.pearl24_equations import best_streams, iteration_s

_IN_STREAMS = re.compile(r"learner\.step in (?P<streams>\d+) streams")


class Pearl24:
    """PRL's strategy and its performance model."""

    name = "pearl24"
    loop = Loop.OVERLAPPED

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """The composition with the shortest iteration.

        Raises:
            ValueError: no target was profiled for the learner or for the replay management.
        """
        mappings = [
            Mapping(learner, rmm, _storage(table, problem, platform, learner, rmm))
            for learner in table.targets("learner.step")
            for rmm in rmm_targets(table)
        ]
        if not mappings:
            raise ValueError("table: no pair of targets has times for learner.step and the replay operations")
        predictions = [self.predict(table, problem, platform, mapping) for mapping in mappings]
        return min(predictions, key=lambda made: (1 / made.gps, sum(_communication(made).values())))

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """PRL Equation 6 for one mapping; on a GPU that both share nothing overlaps (its combined column)."""
        learner, rmm, storage = mapping.learner, mapping.rmm, mapping.storage
        streams, learner_cell = _learner_in_streams(table, problem, learner)
        cells: list[Cell] = [
            ("sum_tree.sample", rmm),
            learner_cell,
            ("sum_tree.update", rmm),
        ]
        insertions: list[Cell] = [
            cell for cell in (("sum_tree.insert", rmm), ("storage.insert", storage)) if cell in table
        ]
        terms_s = {
            "sample": table.time_s("sum_tree.sample", rmm),
            "learner": table.time_s(*learner_cell),
            "insert": problem.update_interval * sum(table.time_s(*cell) for cell in insertions),
            "update": table.time_s("sum_tree.update", rmm),
        } | _communication_s(problem, platform, mapping)
        sample, learn, insert, update = (
            terms_s[name] + terms_s[f"{name} communication"]
            for name in ("sample", "learner", "insert", "update")
        )
        shared_gpu = learner.device == rmm.device and learner.device.startswith("cuda")
        step_s = (
            sample + learn + insert + update if shared_gpu else iteration_s(sample, learn, insert, update)
        )
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


def _learner_in_streams(table: PerformanceTable, problem: Problem, learner: Target) -> tuple[int, Cell]:
    """The number of streams in which a learner's step was profiled to be the shortest, and its cell."""
    cells: dict[int, Cell] = {1: ("learner.step", learner)}
    for entry in table:
        if entry.target == learner and (found := _IN_STREAMS.fullmatch(entry.primitive)):
            cells[int(found["streams"])] = (entry.primitive, learner)
    times_s = {streams: table.time_s(*cell) for streams, cell in cells.items()}
    streams = best_streams(times_s, problem.batch_size)
    return streams, cells[streams]


def _communication_s(problem: Problem, platform: Platform, mapping: Mapping) -> dict[str, float]:
    """Seconds of each component's inputs on their way (PRL Algorithm 2 line 8), by link or by memory bandwidth."""
    learner, rmm, storage = (target.device for target in (mapping.learner, mapping.rmm, mapping.storage))
    batch, experience = problem.batch_size, problem.item_words

    def seconds(words: int, source: str, target: str) -> float:
        return words * WORD_BYTES / platform.bytes_per_s(source, target)

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
    """The experience memory's place: words over bandwidth, within a device too (PRL Algorithm 2 lines 7-13)."""
    costs = [
        (learner.device, problem.batch_size * (problem.item_words + 1)),
        ("cpu", problem.actors * problem.item_words),
        (rmm.device, problem.batch_size),
    ]
    return least_traffic(table, costs, lambda place, other: 1 / platform.bytes_per_s(place, other))


STRATEGIES = (Pearl24(),)
