"""Training in fixed point beside floats, as measurements."""

import numpy as np
import pytest

from placerl.harness import environments, workloads
from placerl.harness.core.progress import silent
from placerl.harness.papers.fix import throughput, training
from placerl.harness.papers.fix.training import CURVES, DYNAMIC, FIXED_16, FIXED_32, FLOAT, FixedPointTask
from placerl.harness.plan.tiers import TIERS
from placerl.harness.runtime.actors.actor import Actor
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import columns_of
from placerl.primitives.learner import Learner
from placerl.primitives.quantization import precision
from placerl.primitives.replay import Storage, UniformReplay
from tests.harness.old_form import details_of

TINY = FixedPointTask("pendulum-ddpg", 6, 3)
LEAST_RETURN = -200 * (np.pi**2 + 0.1 * 8**2 + 0.001 * 2**2)
"""Of 200 steps at the greatest angle, velocity and torque: what Gymnasium's Pendulum returns at the least."""


@pytest.mark.parametrize("curve", [FLOAT, DYNAMIC])
def test_a_run_has_its_evaluations_formats_and_counts(curve: str) -> None:
    row = training.train(TINY, curve, CURVES[curve](TINY), 1, silent)
    assert (row.suite, row.workload, row.backend, row.status) == ("claim", "pendulum-ddpg", curve, "ok")
    assert len(row.samples) == 3
    assert row.value == row.samples[-1]
    assert all(LEAST_RETURN < value < 0 for value in row.samples)
    assert details_of(row)["delay"] == (0 if curve == FLOAT else 3)
    assert isinstance(details_of(row)["saturated"], dict)


def by_hand(item: Workload, made: Learner, seed: int, steps: int) -> None:
    """FIX's training as its definition says it, with the streams that its stored rows were drawn from."""
    streams = np.random.SeedSequence(seed).spawn(4)
    fields = columns_of(item)
    environment = environments.make(item.environment, int(streams[0].generate_state(1)[0] >> 1))
    starts = item.training.learning_starts
    actor = Actor([environment], np.random.default_rng(streams[3]), fields, starts)
    replay, rng = UniformReplay(Storage(item.replay.capacity, fields)), np.random.default_rng(streams[2])
    replay.insert(actor.collect(starts, None))
    for _ in range(steps):
        replay.insert(actor.collect(1, made.explore))
        sample = replay.sample(made.batch_size, rng)
        made.step(sample.batch, sample.weights)


@pytest.mark.parametrize("curve", [FLOAT, FIXED_32, DYNAMIC])
def test_the_runtime_trains_bit_for_bit_as_by_hand(curve: str) -> None:
    item = workloads.load(TINY.workload)
    parameters = []
    for number in range(2):
        made = training.make_learner(item, CURVES[curve](TINY), 64, seed=3)
        if number:
            by_hand(item, made, seed=5, steps=20)
        else:
            trained = training.training_of(item, made, seed=5)
            assert trained.environment_steps == item.training.learning_starts
            trained.take(20)
            trained.close()
        parameters.append(made.parameters())
    ours, expected = parameters
    assert all(np.array_equal(ours[name], expected[name]) for name in expected)


def test_every_curve_starts_from_the_same_network_and_evaluations() -> None:
    starts = [
        training.train(FixedPointTask("pendulum-ddpg", 2, 2), curve, CURVES[curve](TINY), 1, silent).samples[
            0
        ]
        for curve in (FLOAT, FIXED_32)
        if CURVES[curve](TINY) is None or not CURVES[curve](TINY).delay  # type: ignore[union-attr]
    ]
    assert starts[1] == pytest.approx(starts[0], rel=1e-2)


def test_a_delay_beyond_the_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^delay: found 6; allowed: less than the run's 6"):
        training.train(TINY, DYNAMIC, precision.dynamic(6), 0, silent)


def test_the_tiers_have_the_papers_environments_and_four_curves() -> None:
    # The standard tier, of about two hours, has the first of them.
    expected = {"standard": {"HalfCheetah-v5"}, "full": {"HalfCheetah-v5", "Hopper-v5", "Swimmer-v5"}}
    for tier, ids in expected.items():
        names = {task.workload for task in training.TASKS[tier]}
        assert {workloads.load(name).environment.id for name in names} == ids
        assert {workloads.load(name).network.hidden for name in names} == {(400, 300)}
    full = TIERS["full"]
    keys = [cell.key for cell in (*training.cells(full), *training.sweep_cells(full))]
    sweep = training.sweep(training.SWEPT)
    assert len(set(keys)) == len(keys) == 3 * 5 * len(CURVES) + len(sweep)


def test_the_sweep_has_what_it_is_compared_with() -> None:
    task = training.SWEPT
    sweep = training.sweep(task)
    assert {FIXED_32, FIXED_16} < set(sweep)
    for formats in sweep.values():
        formats.check_run(task.steps)


def test_a_tier_without_time_for_seeds_has_no_trainings() -> None:
    assert not training.cells(TIERS["quick"])
    assert not training.sweep_cells(TIERS["quick"])


def test_throughput_has_every_term_of_every_side() -> None:
    rows = throughput.measure(0.0, silent, batch_sizes=(64,), rounds=9)
    assert {row.backend for row in rows} == set(throughput.FORMATS)
    assert {len(row.samples) for row in rows} == {5}  # the fewest, as the budget is spent
    for side in throughput.FORMATS:
        of_side = {row.quantity: row for row in rows if row.backend == side}
        whole = np.array(of_side["inferences_per_s"].samples)
        parts = sum(np.array(of_side[f"{term}_time"].samples) for term in throughput.TERMS)
        assert (64 / whole >= parts * 0.999).all()  # the parts are within the whole
        assert of_side["inferences_per_s"].unit == "IPS"
