"""Learner, replay and rows of a small task on one device, and the same training by calls of the host."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from placerl.primitives import algorithms
from placerl.primitives.algorithms import Algorithm
from placerl.primitives.device import Device
from placerl.primitives.learner.device.executable import DeviceExecutable
from placerl.primitives.learner.device.resident_steps import ResidentSteps
from placerl.primitives.learner.device.started_steps import check
from placerl.primitives.learner.graph_learner import GraphLearner
from placerl.primitives.replay import (
    FieldSpec,
    LinearSchedule,
    PrioritizedReplay,
    Replay,
    Sample,
    Storage,
    UniformReplay,
    transition_fields,
)
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.resident import ResidentReplay
from placerl.primitives.replay.device.resident_prioritized import Prioritised, ResidentPrioritizedReplay
from placerl.primitives.replay.device.resident_uniform import ResidentUniformReplay
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from tests.primitives.device.philox import uniform

CAPACITY, BATCH_SIZE, KEY = 500, 16, 7 + (9 << 32)
OPTIONS: dict[str, Any] = {"alpha": 0.6, "beta": LinearSchedule(0.4, 1.0, 30), "epsilon": 1e-3}
SHAPES: dict[str, dict[str, Any]] = {
    "dqn": {"observation_shape": (4,), "action_size": 3, "hyperparameters": {"target_interval": 3}},
    "double": {
        "observation_shape": (4,),
        "action_size": 3,
        "hyperparameters": {"double": True, "target_interval": 5, "tau": 0.1, "annealing_steps": 40},
    },
    "ddpg": {"observation_shape": (5,), "action_size": 2},
    "td3": {"observation_shape": (5,), "action_size": 2},
    "sac": {"observation_shape": (5,), "action_size": 2},
}

AnyLearner = TypeVar("AnyLearner", bound=GraphLearner)


def algorithm_of(name: str) -> Algorithm:
    kind = "dqn" if name == "double" else name
    return algorithms.create(kind, **SHAPES[name], network={"hidden": (17, 8)})


def fields_of(algorithm: Algorithm) -> dict[str, FieldSpec]:
    action = FieldSpec((), np.int64)
    if not algorithm.discrete:
        action = FieldSpec((algorithm.action_size,), np.float32)
    observation = FieldSpec(algorithm.observation_shape, np.float32)
    return transition_fields(observation, action, discount=algorithm.n_step)


def learner_on(device: Device, algorithm: Algorithm, kind: type[AnyLearner] = GraphLearner) -> AnyLearner:
    return kind(
        algorithm,
        lambda graphs: DeviceExecutable(graphs, device),
        backend=device.kind,
        device="0",
        batch_size=BATCH_SIZE,
        seed=3,
    )


def items(algorithm: Algorithm, count: int, seed: int) -> dict[str, NDArray[Any]]:
    rng, columns = np.random.default_rng(seed), {}
    for name, field in fields_of(algorithm).items():
        shape, dtype = (count, *field.shape), np.dtype(field.dtype)
        if dtype.kind == "f":
            columns[name] = rng.uniform(-1, 1, shape).astype(dtype)
        else:
            columns[name] = rng.integers(0, 2 if dtype.kind == "b" else algorithm.action_size, shape).astype(
                dtype
            )
    return columns


def replay_on(
    learner: GraphLearner, capacity: int = CAPACITY, *, uniformly: bool = False, ahead: int = 0
) -> ResidentReplay:
    """Return an empty replay for a learner, on its device and, if it draws no batch ahead, its stream."""
    executable = check(learner)
    own: dict[str, Any] = {"seed": KEY, "stream": None if ahead else executable.stream, "ahead": ahead}
    device = executable.device
    storage = DeviceStorage(capacity, fields_of(learner.algorithm), device)
    if uniformly:
        return ResidentUniformReplay(storage, BATCH_SIZE, **own)
    tree = DeviceSumTree(capacity, 16, np.float32, device)
    return ResidentPrioritizedReplay(tree, storage, BATCH_SIZE, Prioritised(**OPTIONS), **own)


class Resident:
    """A training whose steps stay on the device."""

    def __init__(
        self, device: Device, algorithm: Algorithm, *, uniformly: bool = False, ahead: int = 0, **options: Any
    ) -> None:
        self.learner: GraphLearner = learner_on(device, algorithm)
        self.executable = check(self.learner)
        self.replay = replay_on(self.learner, uniformly=uniformly, ahead=ahead)
        self.steps = ResidentSteps(self.replay, self.learner, **options)

    def drawn(self, variant: str) -> dict[str, NDArray[Any]]:
        """Return the numbers that the last step drew for its algorithm, by the names of its inputs."""
        return {
            name: self.executable.stream.download(part.buffer, (BATCH_SIZE, 2), np.float32, part.offset_bytes)
            for name, part in self.executable.inputs(variant).items()
            if name.startswith("draws/")
        }


class CountedTree(DeviceSumTree):
    """A sum tree whose `sample` draws the numbers that a resident replay draws."""

    steps = 0

    def sample(self, batch_size: int, rng: object, stratified: bool = False) -> NDArray[np.int64]:
        self.steps += 1
        prefix = uniform(batch_size, self.steps - 1, KEY) * self.total
        return self.find(np.minimum(prefix, np.nextafter(self.total, 0.0)))


class CountedNumbers(np.random.Generator):
    """A generator whose rows of a batch are those that a resident uniform replay draws."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))
        self.steps = 0

    def integers(self, high: int, size: int) -> NDArray[np.int64]:  # type: ignore[override]
        self.steps += 1
        return (uniform(size, self.steps - 1, KEY) * high).astype(np.int64)


class DrawnLearner(GraphLearner):
    """A learner whose step draws given numbers, `drawn`, by the names of its inputs."""

    drawn: Mapping[str, NDArray[Any]]

    def _inputs(self, batch: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {f"batch/{name}": array for name, array in batch.items()} | dict(self.drawn)


class Strict:
    """The same training in the strict loop: every part is a call of the host, with kernels of the same device."""

    def __init__(
        self, device: Device, algorithm: Algorithm, *, uniformly: bool = False, ahead: int = 0
    ) -> None:
        self.learner = learner_on(device, algorithm, DrawnLearner)
        storage = Storage(CAPACITY, fields_of(algorithm))
        tree = CountedTree(CAPACITY, 16, np.float32, device)
        self.replay: Replay = (
            UniformReplay(storage) if uniformly else PrioritizedReplay(storage, tree, **OPTIONS)
        )
        self.numbers, self.ahead, self.inserted = CountedNumbers(), ahead, 0
        self.waiting: list[tuple[Sample, int]] = []

    def insert(self, transitions: Mapping[str, NDArray[Any]]) -> None:
        self.replay.insert(transitions)
        self.inserted += len(transitions["reward"])

    def step(self, drawn: Mapping[str, NDArray[Any]]) -> dict[str, float]:
        """Take a gradient step with these draws, and return its losses."""
        self.learner.drawn = drawn
        while len(self.waiting) <= self.ahead:
            self.waiting.append((self.replay.sample(BATCH_SIZE, self.numbers), self.inserted))
        sample, inserted_then = self.waiting.pop(0)
        outcome = self.learner.step(sample.batch, sample.weights)
        age = (self.inserted - 1 - sample.indices) % CAPACITY
        intact = age >= self.inserted - inserted_then  # the others were overwritten
        self.replay.update_priorities(sample.indices[intact], outcome.td_errors[intact])
        return outcome.losses
