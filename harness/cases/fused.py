"""Neighbours on one processor as one native call: what the runtime uses where a mapping allows it.

| primitive | one call does |
|---|---|
| `fused.insert` | write a transition, give it the maximum priority |
| `fused.sample` | sample, gather, importance weights |
| `fused.update` | update priorities |
| `fused.step` | a whole gradient step: sample, gather, train, update |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from harness.cases.base import PrimitiveCase, expect_equal, random_transitions
from harness.cases.learners import created, expect_td_errors, expected_td_errors
from harness.cases.storage import storage_capacity
from harness.mapping import Mapping, Target
from harness.measure import Case
from harness.runtime.compose import Fusion, columns_of, fusions
from harness.workload import Workload
from primitives.fused import FusedSteps
from primitives.learner import Learner
from primitives.replay import ConcurrentReplay, LinearSchedule, Storage
from primitives.replay.base import Sample

NATIVE = Target("native")
MAPPING = Mapping(NATIVE, NATIVE, Target("cpu"))
CHECKED = 64


@dataclass(frozen=True)
class _Fused:
    """A filled native replay, a native learner on it, and a batch to sample into."""

    replay: ConcurrentReplay
    learner: Learner
    steps: FusedSteps
    out: Sample


def fused_cases(workload: Workload, batch_size: int) -> Iterator[PrimitiveCase]:
    """The fused calls; none where the workload's mappings do not fuse."""
    # With alpha 0 all priorities are 1: the check could not read TD errors back from them.
    if Fusion.STEP not in fusions(workload, MAPPING, 0) or workload.replay.alpha == 0:
        return
    fields = columns_of(workload)
    parts = cache(lambda: _parts(workload, batch_size))

    def case(primitive: str, items: int, **options: object) -> PrimitiveCase:
        return PrimitiveCase(
            primitive,
            NATIVE,
            items,
            Case(name=f"{primitive} native", setup=parts, **options),  # type: ignore[arg-type]
        )

    def check_insert(made: _Fused) -> None:
        written = random_transitions(fields, 2, np.random.default_rng(3))
        read = made.replay.gather(made.replay.insert(written))
        for name, column in written.items():
            expect_equal(read[name], column, name)

    def check_sample(made: _Fused) -> None:
        sample = made.replay.sample(batch_size, np.random.default_rng(4))
        gathered = made.replay.gather(sample.indices)
        for name, column in gathered.items():
            expect_equal(sample.batch[name], column, name)
        priorities = made.replay.priorities(sample.indices)
        weights = (priorities.min() / priorities) ** made.replay.beta
        np.testing.assert_allclose(sample.weights, weights, rtol=1e-3, err_msg="weights")

    def updates(made: _Fused, rng: np.random.Generator) -> tuple[npt.NDArray, npt.NDArray]:
        indices = rng.integers(0, len(made.replay), batch_size)
        return indices, rng.standard_normal(batch_size).astype(np.float32)

    def check_update(made: _Fused) -> None:
        indices = np.arange(min(CHECKED, len(made.replay)))
        td_errors = np.random.default_rng(5).standard_normal(len(indices))
        made.replay.update_priorities(indices, td_errors)
        _expect_priorities(made.replay, indices, td_errors)

    def check_step(made: _Fused) -> None:
        """The fused step draws what `sample` draws from the same generator, and leaves the new priorities."""
        sample = made.replay.sample(batch_size, np.random.default_rng(6))
        expected = expected_td_errors(workload, made.learner, sample.batch, sample.weights)
        made.steps.run(1, np.random.default_rng(6))
        found = made.replay.priorities(sample.indices) ** (1 / made.replay.alpha) - made.replay.epsilon
        expect_td_errors(found, np.abs(_last_of_repeated(sample.indices, expected)))

    yield case(
        "fused.insert",
        1,
        check=check_insert,
        inputs=lambda made, rng: random_transitions(fields, 1, rng),
        call=lambda made, transition: made.replay.insert(transition),
    )
    yield case(
        "fused.sample",
        batch_size,
        check=check_sample,
        inputs=lambda made, rng: rng,
        call=lambda made, rng: made.replay.sample(batch_size, rng, out=made.out),
    )
    yield case(
        "fused.update",
        batch_size,
        check=check_update,
        inputs=updates,
        call=lambda made, arguments: made.replay.update_priorities(*arguments),
    )
    yield case(
        "fused.step",
        batch_size,
        check=check_step,
        inputs=lambda made, rng: rng,
        call=lambda made, rng: made.steps.run(1, rng),
    )


def _parts(workload: Workload, batch_size: int) -> _Fused:
    settings, fields = workload.replay, columns_of(workload)
    replay = ConcurrentReplay(
        Storage(storage_capacity(workload), fields),
        fanout=settings.fanout,
        alpha=settings.alpha,
        beta=LinearSchedule(settings.beta_initial, settings.beta_final, settings.beta_steps),
        epsilon=settings.epsilon,
    )
    rng, capacity = np.random.default_rng(0), replay.storage.capacity
    while (free := capacity - len(replay)) > 0:
        block = random_transitions(fields, min(free, 65_536), rng)
        replay.insert(block, rng.standard_normal(len(block["reward"])))
    out = replay.sample(batch_size, rng)
    made = created(workload, batch_size, NATIVE)
    return _Fused(replay, made, FusedSteps(replay, made), out)


def _expect_priorities(replay: ConcurrentReplay, indices: npt.NDArray, td_errors: npt.NDArray) -> None:
    expected = (np.abs(td_errors) + replay.epsilon) ** replay.alpha
    np.testing.assert_allclose(replay.priorities(indices), expected, rtol=1e-4, err_msg="priorities")


def _last_of_repeated(indices: npt.NDArray, values: npt.NDArray) -> npt.NDArray:
    """For each index, the value at its last occurrence: what an update leaves behind."""
    last = {int(index): value for index, value in zip(indices, values, strict=True)}
    return np.array([last[int(index)] for index in indices])
