"""Every learner reads exactly the batch, weights and observations that it documents, or refuses them by name."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from placerl.primitives import learner
from placerl.primitives.learner import Learner
from placerl.primitives.learner.columns import numpy_columns
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device import memory as device_memory
from tests.primitives.learner.graph_cases import SHAPES, make, random_batch

SIZE = 3
BACKENDS = [status.name for status in learner.backends() if status.available]
EVERY = [(name, backend) for name in SHAPES for backend in BACKENDS]
every_learner = pytest.mark.parametrize(("name", "backend"), EVERY)


@cache
def learner_of(name: str, backend: str) -> Learner:
    return learner.create(make(name, torch.float32), backend=backend, batch_size=SIZE, seed=3)


def parts_of(name: str, size: int = SIZE) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """A batch, and its importance weights where the algorithm has any."""
    drawn = random_batch(make(name, torch.float32), size, torch.Generator().manual_seed(5))
    batch = {column: value.numpy() for column, value in drawn.items()}
    return batch, batch.pop("weight", None)


def refused(found: Learner, batch: object, weights: object = None, match: str = "") -> None:
    """A step must raise ValueError, and leave the learner as it was."""
    before = found.state_dict()
    with pytest.raises(ValueError, match=match):
        found.step(batch, weights)  # type: ignore[arg-type]
    after = found.state_dict()
    assert all(np.array_equal(after[leaf], before[leaf]) for leaf in before)


@every_learner
def test_weights_are_given_in_one_way(name: str, backend: str) -> None:
    trainee = learner_of(name, backend)
    batch, weights = parts_of(name)
    if weights is None:
        refused(trainee, batch | {"weight": np.ones(SIZE, np.float32)}, match="batch: found column 'weight'")
        refused(trainee, batch, np.ones(SIZE, np.float32), "weights: found some; allowed: none for ppo")
        return
    words = r"^batch: found column 'weight'; allowed: the argument weights=$"
    refused(trainee, batch | {"weight": weights}, match=words)
    refused(trainee, batch | {"weight": weights}, weights, words)
    start = trainee.state_dict()
    losses = []
    for scale in (0, 1, 2):
        trainee.load_state_dict(start)
        losses.append(trainee.step(batch, np.full(SIZE, scale, np.float32)).losses)
    critic = next(loss for loss in losses[0] if losses[0][loss] != losses[1][loss])
    assert losses[0][critic] == 0
    np.testing.assert_allclose(losses[2][critic], 2 * losses[1][critic], rtol=1e-2)
    trainee.load_state_dict(start)


WRONG_WEIGHTS = {
    "a column": (np.ones((SIZE, 1), np.float32), r"weight: found shape \(3, 1\); allowed: \(3,\)"),
    "one": (np.ones(1, np.float32), r"weight: found shape \(1,\)"),
    "a scalar": (np.float32(1), "weight: found float32"),
    "no dimension": (np.array(1, np.float32), r"weight: found shape \(\)"),
    "too many": (np.ones(SIZE + 1, np.float32), r"weight: found shape \(4,\)"),
    "a number": (1.0, "weight: found float"),
    "a list": ([1.0] * SIZE, "weight: found list"),
    "a tensor": (torch.ones(SIZE), "weight: found Tensor"),
    "masked": (np.ma.array(np.ones(SIZE, np.float32), mask=[1, 0, 0]), "weight: found MaskedArray"),
    "float64": (np.ones(SIZE), "weight: found dtype float64; allowed: float32"),
    "int": (np.ones(SIZE, np.int64), "weight: found dtype int64"),
    "bool": (np.ones(SIZE, bool), "weight: found dtype bool"),
    "text": (np.full(SIZE, "1"), "weight: found dtype <U1"),
    "objects": (np.full(SIZE, 1.0, object), "weight: found dtype object"),
    "complex": (np.ones(SIZE, np.complex64), "weight: found dtype complex64"),
    "NaN": (np.array([1, np.nan, 1], np.float32), "weight: found NaN or infinity"),
    "infinity": (np.array([1, np.inf, 1], np.float32), "weight: found NaN or infinity"),
    "negative": (np.array([1, -0.5, 1], np.float32), "weight: found -0.5; allowed: numbers of at least 0"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fault", WRONG_WEIGHTS)
def test_wrong_weights_are_refused_by_name(backend: str, fault: str) -> None:
    weights, words = WRONG_WEIGHTS[fault]
    refused(learner_of("dqn", backend), parts_of("dqn")[0], weights, words)


@every_learner
def test_an_unknown_column_is_refused_with_the_name_that_was_meant(name: str, backend: str) -> None:
    found, (batch, weights) = learner_of(name, backend), parts_of(name)
    refused(
        found,
        batch | {"observations": batch["observation"]},
        weights,
        r"batch: found column 'observations'; allowed: observation, action, .*; did you mean observation\?$",
    )
    batch["bbservation"] = batch.pop("observation")
    refused(found, batch, weights, r"found column 'bbservation'.*did you mean observation\?")


@pytest.mark.parametrize("backend", BACKENDS)
@given(extra=st.text(max_size=8))
def test_no_other_column_is_read_over(backend: str, extra: str) -> None:
    batch, weights = parts_of("ddpg")
    trainee = learner_of("ddpg", backend)
    if extra not in batch:
        with pytest.raises(ValueError, match=r"^batch: found column"):
            trainee.step(batch | {extra: weights}, weights)


WRONG_COLUMNS = {
    "shape": lambda column: column[..., None],
    "size": lambda column: np.concatenate([column, column[:1]]),
    "one row": lambda column: column[:1],
    "float64": lambda column: column.astype(np.float64),
    "int": lambda column: column.astype(np.int32),
    "uint8": lambda column: column.astype(np.uint8),
    "text": lambda column: column.astype(str),
    "objects": lambda column: column.astype(object),
    "other byte order": lambda column: column.astype(column.dtype.newbyteorder()),
    "list": lambda column: column.tolist(),
    "masked": lambda column: np.ma.array(column),
    "None": lambda column: None,
}


@every_learner
@pytest.mark.parametrize("fault", WRONG_COLUMNS)
def test_a_column_of_another_kind_is_refused_by_name(name: str, backend: str, fault: str) -> None:
    batch, weights = parts_of(name)
    for column in batch:
        wrong = WRONG_COLUMNS[fault](batch[column])
        refused(learner_of(name, backend), batch | {column: wrong}, weights, f"^{column}: found")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", [-0.5, 1.5, 2.0, 255.0, np.nan])
def test_terminated_outside_its_range_is_refused_by_name(backend: str, wrong: float) -> None:
    batch, weights = parts_of("dqn")
    batch["terminated"][1] = wrong
    refused(learner_of("dqn", backend), batch, weights, "^terminated: found")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_an_action_outside_its_range_is_refused_by_name(backend: str, wrong: int) -> None:
    batch, weights = parts_of("dqn")
    batch["action"][1] = wrong
    refused(
        learner_of("dqn", backend),
        batch,
        weights,
        r"^action: found values in .*; allowed: integers in \[0, 3\)",
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_that_is_no_mapping_is_refused(backend: str) -> None:
    for wrong in (None, [], np.zeros(3)):
        refused(learner_of("dqn", backend), wrong, match=r"^batch: found .*; allowed: a mapping")


@pytest.mark.parametrize("backend", [name for name in ("torch", "opencl") if name in BACKENDS])
@pytest.mark.parametrize("extra", ["weight", "rewards", "discount"])
def test_a_batch_in_device_memory_is_checked_alike(backend: str, extra: str) -> None:
    if backend == "torch":
        pytest.skip("needs CUDA") if not torch.cuda.is_available() else None
    memory = device_memory("cuda" if backend == "torch" else backend)
    batch, weights = parts_of("ddpg", 8)
    rows = batch | {extra: weights, "terminated": batch["terminated"] > 0}
    fields = {name: FieldSpec(column.shape[1:], column.dtype) for name, column in rows.items()}
    storage = DeviceStorage(8, fields, memory)
    storage.insert(rows)
    device = "cuda" if backend == "torch" else "cpu"
    trainee = learner.create(make("ddpg", torch.float32), backend=backend, device=device, batch_size=SIZE)
    with pytest.raises(ValueError, match=f"batch: found column '{extra}'"):
        trainee.step(storage.gather(np.arange(SIZE)), weights[:SIZE])


WRONG_OBSERVATIONS = {
    "another width": (
        np.zeros((2, 5), np.float32),
        r"found shape \(2, 5\); allowed: \(4,\) or \(n, \*\(4,\)\)",
    ),
    "no rows": (np.zeros((0, 4), np.float32), r"found shape \(0, 4\)"),
    "a scalar": (np.zeros((), np.float32), r"found shape \(\)"),
    "float64": (np.zeros((2, 4)), "found dtype float64; allowed: float32"),
    "uint8": (np.zeros((2, 4), np.uint8), "found dtype uint8"),
    "a list": ([0.0] * 4, "found list"),
    "a tensor": (torch.zeros(4), "found Tensor"),
    "NaN": (np.full((2, 4), np.nan, np.float32), "found NaN or infinity"),
    "infinity": (np.full(4, np.inf, np.float32), "found NaN or infinity"),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["dqn", "ddpg"])
@pytest.mark.parametrize("fault", WRONG_OBSERVATIONS)
def test_a_wrong_observation_gets_no_action(name: str, backend: str, fault: str) -> None:
    observation, words = WRONG_OBSERVATIONS[fault]
    for ask in (
        lambda: learner_of(name, backend).act(observation),
        lambda: explored(name, backend, observation),
    ):
        with pytest.raises(ValueError, match=rf"^observation: {words}"):
            ask()


def explored(
    name: str, backend: str, observation: object, step: object = 0, rng: object = None
) -> np.ndarray:
    rng = np.random.default_rng(0) if rng is None else rng
    return learner_of(name, backend).explore(observation, step, rng)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", [-1, 1.0, True, "1", None])
def test_exploring_takes_only_a_number_of_steps_and_a_generator(backend: str, wrong: object) -> None:
    observation = np.zeros(4, np.float32)
    for name in ("dqn", "ddpg"):
        assert explored(name, backend, observation, np.int64(3)).shape == ((), (2,))[name == "ddpg"]
        with pytest.raises(ValueError, match=r"^environment_step: found"):
            explored(name, backend, observation, wrong)
        with pytest.raises(ValueError, match=r"^rng: found RandomState; allowed: numpy.random.Generator"):
            explored(name, backend, observation, 0, np.random.RandomState(0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_acting_td_errors_takes_the_batch_that_a_step_takes(backend: str) -> None:
    trainee = learner_of("dqn", backend)
    batch, weights = parts_of("dqn")
    assert trainee.acting_td_errors(batch).shape == (SIZE,)
    for wrong, words in (
        ({"weight": weights}, "batch: found column 'weight'"),
        ({"td_error": weights}, "batch: found column 'td_error'"),
        ({"reward": batch["reward"][:1]}, "reward: found shape"),
        ({"reward": batch["reward"][:, None]}, "reward: found shape"),
        ({"action": batch["action"] - 9}, "action: found values"),
    ):
        with pytest.raises(ValueError, match=rf"^{words}"):
            trainee.acting_td_errors(batch | wrong)


def test_the_columns_in_numpy_are_those_of_the_algorithm() -> None:
    algorithm = make("dqn", torch.float32)
    for name, (shape, dtype) in numpy_columns(algorithm, SIZE).items():
        column = algorithm.columns(SIZE)[name]
        assert (shape, torch.from_numpy(np.zeros(0, dtype)).dtype) == column
