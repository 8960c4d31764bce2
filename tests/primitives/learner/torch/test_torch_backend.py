"""The PyTorch learner: its modes give the numbers of the pure step, wrong arguments change nothing."""

import numpy as np
import pytest
import torch

from placerl.primitives import algorithms, learner
from placerl.primitives.algorithms import tree

CASES = {
    "ddpg": {"observation_shape": (5,), "action_size": 2},
    "dqn": {
        "observation_shape": (4,),
        "action_size": 3,
        "hyperparameters": {"target_interval": 2, "double": True, "maximum_gradient_norm": 0.1},
    },
    "td3": {"observation_shape": (5,), "action_size": 2},
    "sac": {"observation_shape": (5,), "action_size": 2},
    "ppo": {"observation_shape": (5,), "action_size": 2},
}
BATCH_SIZE = 8


def make_algorithm(name, dtype=torch.float64):
    return algorithms.create(name, **CASES[name], network={"hidden": [16, 16]}, dtype=dtype)


def make_batch(algorithm, seed=0):
    rng = np.random.default_rng(seed)
    batch = {}
    for name, (shape, dtype) in algorithm.columns(BATCH_SIZE).items():
        if dtype is torch.int64:
            batch[name] = rng.integers(algorithm.action_size, size=shape)
        else:
            batch[name] = rng.standard_normal(shape).astype(str(dtype).removeprefix("torch."))
    if "terminated" in batch:
        batch["terminated"] = batch["terminated"] > 0.5
    weights = np.abs(batch.pop("weight")) if "weight" in batch else None
    return batch, weights


def make_learner(name, mode="tuned", dtype=torch.float64, **options):
    return learner.create(make_algorithm(name, dtype), batch_size=BATCH_SIZE, mode=mode, **options)


@pytest.fixture(params=list(CASES))
def name(request):
    return request.param


@pytest.fixture(params=[case for case in CASES if case != "ppo"])
def replayed(request):
    """An algorithm that learns from replay."""
    return request.param


def assert_same_course(first, second, steps):
    for step in range(steps):
        batch, weights = make_batch(first.algorithm, seed=step)
        ours, theirs = first.step(batch, weights), second.step(batch, weights)
        np.testing.assert_allclose(ours.td_errors, theirs.td_errors, rtol=1e-9, atol=1e-10)
        assert ours.losses == pytest.approx(theirs.losses, rel=1e-9)
        other = second.state_dict()
        for leaf, value in first.state_dict().items():
            np.testing.assert_allclose(value, other[leaf], rtol=1e-9, atol=1e-10, err_msg=leaf)


def test_tuned_steps_are_the_pure_steps(name):
    tuned, eager = make_learner(name), make_learner(name, "eager")
    assert_same_course(tuned, eager, steps=6)


@pytest.mark.parametrize("parts", [2, 4])
def test_steps_on_parts_of_the_batch_are_the_pure_steps(name, parts):
    assert_same_course(make_learner(name, streams=parts), make_learner(name, "eager"), steps=6)


@pytest.mark.gpu
@pytest.mark.parametrize("streams", [1, 2, 4])
def test_a_captured_cuda_graph_gives_the_pure_steps(name, streams):
    captured = make_learner(name, "graph", device="cuda", streams=streams)
    assert_same_course(captured, make_learner(name, "eager"), steps=6)


@pytest.mark.gpu
def test_a_captured_cuda_graph_goes_on_from_a_state(name):
    first = make_learner(name)
    first.step(*make_batch(first.algorithm, 1))
    captured = make_learner(name, "graph", device="cuda")
    captured.step(*make_batch(first.algorithm, 2))
    captured.load_state_dict(first.state_dict())
    assert_same_course(captured, first, steps=3)


@pytest.mark.slow
@pytest.mark.timeout(900)  # compiling takes minutes on a busy machine
@pytest.mark.parametrize(
    "name", ["dqn", *(pytest.param(one, marks=pytest.mark.long) for one in CASES if one != "dqn")]
)
def test_compiled_steps_are_the_pure_steps(name):
    assert_same_course(make_learner(name, "compiled"), make_learner(name, "eager"), steps=3)


