"""A training that becomes NaN or infinite says so on the gradient step on which it happens, however steps are taken."""

from functools import cache, partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.primitives import algorithms, learner
from placerl.primitives.algorithms.dqn import DqnHyperparameters
from placerl.primitives.learner import NotFiniteError, finite
from placerl.primitives.learner.finite import require_finite, require_finite_state, result_name
from placerl.primitives.learner.fused import FusedSteps
from placerl.primitives.learner.relaxed import RelaxedSteps
from tests.primitives.learner.fused.replay_and_learner import parts
from tests.primitives.learner.graph_cases import SHAPES, random_batch

# The reference backend's NumPy warns of an overflow before the step is refused.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SIZE = 8
BACKENDS = [status.name for status in learner.backends() if status.available]
RATES = {
    "dqn": ("learning_rate",),
    "ddpg": ("actor_learning_rate", "critic_learning_rate"),
    "td3": ("actor_learning_rate", "critic_learning_rate"),
    "sac": ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate"),
    "ppo": ("policy_learning_rate", "value_learning_rate"),
}
WORDS = r"^gradient step (\d+): .*: found NaN or infinity; allowed: finite numbers; .* earlier state_dict"


def create(name: str, backend: str, **hyperparameters: object) -> learner.Learner:
    algorithm = algorithms.create(name, **SHAPES[name], hyperparameters=hyperparameters)
    return learner.create(algorithm, backend=backend, batch_size=SIZE, seed=1)


def batch_of(made: learner.Learner, seed: int = 2) -> dict[str, np.ndarray]:
    drawn = random_batch(made.algorithm, SIZE, torch.Generator().manual_seed(seed))
    return {name: column.numpy() for name, column in drawn.items() if name != "weight"}


def is_finite(made: learner.Learner) -> bool:
    return all(np.isfinite(leaf).all() for leaf in made.state_dict().values() if leaf.dtype.kind == "f")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_learning_rate_without_measure_is_reported_with_its_step(name: str, backend: str) -> None:
    made = create(name, backend, **dict.fromkeys(RATES[name], 1e30))
    batch = batch_of(made)

    def train() -> None:
        for _ in range(4):
            assert is_finite(made), "the state became NaN or infinite without a word"
            made.step(batch)

    with pytest.raises(NotFiniteError, match=WORDS) as raised:
        train()
    assert str(raised.value).startswith(f"gradient step {made.gradient_steps}: ")
    assert isinstance(raised.value, FloatingPointError)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["ddpg", "td3", "sac"])
def test_rewards_whose_squares_overflow_are_reported_on_the_first_step(name: str, backend: str) -> None:
    made = create(name, backend)
    batch = batch_of(made)
    batch["reward"][:] = 1e38
    # The FPGA's core and reductions compute with 0 in place of infinity, so that its losses are finite.
    with pytest.raises(NotFiniteError, match=r"^gradient step 1: (losses\['|inputs of products or sums: )"):
        made.step(batch)
    assert made.gradient_steps == 1


SEARCHED = [name for name in BACKENDS if name in ("torch", "native", "reference", "opencl")]
"""Backends that compute with NaN and infinity; the FPGA's core replaces them by 0, and counts them."""
scales = st.floats(-37, 37).map(lambda exponent: 10.0**exponent)


@cache
def shared(backend: str, loss: str, rate: float) -> tuple[learner.Learner, dict[str, np.ndarray]]:
    """A learner for many examples, and its first state."""
    made = create("dqn", backend, learning_rate=rate, loss=loss)
    return made, made.state_dict()


@pytest.mark.parametrize("backend", SEARCHED)
@settings(max_examples=25, deadline=None)
@given(scales, scales, st.sampled_from(["huber", "squared"]), st.sampled_from([1e-3, 1e30]))
def test_no_step_leaves_a_state_that_is_not_finite_without_a_word(
    backend: str, observation: float, reward: float, loss: str, rate: float
) -> None:
    """Parameters alone overflow at a learning rate near the largest number; the next step's results show it."""
    made, first = shared(backend, loss, rate)
    made.load_state_dict(first)
    batch = batch_of(made)
    batch["observation"] *= np.float32(observation)
    batch["reward"] *= np.float32(reward)
    for _ in range(3):
        was_finite = parameters_are_finite(made)
        try:
            made.step(batch)
        except NotFiniteError:
            return
        assert was_finite, "a step on parameters that were not finite was not reported"
        wrong = [name for name, leaf in made.state_dict().items() if not np.isfinite(leaf).all()]
        assert not [name for name in wrong if "adam" in name], "moments became NaN or infinite without a word"
        assert not wrong or rate == 1e30, f"{wrong} became NaN or infinite without a word"


@pytest.mark.parametrize("backend", SEARCHED)
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "ppo"])  # PPO limits the gradient's norm
def test_gradients_whose_squares_overflow_are_reported_though_losses_and_parameters_are_finite(
    name: str, backend: str
) -> None:
    """An infinite second moment would make every later update 0."""
    made = create(name, backend)
    batch = batch_of(made)
    batch["observation"] *= np.float32(1e25)
    batch["reward"][:] = 0
    if "next_observation" in batch:
        batch["next_observation"][:] = 0
    with pytest.raises(NotFiniteError, match=r"^gradient step 1: "):
        made.step(batch)
    if name == "dqn":
        assert parameters_are_finite(made)


