"""n-step transitions in every learner: their column `discount` stands in the place of gamma."""

import numpy as np
import pytest

from placerl.primitives import algorithms, learner
from placerl.primitives.learner import Learner
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.replay import ConcurrentReplay, FieldSpec, NStepReturns, Storage, transition_fields
from tests.primitives.learner.graph_cases import SHAPES

BATCH_SIZE = 16
GAMMA = 0.9
AVAILABLE = [status.name for status in learner.backends() if status.available]


def learner_of(name: str, backend: str, *, n_step: bool = True) -> Learner:
    """A learner; all that are made alike start in the same state."""
    algorithm = algorithms.create(name, **SHAPES[name], hyperparameters={"gamma": GAMMA}, n_step=n_step)
    options = {"mode": "eager"} if backend == "torch" else {}
    return learner.create(algorithm, backend=backend, batch_size=BATCH_SIZE, seed=3, **options)


def batch_of(one: Learner) -> dict[str, np.ndarray]:
    """One step's transitions, without `discount`."""
    rng = np.random.default_rng(0)
    batch = {}
    for name, (shape, dtype) in one.algorithm.columns(BATCH_SIZE).items():
        if name == "action" and one.algorithm.discrete:
            batch[name] = rng.integers(0, one.algorithm.action_size, shape)
        elif name not in ("weight", "discount"):
            batch[name] = rng.random(shape).astype(str(dtype).removeprefix("torch."))
    batch["terminated"] = rng.random(BATCH_SIZE) < 0.3
    return batch


# Every backend executes what PyTorch traces of the algorithms: one of them shows that the column gets there.
@pytest.mark.parametrize(
    ("name", "backend"),
    [*(("dqn", backend) for backend in AVAILABLE), *((name, "torch") for name in ("ddpg", "td3", "sac"))],
)
def test_the_column_stands_in_the_place_of_gamma(name: str, backend: str) -> None:
    def td_errors(discount: np.ndarray | None) -> np.ndarray:
        one = learner_of(name, backend, n_step=discount is not None)
        columns = {} if discount is None else {"discount": discount.astype(np.float32)}
        return np.array(one.step(batch_of(one) | columns).td_errors)

    ones = np.ones(BATCH_SIZE)
    one_step, none = td_errors(None), td_errors(0 * ones)
    np.testing.assert_allclose(td_errors(GAMMA * ones), one_step, rtol=1e-5, atol=1e-6)
    # A TD error is linear in the discount.
    discount = np.random.default_rng(1).random(BATCH_SIZE)
    expected = none + discount / GAMMA * (one_step - none)
    assert np.abs(expected - one_step).max() > 1e-3
    np.testing.assert_allclose(td_errors(discount), expected, rtol=1e-4, atol=1e-5)


def filled_with_n_steps(n: int, steps: int) -> ConcurrentReplay:
    fields = transition_fields(FieldSpec((4,), np.float32), FieldSpec((), np.int64), discount=True)
    replay = ConcurrentReplay(Storage(512, fields))
    returns, rng = NStepReturns(n, GAMMA), np.random.default_rng(0)
    for _ in range(steps):
        step = {
            "observation": rng.random((1, 4), np.float32),
            "action": rng.integers(0, 3, 1),
            "reward": rng.random(1),
            "next_observation": rng.random((1, 4), np.float32),
            "terminated": rng.random(1) < 0.1,
            "truncated": np.zeros(1, np.bool_),
        }
        if (complete := returns.add(step)) is not None:
            replay.insert(complete)
    return replay


def test_from_the_environment_through_the_replay_into_the_learner() -> None:
    replay, one = filled_with_n_steps(3, 300), learner_of("dqn", "torch")
    sample = replay.sample(BATCH_SIZE, np.random.default_rng(0))
    assert set(np.round(sample.batch["discount"], 6)) <= {np.float32(round(GAMMA**m, 6)) for m in (1, 2, 3)}
    td_errors = one.step(sample.batch, sample.weights).td_errors
    replay.update_priorities(sample.indices, np.asarray(td_errors))
    fused = FusedSteps(replay, learner_of("dqn", "native"))
    fused.run(5, np.random.default_rng(0))
    assert fused.losses
    assert np.isfinite(list(fused.losses.values())).all()


def test_what_does_not_fit_is_an_error() -> None:
    one = learner_of("dqn", "torch")
    with pytest.raises(ValueError, match="'discount' is missing"):
        one.step(batch_of(one))
    with pytest.raises(ValueError, match="found column 'discount'"):
        FusedSteps(filled_with_n_steps(3, 50), learner_of("dqn", "native", n_step=False))
    with pytest.raises(ValueError, match="n_step: found True; allowed: False for ppo"):
        algorithms.create("ppo", **SHAPES["ppo"], n_step=True)
