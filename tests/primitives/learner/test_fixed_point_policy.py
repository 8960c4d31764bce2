"""A fixed-point learner's policy elsewhere gives the learner's own actions, to the last bit."""

import pickle

import numpy as np
import pytest

from placerl.primitives.learner import aware_training
from placerl.primitives.learner.aware_training import FixedPointLearner
from tests.primitives.quantization import cases


def learner(kind: str, precision: str, backend: str) -> FixedPointLearner:
    return aware_training.create(
        cases.algorithm(kind),
        cases.PRECISIONS[precision],
        backend=backend,
        batch_size=cases.BATCH_SIZE,
        seed=3,
    )


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("precision", ["fixed 16", "narrow everywhere"])
@pytest.mark.parametrize("kind", cases.KINDS)
def test_it_explores_as_the_learner_does(kind: str, precision: str, backend: str) -> None:
    made, rng = learner(kind, precision, backend), np.random.default_rng(4)
    policy = pickle.loads(pickle.dumps(made.policy()))
    shapes = None
    for _ in range(4):  # two steps before the delay ends, two after
        parameters = made.policy_parameters()
        own = {name: (value.shape, value.dtype) for name, value in parameters.items()}
        assert shapes in (None, own)
        shapes = own
        observation = 9 * rng.standard_normal((6, 5)).astype(np.float32)
        late = 10**6
        expected = made.explore(observation, late, np.random.default_rng(1))
        found = policy.explore(parameters, observation, late, np.random.default_rng(1))
        np.testing.assert_array_equal(found, expected)
        made.step(cases.batch(made.algorithm, rng))
        np.testing.assert_array_equal(
            policy.explore(parameters, observation, late, np.random.default_rng(1)),
            expected,
            err_msg="it acts on what was published, not on what the learner has become",
        )
    assert made.quantised == (precision == "narrow everywhere")


def test_what_saturates_in_a_policy_is_not_the_learners() -> None:
    made = learner("ddpg", "fixed 16", "native")
    parameters, before = made.policy_parameters(), dict(made.saturated)
    far = np.full((2, 5), 1e6, np.float32)
    made.policy().explore(parameters, far, 0, np.random.default_rng(1))
    assert made.saturated == before
    made.explore(far, 0, np.random.default_rng(1))
    assert made.saturated != before
