"""Actors go on with the weights that they have, until those published last are swapped in."""

from types import SimpleNamespace

import numpy as np

from placerl.harness.runtime.actors.double_buffer import DoubleBufferedPolicy


def learner():
    """Its weights are a number that training raises; an action says which were used."""
    made = SimpleNamespace(weights=0)
    made.policy_parameters = lambda: {"weights": made.weights}
    made.policy = lambda: SimpleNamespace(
        explore=lambda parameters, observations, step, rng: (parameters["weights"], observations, step, rng)
    )
    return made


def test_what_is_published_is_read_from_the_swap_on():
    trained, rng = learner(), np.random.default_rng(0)
    policy = DoubleBufferedPolicy(trained)

    def used():
        weights, *arguments = policy("observations", 7, rng)
        assert arguments == ["observations", 7, rng]
        return weights

    for round_ in (1, 2, 3):
        trained.weights = 10 * round_
        assert used() == 10 * (round_ - 1), "training alone changes nothing"
        policy.publish()
        assert used() == 10 * (round_ - 1), "nor does what is published"
        policy.swap()
        assert used() == 10 * round_
