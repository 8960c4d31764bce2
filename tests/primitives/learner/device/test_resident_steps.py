"""Resident gradient steps are the strict loop's, and the host neither waits for them nor allocates."""

from typing import Any

import numpy as np
import pytest

from placerl.primitives import learner
from placerl.primitives.learner.device.resident_steps import ResidentSteps
from placerl.primitives.learner.device.started_steps import check, kernel_source
from placerl.primitives.learner.finite import NotFiniteError
from placerl.primitives.replay import FieldSpec
from placerl.primitives.replay.device import DeviceStorage
from placerl.primitives.replay.device.resident_prioritized import ResidentPrioritizedReplay
from placerl.primitives.sum_tree.gpu.device_tree import DeviceSumTree
from tests.primitives.device.kinds import device_of, every_kind_with_barriers
from tests.primitives.device.nvrtc import compile_cubin
from tests.primitives.device.philox import philox
from tests.primitives.device.recording import Counts, RecordingDevice
from tests.primitives.learner.device.resident_parts import (
    BATCH_SIZE,
    CAPACITY,
    KEY,
    SHAPES,
    Resident,
    Strict,
    algorithm_of,
    fields_of,
    items,
    learner_on,
)
from tests.primitives.learner.device.test_source import TRAINED_ON


@every_kind_with_barriers
@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, {}) for name in SHAPES),
        ("dqn", {"uniformly": True}),
        ("double", {"ahead": 1}),
        ("td3", {"ahead": 3}),
    ],
)
def test_a_training_is_that_of_the_strict_loop_bit_by_bit(kind: str, name: str, how: dict[str, Any]) -> None:
    device, algorithm = device_of(kind), algorithm_of(name)
    strict, resident = Strict(device, algorithm, **how), Resident(device, algorithm, **how)
    for number in range(40):
        if number % 8 == 0:  # the last insertions overwrite the first items
            inserted = items(algorithm, 150, number)
            strict.insert(inserted)
            resident.steps.insert(inserted)
        resident.steps.run(1)
        losses = strict.step(resident.drawn(algorithm.variant(number)))
        assert resident.steps.losses == losses
    expected, found = strict.learner.state_dict(), resident.learner.state_dict()
    expected.pop("generator"), found.pop("generator")
    for leaf, values in expected.items():
        np.testing.assert_array_equal(found[leaf], values, err_msg=leaf)
    if isinstance(resident.replay, ResidentPrioritizedReplay):
        every = np.arange(CAPACITY)
        np.testing.assert_array_equal(resident.replay.tree.get(every), strict.replay.tree.get(every))


@every_kind_with_barriers
@pytest.mark.parametrize("name", ["double", "td3"])
def test_many_steps_of_a_graph_are_those_of_one(kind: str, name: str) -> None:
    device, algorithm = device_of(kind), algorithm_of(name)
    one, many = Resident(device, algorithm, steps_a_graph=1), Resident(device, algorithm, steps_a_graph=7)
    for seed in range(3):
        for resident in (one, many):
            resident.steps.insert(items(algorithm, 100, seed))
            resident.steps.run(20)
        assert one.steps.losses == many.steps.losses
    for leaf, values in one.learner.state_dict().items():
        np.testing.assert_array_equal(many.learner.state_dict()[leaf], values, err_msg=leaf)


def test_trainings_on_opencl_agree_with_host_cpp() -> None:
    for name in ("double", "sac"):
        algorithm = algorithm_of(name)
        first, second = (Resident(device_of(kind), algorithm) for kind in ("host", "opencl"))
        for resident in (first, second):
            resident.steps.insert(items(algorithm, 300, 0))
            resident.steps.run(30)
        found = second.steps.losses
        for loss, value in first.steps.losses.items():
            assert found[loss] == pytest.approx(value, rel=1e-4, abs=1e-5), (name, loss)


@every_kind_with_barriers
@pytest.mark.parametrize("name", SHAPES)
def test_no_round_trip_and_no_allocation_in_a_gradient_step(kind: str, name: str) -> None:
    device, algorithm = RecordingDevice(device_of(kind)), algorithm_of(name)
    resident = Resident(device, algorithm, steps_a_graph=10)
    resident.steps.insert(items(algorithm, 100, 0))
    resident.steps.run(30)  # of every variant's graphs
    device.counts.reset()
    resident.steps.run(30)
    assert device.counts == Counts(replays=3)