def parameters_are_finite(made: learner.Learner) -> bool:
    return all(np.isfinite(leaf).all() for leaf in made.parameters().values())


def fast(name: str, kind: str) -> tuple[FusedSteps, learner.Learner, np.random.Generator]:
    replay, made, rng = parts(name)
    make = {"fused": FusedSteps, "relaxed": partial(RelaxedSteps, ahead=2)}[kind]
    return make(replay, made), made, rng


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
@pytest.mark.parametrize("name", ["ddpg", "td3", "sac"])
def test_steps_in_one_call_stop_at_the_step_that_is_not_finite(name: str, kind: str) -> None:
    steps, made, rng = fast(name, kind)
    steps.run(3, rng)
    steps._replay.storage.columns["reward"][:] = 1e30
    with pytest.raises(NotFiniteError, match=WORDS) as raised:
        steps.run(20, rng)
    assert str(raised.value).startswith(f"gradient step {made.gradient_steps}: losses['")
    assert 3 < made.gradient_steps < 8


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
def test_moments_that_no_loss_shows_are_found_on_their_step_in_one_call(kind: str) -> None:
    steps, made, rng = fast("dqn", kind)
    steps.run(3, rng)
    steps._replay.storage.columns["observation"][:] *= np.float32(1e25)
    with pytest.raises(NotFiniteError, match=WORDS) as raised:
        steps.run(20, rng)
    assert 3 < made.gradient_steps < 8
    assert str(raised.value).startswith(f"gradient step {made.gradient_steps}: state['adam/square/")
    assert parameters_are_finite(made)


@pytest.mark.parametrize("kind", ["fused", "relaxed"])
def test_a_loss_that_overflows_alone_is_no_error_in_one_call(kind: str) -> None:
    steps, made, rng = fast("dqn", kind)
    steps._replay.storage.columns["reward"][:] = 1e38
    steps.run(7, rng)
    assert np.isinf(steps.losses["q"])
    assert made.gradient_steps == 7
    assert is_finite(made)


def with_infinite_moments(made: learner.Learner) -> learner.Learner:
    state = made.state_dict()
    name = next(name for name in state if name.startswith("adam/square"))
    made.load_state_dict(state | {name: np.full_like(state[name], np.inf)})
    return made


@pytest.mark.parametrize("backend", BACKENDS)
def test_moments_that_were_infinite_before_are_reported_on_the_first_step(backend: str) -> None:
    made = with_infinite_moments(create("dqn", backend))
    with pytest.raises(NotFiniteError, match=r"^gradient step 1: state\['adam/square"):
        made.step(batch_of(made))


@pytest.mark.parametrize("mode", ["eager", "tuned", pytest.param("compiled", marks=pytest.mark.slow)])
def test_every_mode_of_pytorch_searches_the_moments(mode: str) -> None:
    algorithm = algorithms.create("dqn", **SHAPES["dqn"])
    trainee = learner.create(algorithm, backend="torch", batch_size=SIZE, seed=1, mode=mode)
    trainee.step(batch_of(trainee))
    with pytest.raises(NotFiniteError, match=r"^gradient step 2: state\['adam/square"):
        with_infinite_moments(trainee).step(batch_of(trainee))


def test_the_whole_state_is_searched_once_in_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite, "CHECK_INTERVAL", 3)
    made = with_infinite_moments(create("dqn", "torch"))
    monkeypatch.setattr(made, "_overflowed", lambda: False)
    batch = batch_of(made)
    for _ in range(2):
        made.step(batch)
    with pytest.raises(NotFiniteError, match=r"^gradient step 1 to 3: state\['adam/square"):
        made.step(batch)


def test_results_are_named_as_a_step_returns_them() -> None:
    assert [result_name(output) for output in ("td_error", "losses/q", "action", "found/gradients/a")] == [
        "td_errors",
        "losses['q']",
        "",
        "",
    ]
    require_finite(1, np.zeros(2), {"q": 0.0}, dict)
    require_finite(1, np.zeros(2), {"q": np.inf}, lambda: {"a": np.zeros(3)})
    with pytest.raises(NotFiniteError, match=r"^gradient step 7: losses\['q'\], td_errors: found"):
        require_finite(7, np.array([0, np.nan]), {"q": np.inf, "mean_q": 0.0}, dict)
    with pytest.raises(NotFiniteError, match=r"^gradient step 7: losses\['q'\]: found"):
        require_finite(7, np.zeros(2), {"q": np.inf}, lambda: {"a": np.array([0, np.nan])})
    require_finite_state(1, 5, {"steps": np.arange(3), "a": np.zeros(3)})
    with pytest.raises(NotFiniteError, match=r"^gradient step 5: state\['a'\]: found"):
        require_finite_state(5, 5, {"a": np.array([-np.inf, np.inf])})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loss_that_overflows_alone_is_no_error(backend: str) -> None:
    assert DqnHyperparameters().loss == "huber"
    made = create("dqn", backend)
    batch = batch_of(made)
    batch["reward"][:] = 1e38
    outcome = made.step(batch)
    assert np.isinf(outcome.losses["q"])
    assert (outcome.td_errors > 9e37).all()
    assert is_finite(made)