def test_eager_steps_are_the_algorithms(name):
    agent = make_learner(name, "eager")
    batch, weights = make_batch(agent.algorithm)
    generator = torch.Generator().manual_seed(0)
    state = agent.algorithm.initialise(generator)
    tensors = {column: torch.from_numpy(np.asarray(value)) for column, value in batch.items()}
    if "terminated" in tensors:
        tensors["terminated"] = tensors["terminated"].double()
    if weights is not None:
        tensors["weight"] = torch.from_numpy(weights)
    draws = agent.algorithm.draw(BATCH_SIZE, generator)
    expected = agent.algorithm.gradient_step(state, tensors, draws, agent.algorithm.variant(0))
    outcome = agent.step(batch, weights)
    np.testing.assert_array_equal(outcome.td_errors, expected.td_error.numpy())
    after = agent.state_dict()
    for leaf, value in tree.flatten(expected.state).items():
        np.testing.assert_array_equal(after[leaf], value.numpy())


def test_leaving_weights_out_means_ones(replayed):
    first, second = make_learner(replayed), make_learner(replayed)
    batch, _ = make_batch(first.algorithm)
    assert first.step(batch).losses == second.step(batch, np.ones(BATCH_SIZE)).losses


def test_a_state_dict_goes_on_exactly(name):
    first = make_learner(name)
    first.step(*make_batch(first.algorithm, 1))
    second = make_learner(name, seed=5)
    second.load_state_dict(first.state_dict())
    assert second.gradient_steps == 1
    for step in range(3):
        batch, weights = make_batch(first.algorithm, seed=step)
        np.testing.assert_array_equal(
            first.step(batch, weights).td_errors, second.step(batch, weights).td_errors
        )


def test_a_state_dict_is_a_copy(name):
    agent = make_learner(name)
    before = agent.state_dict()
    kept = {leaf: value.copy() for leaf, value in before.items()}
    agent.step(*make_batch(agent.algorithm))
    for leaf, value in before.items():
        np.testing.assert_array_equal(value, kept[leaf])


def test_acting_follows_the_newest_parameters(name):
    for mode in ("tuned", "eager"):
        agent = make_learner(name, mode)
        observation = np.random.default_rng(0).standard_normal((7, *agent.algorithm.observation_shape))
        for step in range(3):
            batch, weights = make_batch(agent.algorithm, seed=step)
            agent.step(batch, weights)
            parameters = {leaf: torch.from_numpy(value) for leaf, value in agent.parameters().items()}
            expected = agent.algorithm.act(parameters, torch.from_numpy(observation)).numpy()
            np.testing.assert_allclose(agent.act(observation), expected, atol=1e-12)
        np.testing.assert_allclose(agent.act(observation[2]), expected[2], atol=1e-12)


def wrong_batches(algorithm):
    """Each kind of wrong batch: (what changes, what the message must name)."""
    size = algorithm.observation_shape[0]
    nan = np.zeros((BATCH_SIZE, size))
    nan[3, 1] = np.nan
    infinite = np.zeros(BATCH_SIZE)
    infinite[0] = np.inf
    return [
        ({"observation": np.zeros((BATCH_SIZE, size + 1))}, "observation: found shape"),
        ({"observation": np.zeros((BATCH_SIZE, size), np.float32)}, "observation: found dtype float32"),
        ({"next_observation": nan}, "next_observation: found NaN"),
        ({"reward": infinite}, "reward: found NaN or infinity"),
        ({"reward": np.zeros(BATCH_SIZE + 1)}, r"reward: found shape \(9,\)"),
        ({"reward": [0.0] * BATCH_SIZE}, "reward: found list"),
        ({"action": None}, "action"),
        ({"terminated": np.zeros(BATCH_SIZE, np.int64)}, "terminated: found dtype"),
    ]


