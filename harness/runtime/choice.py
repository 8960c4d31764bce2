"""Chooses a mapping (where learner and replay run) for a user's program: PRL's composer on times measured here.

PRL 5.2, Algorithm 2. Every learner and every sum tree that runs here is timed on the program's own sizes, in
interleaved rounds; a backend that cannot run the program is left out, with its reason. Devices that are simulated
take no part.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import STRICT, Schedule
from placerl.harness.mapping import Entry, Mapping, PerformanceTable, Prediction, Problem, Target
from placerl.harness.mapping.answer import MappingAnswer, PredictedRate
from placerl.harness.mapping.candidates import COMPARED_ONLY, REFERENCE, candidates
from placerl.harness.mapping.strategies.pearl24 import Pearl24
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.pieces.learner_memory import check_learner
from placerl.harness.platforms import of_this_machine
from placerl.harness.runtime.learners.creation import learner_of
from placerl.harness.workloads.custom_task import CustomTask
from placerl.primitives import learner, sum_tree
from placerl.primitives.learner import Learner
from placerl.primitives.replay import Storage
from placerl.primitives.sum_tree import SumTree

ROUNDS, BUDGET_S = 15, 5.0
ROWS = 4_096
"""Most transitions and leaves in the timed replays; to fill in a million of them would take too long."""
BLOCK_ROWS = 64
"""Most transitions that are made at a time when the storage is filled, so that large ones take little memory."""
DRAWN = 4_096
"""Leaves that the check of a tree draws: their share in one half of the tree has a standard deviation below 0.01."""


@dataclass(frozen=True)
class MappingChoice:
    """A chosen mapping, and the reasons for the choice.

    Attributes:
        prediction: prediction for the chosen mapping.
        others: predictions for the other mappings, the fastest first.
        left_out: why backends took no part: a reason for each primitive that a backend failed to run, by text such as
            "sum_tree.sample on flat".
        ends_gps: each mapping's prediction, in gradient steps per second, if every time is at the slow or at the fast
            end of its 95% interval.
    """

    prediction: Prediction
    others: tuple[Prediction, ...]
    left_out: dict[str, str]
    ends_gps: dict[Mapping, tuple[float, float]]

    def answer(self) -> MappingAnswer:
        """Return the choice as `placerl.map` gives it."""
        second = PredictedRate(*self._numbers(self.others[0])) if self.others else None
        return MappingAnswer(
            *self._numbers(self.prediction), self.prediction.model, second, tuple(self.lines())
        )

    def _numbers(self, made: Prediction) -> tuple[str, float, float, float]:
        return str(made.mapping), made.gps, *self.ends_gps[made.mapping]

    def lines(self) -> list[str]:
        """Return a sentence that says what was chosen and why, and a line for each part that was left out."""
        return [self.sentence(), *(f"without {name}: {reason}" for name, reason in self.left_out.items())]

    def sentence(self) -> str:
        """Return what was chosen and why: the predicted rate, that of the runner-up, and the longest part."""
        best = self.prediction
        said = f"chose {best.mapping}, for which PRL's composer predicts {best.gps:,.0f} gradient steps/s"
        if self.others:
            second = self.others[0]
            said += f", {best.gps / second.gps:.2f} times the {second.gps:,.0f} of {second.mapping}"
        term, seconds = max(best.terms_s.items(), key=lambda item: item[1])
        return f"{said}; the longest part of a step is {term}, {1e6 * seconds:,.1f} us"


def choose(task: CustomTask, schedule: Schedule = STRICT) -> MappingChoice:
    """Time every backend that runs the program, and return the mapping that PRL's composer chooses from the times.

    Args:
        task: the program's task.
        schedule: how the mapping will be run. Learners are timed with the number of threads given here.

    Raises:
        UserError: no learner or no sum tree runs the program.
    """
    parts = (*_learners(task, schedule), *_trees(task), _gather(task))
    cases = {(name, target): case for name, target, case in parts}
    protocol = Protocol(rounds=ROUNDS, budget_s=BUDGET_S, fewest_rounds=5, threads=schedule.threads)
    timings = measure(cases.values(), protocol)
    batch_size = task.training.batch_size
    entries, left_out = [], {}
    for (primitive, target), case in cases.items():
        timing = timings[case.name]
        if timing.median_s is None:
            left_out[f"{primitive} on {target}"] = timing.reason
        else:
            entries.append(_entry(primitive, target, batch_size, timing, timing.median_s))
    table, problem, platform = PerformanceTable(entries), _problem(task), of_this_machine()
    composer = Pearl24()
    try:
        found = composer.choose(table, problem, platform)
    except ValueError as error:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UserError(task.name, "mapping", f"none that runs: {reasons}", str(error)) from error
    rest = (mapping for mapping in candidates(table) if mapping != found.mapping)
    others = [composer.predict(table, problem, platform, mapping) for mapping in rest]
    slow = PerformanceTable(replace(entry, time_s=entry.high_s) for entry in entries)
    fast = PerformanceTable(replace(entry, time_s=entry.low_s) for entry in entries)
    ends: dict[Mapping, tuple[float, float]] = {}
    for mapping in (found.mapping, *(made.mapping for made in others)):
        low, high = sorted(composer.predict(end, problem, platform, mapping).gps for end in (slow, fast))
        ends[mapping] = low, high
    return MappingChoice(found, tuple(sorted(others, key=lambda made: -made.gps)), left_out, ends)


def _entry(primitive: str, target: Target, batch_size: int, timing: Timing, median_s: float) -> Entry:
    low, high = (median_s if end is None else end for end in (timing.low_s, timing.high_s))
    return Entry(primitive, target, batch_size, median_s, low, high, Provenance.MEASURED)


def _problem(task: CustomTask) -> Problem:
    settings, item_bytes = task.training, _item_bytes(task)
    return Problem(
        batch_size=settings.batch_size,
        item_words=-(-item_bytes // 4),
        actors=settings.actors,
        update_interval=settings.update_interval,
        stored_bytes=item_bytes,
    )


def _item_bytes(task: CustomTask) -> int:
    columns = task.columns().values()
    return sum(int(np.prod(one.shape)) * np.dtype(one.dtype).itemsize for one in columns)


def _learners(task: CustomTask, schedule: Schedule) -> Iterator[tuple[str, Target, Case[Any]]]:
    names = [one.name for one in learner.backends() if one.available and not one.simulated]
    targets = [Target(name) for name in names if name not in COMPARED_ONLY]
    if torch.cuda.is_available():
        targets.append(Target("torch", "cuda"))
    batch_size, columns = task.training.batch_size, task.columns()

    def create(target: Target) -> Learner:
        check_learner(task, batch_size, target.backend)
        seed = np.random.SeedSequence(0)
        return learner_of(task, Mapping(target, NATIVE, CPU), batch_size, seed, schedule.threads)

    def batch(made: Learner, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {
            name: rng.random((batch_size, *one.shape)).astype(one.dtype)
            if np.dtype(one.dtype).kind == "f"
            else rng.integers(0, 2, (batch_size, *one.shape)).astype(one.dtype)
            for name, one in columns.items()
        }

    def check(made: Learner) -> None:
        one = batch(made, np.random.default_rng(0))
        expected = create(Target(REFERENCE)).step(one).td_errors
        np.testing.assert_allclose(made.step(one).td_errors, expected, rtol=1e-3, atol=1e-3)

    for target in targets:
        setup = partial(create, target)
        yield (
            "learner.step",
            target,
            Case(f"learner.step {target}", setup, check, batch, lambda made, one: made.step(one)),
        )


def _trees(task: CustomTask) -> Iterator[tuple[str, Target, Case[Any]]]:
    capacity, batch_size = min(task.replay.capacity, ROWS), task.training.batch_size
    if not task.replay.prioritized:  # a uniform replay has no tree, only one form, and nothing to update
        uniform: dict[str, Any] = {
            "sample": lambda _, rng: rng.integers(0, capacity, batch_size),
            "update": lambda _, rng: None,
        }
        for name, call in uniform.items():
            primitive = f"sum_tree.{name}"
            case: Case[None] = Case(
                f"{primitive} uniform", lambda: None, lambda _: None, lambda _, rng: rng, call
            )
            yield primitive, NATIVE, case
        return
    leaves = np.arange(capacity)

    def written(made: SumTree, rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.integers(0, capacity, rows), _whole_priorities(rng, rows)

    def check(made: SumTree) -> None:
        rng = np.random.default_rng(1)
        priorities = made.get(leaves).copy()
        rows, new = written(made, rng, batch_size)
        made.update(rows, new)
        priorities[rows] = new  # NumPy, too, stores the last of repeated indices
        np.testing.assert_array_equal(made.get(leaves), priorities, err_msg="priorities")
        sums = np.cumsum(priorities, dtype=np.float64)
        np.testing.assert_array_equal(made.total, sums[-1], err_msg="total")
        prefix = rng.integers(0, int(sums[-1]), capacity) + 0.5
        expected = np.searchsorted(sums, prefix, side="right")
        np.testing.assert_array_equal(made.find(prefix), expected, err_msg="find")
        first = leaves < capacity // 2
        share = first[made.sample(DRAWN, rng)].mean()
        np.testing.assert_allclose(share, priorities[first].sum() / sums[-1], atol=0.1, err_msg="sample")

    for status in sum_tree.backends():
        if not status.available or status.simulated or status.name in COMPARED_ONLY:
            continue
        target = Target(status.name)

        def create(name: str = status.name) -> SumTree:
            made = sum_tree.create(capacity, fanout=task.replay.fanout, backend=name)
            made.update(leaves, _whole_priorities(np.random.default_rng(0), capacity))
            return made

        calls: dict[str, tuple[Any, Any]] = {
            "sample": (lambda _, rng: rng, lambda made, rng: made.sample(batch_size, rng)),
            "update": (partial(written, rows=batch_size), lambda made, some: made.update(*some)),
            "insert": (partial(written, rows=task.training.actors), lambda made, some: made.update(*some)),
        }
        for name, (inputs, call) in calls.items():
            primitive = f"sum_tree.{name}"
            yield primitive, target, Case(f"{primitive} {target}", create, check, inputs, call)


def _whole_priorities(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return small integers: their sums are exact in float32, so every backend must find the same leaves."""
    return rng.integers(1, 8, count).astype(np.float32)


