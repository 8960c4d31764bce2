"""Learning curves say after how many gradient steps a return was first reached, from trainings of the same settings."""

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.compare import learning
from placerl.harness.compare.own_settings import SHIPPED
from placerl.harness.core.errors import NotRunError
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.machines import curves
from placerl.harness.measure.episodes import EPISODES
from placerl.harness.store import reference
from placerl.harness.store.rows import LearningCurve, LearningResult, TrainingResult
from placerl.harness.store.store import Store

ITEM = workloads.load("cartpole-ddpg")
SIZE = ITEM.training.batch_size


def trained(seed: int, first: float = 0.0, warm_up: int = 100, **fields: object) -> TrainingResult:
    """Return a training of 1,000 gradient steps, whose returns rise by 1 with each of 50 episodes."""
    interval = ITEM.training.update_interval
    steps = warm_up + 1000 * interval
    row = TrainingResult(
        suite=Suite.RUN,
        workload=ITEM.name,
        primitive="training",
        batch_size=SIZE,
        quantity="episode_return",
        provenance=Provenance.MEASURED,
        value=first + 49,
        samples=tuple(first + number for number in range(50)),
        episode_ends=[steps * (number + 1) // 50 for number in range(50)],
        seed=seed,
        options={},
        gradient_steps=1000,
        environment_steps=steps,
    )
    return replace(row, **fields)  # type: ignore[arg-type]


def of_many_episodes() -> TrainingResult:
    """Return a training of 5,000 episodes, whose returns rise from 0 to 100 and scatter."""
    returns = np.random.default_rng(0).normal(np.linspace(0, 100, 5000), 30)
    steps = 100 + 1000 * ITEM.training.update_interval
    ends = [steps * (number + 1) // 5000 for number in range(5000)]
    return trained(0, samples=tuple(returns.tolist()), episode_ends=ends)


def learnt(seed: int) -> LearningResult:
    """Return a training by `placerl learn`: 1,000 gradient steps in ten stretches with the returns 0, 10, ..., 90."""
    return LearningResult(
        suite=Suite.LEARN,
        workload=ITEM.name,
        primitive="training",
        batch_size=SIZE,
        quantity="final_return",
        provenance=Provenance.MEASURED,
        system=learning.OWN_SETTINGS,
        value=90.0,
        seed=seed,
        gradient_steps=1000,
        steps_by_stretch=[400 * stretch for stretch in range(1, 11)],
        mean_returns=[None, *(10.0 * stretch for stretch in range(1, 10))],
        options=learning.settings_of(ITEM),
    )


def test_a_return_is_reached_where_episodes_in_a_row_have_it_in_the_mean() -> None:
    (one,) = curves.of_rows(ITEM, SIZE, 0, [trained(0, warm_up=0)])
    assert one.steps_to((EPISODES - 1) / 2) == pytest.approx(1000 * EPISODES / 50)
    assert one.steps_to(49) == inf
    assert one.length == 1000


def test_the_warm_up_takes_no_gradient_step() -> None:
    (one,) = curves.of_rows(ITEM, SIZE, 0, [trained(0, warm_up=3_000_000)])
    assert one.steps_to(0) == 0
    assert one.steps_to(39.5) == pytest.approx(1000)


def test_a_stretch_of_training_counts_from_its_end() -> None:
    (one,) = curves.of_rows(ITEM, SIZE, 0, [learnt(3)])
    assert (one.seed, one.steps_to(10), one.steps_to(11), one.steps_to(91)) == (3, 200, 300, inf)


@pytest.fixture
def saved(tmp_path: Path) -> TrainingResult:
    """The training of many episodes, as a committed run has it: with every fifth of its episodes."""
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish("cell", [of_many_episodes()])
    reference.save(tmp_path / "placerl.sqlite", "quick", tmp_path)
    ((row,),) = (one.measurements for one in reference.load(tmp_path))
    assert isinstance(row, TrainingResult)
    assert len(row.samples) == 1000
    return row


def test_a_committed_run_with_some_of_many_episodes_says_when_each_return_was_reached(
    saved: TrainingResult,
) -> None:
    levels = [*range(-20, 120, 5)]
    (whole,) = curves.of_rows(ITEM, SIZE, 0, [of_many_episodes()])
    (one,) = curves.of_rows(ITEM, SIZE, 0, [saved])
    assert [one.steps_to(level) for level in levels] == [whole.steps_to(level) for level in levels]
    assert 0 < one.steps_to(50) < one.steps_to(90) < inf


def test_one_that_was_saved_earlier_counts_where_it_is_known_when_the_return_was_reached(
    saved: TrainingResult,
) -> None:
    old = replace(saved, highs=None, high_ends=None)
    best = replace(old, quantity="best_return", value=105.0, samples=(), episode_ends=None, notes={})
    reached = replace(best, quantity="environment_steps_to_threshold", value=2100.0, threshold=80.0)
    assert curves.of_rows(ITEM, SIZE, 80, [old]) == ()
    assert curves.of_rows(ITEM, SIZE, 50, [best, reached, old]) == ()
    assert curves.of_rows(ITEM, SIZE, 80, [replace(reached, wall_s=1.0), old]) == (), "of another training"
    (one,) = curves.of_rows(ITEM, SIZE, 80, [best, reached, old])
    assert one.steps_to(80) == pytest.approx(2000 / ITEM.training.update_interval)
    (one,) = curves.of_rows(ITEM, SIZE, 110, [best, reached, old])
    assert (one.steps_to(110), one.length) == (inf, 1000)


def test_only_trainings_with_the_workloads_settings_count() -> None:
    others = [
        trained(1, options={"presampled_batches": 8}),
        trained(2, tried="no clipping"),
        trained(3, batch_size=SIZE + 1),
        trained(6, mapping="native[fixed16]-native-cpu"),
        trained(7, cluster={"actors": 2}),
        replace(learnt(8), system=f"{learning.OWN_SETTINGS} (native[dynamic]-native-cpu)"),
        replace(learnt(4), system="sb3"),
        replace(learnt(5), options={"replay.prioritized": not ITEM.replay.prioritized}),
    ]
    assert [one.seed for one in curves.of_rows(ITEM, SIZE, 0, [*others, trained(0)])] == [0]


def evaluated(seed: int, **fields: object) -> LearningCurve:
    """Return a training of 1,000 gradient steps with ten evaluations, which fall from 60 to 0 once."""
    interval = ITEM.training.update_interval
    row = LearningCurve(
        suite=Suite.LEARN,
        workload=ITEM.name,
        primitive="training",
        batch_size=SIZE,
        quantity="evaluation_return",
        provenance=Provenance.MEASURED,
        system="placerl",
        value=90.0,
        seed=seed,
        gradient_steps=1000,
        environment_steps=50 + 1000 * interval,
        steps_at=[50 + 100 * interval * number for number in range(1, 11)],
        returns_at=[60.0, 60.0, 0.0, *[60.0] * 7],
        threshold=50.0,
        settings_from=SHIPPED,
    )
    return replace(row, **fields)  # type: ignore[arg-type]


def test_an_evaluation_counts_once_the_return_is_held() -> None:
    (one,) = curves.of_rows(ITEM, SIZE, 60, [evaluated(0), evaluated(1, system="sb3")])
    assert (one.steps_to(60), one.steps_to(61)) == (pytest.approx(400), inf)


def test_a_training_that_ended_at_a_lower_return_does_not_count() -> None:
    stopped = evaluated(0, budget_s=300.0)
    assert curves.of_rows(ITEM, SIZE, 50, [stopped])
    assert not curves.of_rows(ITEM, SIZE, 51, [stopped])


def test_the_curves_of_most_seeds_count_and_evaluations_first() -> None:
    found = curves.of_rows(ITEM, SIZE, 0, [trained(1), learnt(0), learnt(1)])
    assert [len(one.means) for one in found] == [10, 10]
    (one,) = curves.of_rows(ITEM, SIZE, 0, [trained(1), learnt(0), evaluated(2)])
    assert one.seed == 2


def test_the_last_run_with_curves_of_the_workload_counts(tmp_path: Path) -> None:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        for number, first in enumerate((0.0, 100.0)):
            run = store.begin_run("quick", f"r{number}", {"fingerprint": "f"})
            run.finish("cell", [trained(0, first)])
        other = replace(trained(0), workload="cartpole-dqn")
        store.begin_run("quick", "r2", {"fingerprint": "f"}).finish("cell", [other])
    found = curves.load(ITEM, SIZE, 100, tmp_path)
    assert found.steps_to(100)[0] < inf
    assert "run 2 of" in found.source
    with pytest.raises(NotRunError, match="placerl run cartpole-ddpg --batch-size 7"):
        curves.load(ITEM, 7, 100, tmp_path)


def test_a_return_for_which_too_few_episodes_are_kept_is_refused_by_that_reason() -> None:
    item = workloads.load("cartpole-dqn")
    assert curves.load(item, item.training.batch_size, 475).curves
    with pytest.raises(NotRunError, match="other than to 475, which solves it: too few episodes are kept"):
        curves.load(item, item.training.batch_size, 400)


def test_the_run_with_the_most_seeds_counts_before_a_later_one(tmp_path: Path) -> None:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        for number, seeds in enumerate(((0, 1, 2), (5, 6, 7), (9,))):
            run = store.begin_run("quick", f"r{number}", {"fingerprint": "f"})
            run.finish("cell", [trained(seed) for seed in seeds])
    found = curves.load(ITEM, SIZE, 0, tmp_path)
    assert [one.seed for one in found.curves] == [5, 6, 7]
    assert "run 2 of" in found.source


def test_committed_runs_have_curves() -> None:
    item = workloads.load("cartpole-dqn")
    assert item.training.solved_return is not None
    found = curves.load(item, item.training.batch_size, item.training.solved_return)
    assert "committed run" in found.source
    assert min(found.steps_to(item.training.solved_return)) < found.longest