@pytest.mark.parametrize("case", range(8))
def test_a_wrong_batch_is_named_and_changes_nothing(replayed, case):
    agent = make_learner(replayed)
    change, message = wrong_batches(agent.algorithm)[case]
    batch, weights = make_batch(agent.algorithm)
    before = agent.state_dict()
    with pytest.raises(ValueError, match=message):
        agent.step(batch | change, weights)
    for leaf, value in agent.state_dict().items():
        np.testing.assert_array_equal(value, before[leaf])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(BATCH_SIZE, -1.0), "weight: found -1.0"),
        (np.full(BATCH_SIZE, np.nan), "weight: found NaN"),
        (np.ones(3), "weight: found shape"),
    ],
)
def test_wrong_weights_are_named(replayed, weights, message):
    agent = make_learner(replayed)
    batch, _ = make_batch(agent.algorithm)
    with pytest.raises(ValueError, match=message):
        agent.step(batch, weights)


def test_weights_for_an_algorithm_without_them_are_refused():
    agent = make_learner("ppo")
    batch, _ = make_batch(agent.algorithm)
    with pytest.raises(ValueError, match="weights: found some; allowed: none for ppo"):
        agent.step(batch, np.ones(BATCH_SIZE))


@pytest.mark.parametrize("name", ["dqn", "td3", "ppo"])
def test_each_variant_can_be_asked_for(name):
    agent = make_learner(name)
    for variant in agent.algorithm.variants:
        agent.step(*make_batch(agent.algorithm), variant=variant)
    assert agent.gradient_steps == 2
    with pytest.raises(ValueError, match="variant: found 'half'"):
        agent.step(*make_batch(agent.algorithm), variant="half")


def test_a_missing_column_is_named(replayed):
    agent = make_learner(replayed)
    batch, weights = make_batch(agent.algorithm)
    del batch["reward"]
    with pytest.raises(ValueError, match="'reward' is missing"):
        agent.step(batch, weights)


@pytest.mark.parametrize("action", [-1, 3])
def test_an_action_out_of_range_is_named(action):
    agent = make_learner("dqn")
    batch, weights = make_batch(agent.algorithm)
    batch["action"][2] = action
    with pytest.raises(ValueError, match="action: found values in"):
        agent.step(batch, weights)


def test_large_but_finite_numbers_are_not_mistaken_for_infinity():
    agent = make_learner("dqn", dtype=torch.float32)
    batch, weights = make_batch(agent.algorithm)
    batch["reward"][:] = 3e38
    agent.step(batch, weights)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"backend": "tensorflow"}, "backend: unknown 'tensorflow'"),
        ({"batch_size": 0}, "batch_size: found 0"),
        ({"batch_size": 2.0}, "batch_size: found 2.0"),
        ({"seed": -1}, "seed: found -1"),
        ({"mode": "fast"}, "mode: found 'fast'"),
        ({"mode": "graph"}, "mode: found 'graph' on device 'cpu'"),
        ({"streams": 3}, "streams: found 3; allowed: divisors"),
        ({"streams": 0}, "streams: found 0"),
        ({"streams": 2, "mode": "eager"}, "streams: found 2; allowed in mode 'eager': 1"),
        ({"device": "tpu"}, "device: found 'tpu'"),
        ({"device": "cuda:99"}, "device: found 'cuda:99'"),
    ],
)
def test_wrong_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        learner.create(make_algorithm("dqn"), **({"batch_size": 4} | wrong))


def test_a_wrong_state_changes_nothing(name):
    agent = make_learner(name)
    before = agent.state_dict()
    other = make_learner(name, seed=1).state_dict()
    last = list(other)[-3]
    for wrong in (
        {key: value for key, value in other.items() if key != "gradient_steps"},
        other | {"surplus": np.zeros(1)},
        other | {next(iter(other)): np.zeros((1, 1))},
        other | {last: np.full(other[last].shape, "x")},
        other | {"gradient_steps": np.array(np.nan)},
        other | {"generator": np.zeros(3, np.uint8)},
        other | {"generator": other["generator"].astype(np.float32)},
        other | {"generator": "x"},
    ):
        with pytest.raises(ValueError, match="state"):
            agent.load_state_dict(wrong)
    for leaf, value in agent.state_dict().items():
        np.testing.assert_array_equal(value, before[leaf])


def test_a_wrong_observation_is_named(name):
    agent = make_learner(name)
    with pytest.raises(ValueError, match="observation: found shape"):
        agent.act(np.zeros(9))


def test_backends_say_whether_they_are_available():
    status = {entry.name: entry for entry in learner.backends()}
    assert status["torch"].available
    assert status["torch"].reason == ""