def _gather(task: CustomTask) -> tuple[str, Target, Case[Any]]:
    capacity, batch_size = min(task.replay.capacity, ROWS), task.training.batch_size

    def check(made: Storage) -> None:
        rows = np.random.default_rng(0).integers(0, capacity, min(batch_size, BLOCK_ROWS))
        expected = _numbered(task, rows)
        for name, column in made.gather(rows).items():
            np.testing.assert_array_equal(column, expected[name], err_msg=name)

    def create() -> Storage:
        made = Storage(capacity, task.columns())
        for rows in np.array_split(np.arange(capacity), -(-capacity // BLOCK_ROWS)):
            made.insert(_numbered(task, rows))
        return made

    case: Case[Storage] = Case(
        "storage.gather cpu",
        create,
        check,
        lambda _, rng: rng.integers(0, capacity, batch_size),
        lambda made, some: made.gather(some),
    )
    return "storage.gather", CPU, case


def _numbered(task: CustomTask, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return transitions for (B,) rows of a storage, by column; their numbers differ by row, place and column."""
    made: dict[str, np.ndarray] = {}
    for number, (name, one) in enumerate(task.columns().items()):
        places = np.arange(number, number + math.prod(one.shape)).reshape(one.shape)
        numbers = np.add.outer(rows, places)
        made[name] = (numbers % 2 if np.dtype(one.dtype) == np.bool_ else numbers).astype(one.dtype)
    return made