@every_kind_with_barriers
def test_draws_are_standard_normal_numbers_of_a_counter(kind: str) -> None:
    resident = Resident(device_of(kind), algorithm_of("sac"))
    resident.steps.insert(items(resident.learner.algorithm, 100, 0))
    resident.steps.run(3)
    drawn = [*resident.drawn("full").values()]
    for number, found in enumerate(drawn, 1):
        counters = [(item, number, 2, 0) for item in range(2 * BATCH_SIZE)]
        words = philox(counters, KEY)[:, :2].astype(np.float64)
        radius = np.sqrt(-2 * np.log((words[:, 0] + 1) / 2**32))
        expected = radius * np.cos(2 * np.pi * words[:, 1] / 2**32)
        np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-4, atol=1e-5)
    assert len(drawn) == 2


def test_two_objects_on_one_learner_draw_the_numbers_of_one() -> None:
    alone, first = (Resident(device_of("host"), algorithm_of("sac")) for _ in range(2))
    second = ResidentSteps(first.replay, first.learner)
    for resident in (alone, first):
        resident.steps.insert(items(resident.learner.algorithm, 100, 0))
    alone.steps.run(4)
    for steps, count in ((first.steps, 1), (second, 2), (first.steps, 1)):
        steps.run(count)
    for found, expected in (
        (first.drawn("full"), alone.drawn("full")),
        (first.learner.state_dict(), alone.learner.state_dict()),
    ):
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)


def test_losses_are_means_since_they_were_read() -> None:
    one, many = (Resident(device_of("host"), algorithm_of("ddpg")) for _ in range(2))
    for resident in (one, many):
        assert resident.steps.losses == {}
        resident.steps.insert(items(resident.learner.algorithm, 100, 0))
    each = []
    for _ in range(5):
        one.steps.run(1)
        each.append(one.steps.losses["critic"])
    many.steps.run(5)
    assert many.steps.losses["critic"] == pytest.approx(np.mean(each), rel=1e-12)
    assert many.steps.losses["critic"] == pytest.approx(np.mean(each), rel=1e-12)
    assert many.learner.gradient_steps == 5


@every_kind_with_barriers
@pytest.mark.parametrize("uniformly", [False, True])
def test_numbers_that_are_not_finite_are_told(kind: str, uniformly: bool) -> None:
    algorithm = algorithm_of("dqn")
    resident = Resident(device_of(kind), algorithm, uniformly=uniformly)
    resident.steps.insert(items(algorithm, 100, 0))
    resident.steps.run(2)
    state = resident.learner.state_dict()
    resident.learner.load_state_dict(state | {"q/0.bias": np.full_like(state["q/0.bias"], np.inf)})
    resident.steps.run(2)
    with pytest.raises(NotFiniteError, match="gradient step 1 to 4: td_errors: found NaN"):
        resident.steps.drain()
    resident.steps.insert(items(algorithm, 100, 0))  # which says nothing of what was told


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [("reward", np.nan, "reward: found NaN"), ("action", 3, r"action: found values in \[.*, 3\]")],
)
def test_wrong_items_are_not_inserted(column: str, value: float, message: str) -> None:
    algorithm = algorithm_of("dqn")
    resident = Resident(device_of("host"), algorithm)
    wrong = items(algorithm, 10, 0)
    wrong[column][4] = value
    with pytest.raises(ValueError, match=message):
        resident.steps.insert(wrong)
    with pytest.raises(ValueError, match="found no item to draw"):
        resident.steps.run(1)


def test_what_cannot_stay_on_the_device_is_refused() -> None:
    device, algorithm = device_of("host"), algorithm_of("dqn")
    for backend in ("native", "torch"):
        with pytest.raises(TypeError, match=f"found backend '{backend}'"):
            check(learner.create(algorithm, backend=backend, batch_size=BATCH_SIZE))
    one = learner_on(device, algorithm)

    def replay(
        batch_size: int = BATCH_SIZE, stream: Any = None, ahead: int = 0, **fields: FieldSpec
    ) -> ResidentPrioritizedReplay:
        tree = DeviceSumTree(CAPACITY, 16, np.float32, device)
        rows = DeviceStorage(CAPACITY, fields_of(algorithm) | fields, device)
        stream = stream or check(one).stream
        return ResidentPrioritizedReplay(tree, rows, batch_size, ahead=ahead, stream=stream)

    for wrong, message in (
        (replay(stream=device.stream()), "found a stream of its own"),
        (replay(ahead=1), "found the learner's stream; allowed: one of its own"),
        (replay(batch_size=5), "found batch_size 5; allowed: the learner's, 16"),
        (replay(reward=FieldSpec((2,), np.float32)), r"column 'reward' of \(2,\) float32"),
        (replay(discount=FieldSpec((), np.float32)), "found column 'discount'"),
    ):
        with pytest.raises(ValueError, match=message):
            ResidentSteps(wrong, one)


@pytest.mark.parametrize("architecture", TRAINED_ON)
def test_compiles_for_cuda(architecture: str) -> None:
    cubin = compile_cubin(kernel_source(), architecture)
    assert b".text.draw_numbers" in cubin
    assert b".text.end_step" in cubin
