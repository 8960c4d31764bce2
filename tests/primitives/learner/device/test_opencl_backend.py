"""A batch in the device's memory gives the steps that the same batch on the host gives."""

import numpy as np
import pytest

from placerl.primitives import algorithms, learner
from placerl.primitives.device import opencl_runtime
from placerl.primitives.replay import FieldSpec, Storage, device, transition_fields
from placerl.primitives.replay.device import DeviceBatch, DeviceStorage

if reason := opencl_runtime.unavailable_reason():
    pytest.skip(reason, allow_module_level=True)

BATCH_SIZE, CAPACITY = 8, 20
CASES = {
    "dqn": ({"observation_shape": (4,), "action_size": 3}, FieldSpec((), np.int64)),
    "ddpg": ({"observation_shape": (5,), "action_size": 2}, FieldSpec((2,), np.float32)),
}


def learner_of(name: str, backend: str = "opencl") -> learner.Learner:
    algorithm = algorithms.create(name, **CASES[name][0], network={"hidden": [16, 16]})
    return learner.create(algorithm, backend=backend, batch_size=BATCH_SIZE)


def storages(name: str, discount: bool = False) -> tuple[Storage, DeviceStorage]:
    """A host's and a device's storage with the same items."""
    settings, action = CASES[name]
    fields = transition_fields(
        FieldSpec(settings["observation_shape"], np.float32), action, discount=discount
    )
    both = Storage(CAPACITY, fields), DeviceStorage(CAPACITY, fields, device.memory("opencl"))
    for storage in both:
        storage.insert(items(storage, CAPACITY))
    return both


def items(storage: Storage, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    columns = {}
    for name, field in storage.fields.items():
        shape, dtype = (count, *field.shape), np.dtype(field.dtype)
        columns[name] = (
            rng.standard_normal(shape).astype(dtype)
            if dtype.kind == "f"
            else rng.integers(0, 2, shape).astype(dtype)
        )
    return columns


@pytest.mark.parametrize("name", CASES)
def test_steps_agree_bit_by_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host, resident = storages(name)
    first, second = learner_of(name), learner_of(name)
    rng = np.random.default_rng(0)
    weights = rng.random(BATCH_SIZE, dtype=np.float32)
    out = resident.allocate(BATCH_SIZE)
    monkeypatch.setattr(DeviceStorage, "download", lambda *_: pytest.fail("the batch went to the host"))
    for _ in range(4):
        indices = rng.integers(0, CAPACITY, BATCH_SIZE)
        ours = second.step(resident.gather(indices, out), weights)
        theirs = first.step(host.gather(indices), weights)
        np.testing.assert_array_equal(ours.td_errors, theirs.td_errors)
        assert ours.losses == theirs.losses
    for name_, array in first.state_dict().items():
        np.testing.assert_array_equal(second.state_dict()[name_], array)


def test_a_batch_whose_rows_were_overwritten_is_still_learnt() -> None:
    host, resident = storages("dqn")
    indices = np.arange(BATCH_SIZE)
    kept, expected = resident.gather(indices), host.gather(indices)
    resident.insert(items(resident, 3) | {"reward": np.full(3, 9, np.float32)})
    ours, theirs = learner_of("dqn").step(kept), learner_of("dqn").step(expected)
    np.testing.assert_array_equal(ours.td_errors, theirs.td_errors)


@pytest.mark.parametrize("backend", ["native", "torch", "reference"])
def test_other_learners_read_it_from_the_host(backend: str) -> None:
    host, resident = storages("dqn")
    indices = np.arange(BATCH_SIZE)
    ours = learner_of("dqn", backend).step(resident.gather(indices))
    theirs = learner_of("dqn", backend).step(host.gather(indices))
    np.testing.assert_array_equal(ours.td_errors, theirs.td_errors)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("reward", np.nan, "reward: found NaN"),
        ("observation", np.inf, "observation"),
        ("action", 3, "action"),
    ],
)
def test_wrong_values_are_refused_as_on_the_host(column: str, value: float, message: str) -> None:
    _, resident = storages("dqn")
    wrong = items(resident, CAPACITY)
    wrong[column][7] = value
    resident.insert(wrong)
    one = learner_of("dqn")
    before = one.state_dict()
    with pytest.raises(ValueError, match=message):
        one.step(resident.gather(np.arange(BATCH_SIZE)))
    for name, array in before.items():
        np.testing.assert_array_equal(one.state_dict()[name], array)
    one.step(resident.gather(np.full(BATCH_SIZE, 8)))  # the others can be learnt


def test_a_batch_that_does_not_fit_is_refused_as_on_the_host() -> None:
    _, resident = storages("dqn")
    with pytest.raises(ValueError, match="found shape"):
        learner_of("dqn").step(resident.gather(np.arange(BATCH_SIZE + 1)))
    _, discounted = storages("dqn", discount=True)
    with pytest.raises(ValueError, match="discount"):
        learner_of("dqn").step(discounted.gather(np.arange(BATCH_SIZE)))
    with pytest.raises(ValueError, match="at least 0"):
        learner_of("dqn").step(resident.gather(np.arange(BATCH_SIZE)), np.full(BATCH_SIZE, -1, np.float32))


def test_a_learner_has_its_devices_place() -> None:
    _, resident = storages("dqn")
    batch = resident.gather([0])
    assert isinstance(batch, DeviceBatch)
    assert learner_of("dqn").place == batch.place
    assert learner_of("dqn", "native").place is None
