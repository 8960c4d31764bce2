"""The learners on step graphs as `primitives.learner.create` gives them."""

import numpy as np
import pytest
import torch

from placerl.primitives import learner
from placerl.primitives.learner import Learner
from tests.primitives.learner.graph_cases import CASES, make, random_batch

BATCH_SIZE = 16
NAMES = sorted({name for name, _ in CASES})
AVAILABLE = [status.name for status in learner.backends() if status.available and status.name != "torch"]


def numpy_batch(name: str, seed: int) -> dict[str, np.ndarray]:
    generator = torch.Generator().manual_seed(seed)
    batch = random_batch(make(name, torch.float32), BATCH_SIZE, generator)
    return {column: value.numpy() for column, value in batch.items() if column != "weight"}


def pair(name: str, backend: str) -> tuple[Learner, Learner]:
    algorithm = make(name, torch.float32)
    own = learner.create(algorithm, backend=backend, batch_size=BATCH_SIZE, seed=3)
    return own, learner.create(algorithm, backend="torch", batch_size=BATCH_SIZE, seed=3, mode="eager")


@pytest.mark.parametrize("backend", AVAILABLE)
@pytest.mark.parametrize("name", NAMES)
def test_a_learner_takes_the_steps_that_the_torch_learner_takes(name: str, backend: str) -> None:
    own, torch_learner = pair(name, backend)
    for seed in range(4):
        batch = numpy_batch(name, seed)
        found, expected = own.step(batch), torch_learner.step(batch)
        np.testing.assert_allclose(found.td_errors, expected.td_errors, rtol=1e-3, atol=1e-4)
        assert found.losses.keys() == expected.losses.keys()
        # Set equal again: rounding differences grow at the kinks of ReLU under Adam.
        own.load_state_dict(torch_learner.state_dict())
    observation = numpy_batch(name, 9)["observation"]
    np.testing.assert_allclose(own.act(observation), torch_learner.act(observation), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", AVAILABLE)
def test_state_dicts_go_from_one_backend_to_the_other(backend: str) -> None:
    own, torch_learner = pair("ddpg", backend)
    own.step(numpy_batch("ddpg", 0))
    torch_learner.load_state_dict(own.state_dict())
    for name, value in own.state_dict().items():
        np.testing.assert_array_equal(torch_learner.state_dict()[name], value)
    for name, value in own.parameters().items():
        np.testing.assert_array_equal(torch_learner.parameters()[name], value)


@pytest.mark.parametrize("backend", AVAILABLE)
@pytest.mark.parametrize("fault", ["shape", "dtype", "nan", "missing", "batch size", "n-step"])
def test_a_wrong_batch_is_an_error_and_changes_nothing(backend: str, fault: str) -> None:
    own, _ = pair("ddpg", backend)
    batch = numpy_batch("ddpg", 0)
    before = own.state_dict()
    match fault:
        case "shape":
            batch["action"] = batch["action"][:, :1]
        case "dtype":
            batch["reward"] = batch["reward"].astype(np.float64)
        case "nan":
            batch["observation"][3, 1] = np.nan
        case "missing":
            del batch["reward"]
        case "batch size":
            batch = {name: column[:-1] for name, column in batch.items()}
        case "n-step":
            batch["discount"] = np.full_like(batch["reward"], 0.99**3)
    with pytest.raises(ValueError, match=r"action|reward|observation|discount"):
        own.step(batch)
    for name, value in own.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("backend", AVAILABLE)
def test_a_wrong_state_is_an_error_and_changes_nothing(backend: str) -> None:
    own, _ = pair("ddpg", backend)
    before = own.state_dict()
    other = learner.create(own.algorithm, backend=backend, batch_size=BATCH_SIZE, seed=4).state_dict()
    last = list(other)[-3]
    for key, value in {
        "surplus": np.zeros(1),
        next(iter(other)): np.zeros((1, 1)),
        last: np.full(other[last].shape, "x"),
        "gradient_steps": np.array(np.nan),
        "generator": np.zeros(3, np.uint8),
    }.items():
        with pytest.raises(ValueError, match=f"state.*{key}"):
            own.load_state_dict(other | {key: value})
        for name, leaf in own.state_dict().items():
            np.testing.assert_array_equal(leaf, before[name])
    own.load_state_dict(other)
    for name, leaf in own.state_dict().items():
        np.testing.assert_array_equal(leaf, other[name])


@pytest.mark.parametrize("backend", AVAILABLE)
def test_a_device_that_the_backend_does_not_have_is_an_error(backend: str) -> None:
    with pytest.raises(ValueError, match="device: found 'tpu'"):
        learner.create(make("ddpg", torch.float32), backend=backend, device="tpu", batch_size=4)
