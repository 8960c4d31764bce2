"""The learner on a CUDA device, with the host in C++ in the device's place."""

import pytest

from placerl.primitives import algorithms, learner
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.device import cuda
from placerl.primitives.learner.device import cuda_backend
from tests.primitives.device.kinds import device_of


def test_the_default_device_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    host, opened = device_of("host"), []

    def create(which: int | str) -> object:
        opened.append(which)
        return host

    checked: list[str | int] = []
    monkeypatch.setattr(cuda, "unavailable_reason", lambda: "")
    monkeypatch.setattr(cuda, "check_device", checked.append)
    monkeypatch.setattr(cuda, "create", create)
    algorithm = algorithms.create("dqn", observation_shape=(4,), action_size=2, network={"hidden": [8]})
    for given in ({}, {"device": "0"}):
        one = learner.create(algorithm, backend="cuda", batch_size=4, **given)
        assert (one.backend, one.device, one.place) == ("cuda", "0", host.place)
    assert opened == [0, "0"]
    assert checked == ["0"]


def test_without_a_device_it_says_why() -> None:
    if not (reason := cuda_backend.unavailable_reason()):
        pytest.skip("there is a CUDA device")
    with pytest.raises(BackendUnavailableError) as raised:
        learner.check(backend="cuda")
    assert reason in str(raised.value)
