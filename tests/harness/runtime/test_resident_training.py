"""The resident loop as a run: what is refused by name, what a stretch reports, and the rows of a measured run."""

from typing import Any

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import silent
from placerl.harness.loop.schedule import Environments, Fusion, Loop, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.measured_run import Extent, start, train
from placerl.harness.runtime.resident_on_policy import ResidentOnPolicy
from placerl.harness.runtime.resident_training import ResidentTraining
from placerl.harness.runtime.resolve import Resolved, resolve
from placerl.primitives.device import cuda, opencl_runtime
from placerl.primitives.replay.device.resident_uniform import ResidentUniformReplay
from tests.primitives.device.kinds import device_of

ON_OPENCL = "opencl-opencl-opencl"
PPO: dict[str, Any] = {"name": "cartpole-ppo", "mapping": "opencl-native-opencl", "prioritized": False}


def asked(
    name: str = "cartpole-dqn", mapping: str = ON_OPENCL, prioritized: bool = True, **options: Any
) -> Resolved:
    item = workloads.load(name)
    item = workloads.override(item, "replay.capacity", 20_000, "test")
    item = workloads.override(item, "replay.prioritized", prioritized, "test")
    return resolve(Schedule(**options), item, Mapping.parse(mapping), loop=Loop.RESIDENT)


@pytest.fixture
def opencl() -> None:
    if reason := opencl_runtime.unavailable_reason():
        pytest.skip(reason)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mapping": "native-native-cpu"}, "mapping: found native-native-cpu; allowed: one device for all"),
        ({"mapping": "opencl-native-opencl"}, "mapping: found opencl-native-opencl"),
        ({"mapping": "opencl-opencl-cpu"}, "mapping: found opencl-opencl-cpu"),
        (
            {"mapping": "cuda-opencl-cuda"},
            "allowed: .*, such as opencl-opencl-opencl, cuda-cuda-cuda, with --loop",
        ),
        ({"name": "hopper-ddpg"}, "environment.id: found Hopper-v5; allowed: Acrobot-v1, CartPole-v1"),
        ({"mapping": "opencl-native-cpu", "prioritized": False}, "allowed: .*, such as opencl-native-opencl"),
        ({"overlap": 4}, "overlap: found 4; allowed: 0 in the resident loop"),
        ({"fusion": Fusion.STEP}, "fusion: found step; allowed: resident in the resident loop"),
        ({"presampled_batches": 700}, "presampled_batches: found 700; allowed: 0 to replay.capacity"),
        ({"processes": 1}, "processes: found 1; allowed: None with --loop resident"),
        ({"environments": Environments.NATIVE}, "environments: found native; allowed: device with --loop"),
        ({"name": "cartpole-ppo", "prioritized": False}, "mapping: .* such as opencl-native-opencl"),
        (
            {"name": "hopper-ppo", "prioritized": False},
            "environment.id: found Hopper-v5; allowed: Acrobot-v1",
        ),
        (PPO | {"fusion": Fusion.ITERATION}, "fusion: found iteration; allowed: resident in the resident"),
        (PPO | {"processes": 1}, "processes: found 1; allowed: None with --loop resident"),
        (PPO | {"presampled_batches": 1}, "presampled_batches: found 1; allowed: None for PPO"),
    ],
)
def test_what_cannot_stay_on_the_device_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        asked(**given)


def test_the_devices_environments_are_of_this_loop_alone() -> None:
    item, mapping = workloads.load("cartpole-dqn"), Mapping.parse("native-native-cpu")
    with pytest.raises(
        UserError, match="environments: found device; allowed: others without --loop resident"
    ):
        resolve(Schedule(environments=Environments.DEVICE), item, mapping)


@pytest.mark.usefixtures("opencl")
def test_a_stretch_reports_its_steps() -> None:
    training = start(asked(actors=2), seed=1)
    assert isinstance(training, ResidentTraining)
    warm = training.warm_up()
    assert (warm.gradient_steps, warm.environment_steps) == (50, 1050)
    stretch = training.advance(101)  # a round has a step of both environments, and two gradient steps
    assert (stretch.gradient_steps, stretch.environment_steps) == (102, 102)
    assert (training.gradient_steps, training.environment_steps) == (152, 1152)
    assert stretch.losses.keys() == {"q", "mean_q"}
    assert stretch.terms_s == {"round": stretch.wall_s}
    assert warm.episodes[0].episode_return >= 1
    again = start(asked(actors=2), seed=1)
    assert again.warm_up().episodes == warm.episodes
    with pytest.raises(ValueError, match="gradient_steps: found 0"):
        training.advance(0)
    assert training.greedy()(np.zeros(4, np.float32)) in (0, 1)
    training.close()


def test_a_cuda_device_trains_in_the_same_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the host in C++ in the device's place, which the tests of devices compare with CUDA."""
    host = device_of("host")
    monkeypatch.setattr(cuda, "unavailable_reason", lambda: "")
    monkeypatch.setattr(cuda, "create", lambda which: host)
    training = start(asked(mapping="cuda-cuda-cuda"), seed=1)
    assert isinstance(training, ResidentTraining)
    assert (training.learner.backend, training.learner.device) == ("cuda", "0")
    assert training.replay.storage.device is host
    assert training.advance(16).gradient_steps == 16
    ppo = start(asked(**PPO | {"mapping": "cuda-native-cuda"}), seed=1)
    assert isinstance(ppo, ResidentOnPolicy)
    assert (ppo.learner.backend, ppo.advance(1).environment_steps) == ("cuda", 256)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "task", [{"mapping": "cuda-cuda-cuda"}, PPO | {"mapping": "cuda-native-cuda"}], ids=["dqn", "ppo"]
)
def test_a_cuda_device_trains_here(task: dict[str, Any]) -> None:
    device_of("cuda")
    stretch = start(asked(**task), seed=1).advance(64)
    assert stretch.gradient_steps >= 64
    assert all(np.isfinite(list(stretch.losses.values())))


@pytest.mark.usefixtures("opencl")
def test_without_priorities_rows_are_drawn_uniformly() -> None:
    resolved = asked(mapping="opencl-native-opencl", prioritized=False, presampled_batches=2)
    training = start(resolved, seed=1)
    assert isinstance(training.replay, ResidentUniformReplay)
    assert training.replay.ahead == 2
    stretch = training.advance(16)
    assert (stretch.gradient_steps, training.gradient_steps) == (16, 66)
    assert stretch.losses.keys() == {"q", "mean_q"}


@pytest.mark.usefixtures("opencl")
def test_a_stretch_of_ppo_is_whole_iterations() -> None:
    training = start(asked(**PPO, actors=16), seed=1)
    assert isinstance(training, ResidentOnPolicy)
    warm = training.warm_up()
    assert (warm.gradient_steps, warm.environment_steps) == (40, 512)  # 20 epochs of 16 * 32 samples
    stretch = training.advance(41)
    assert (stretch.gradient_steps, stretch.environment_steps) == (80, 1024)
    assert (training.gradient_steps, training.environment_steps) == (120, 1536)
    assert stretch.losses.keys() == {"value", "policy", "kl", "entropy"}
    assert 0 < stretch.terms_s["iteration"] <= stretch.wall_s
    assert start(asked(**PPO, actors=16), seed=1).warm_up().episodes == warm.episodes != []
    assert training.greedy()(np.zeros(4, np.float32)) in (0, 1)
    training.close()


@pytest.mark.usefixtures("opencl")
@pytest.mark.parametrize("task", [{"name": "cartpole-ddpg"}, PPO], ids=["ddpg", "ppo"])
def test_rows_say_in_which_loop_they_were_measured(task: dict[str, Any]) -> None:
    rows = train(asked(**task), 0, Extent(steps=20), silent)
    assert not [row.reason for row in rows if row.status == "failed"]
    assert {row.fusion for row in rows} == {"resident"}
    assert {row.stepped_by for row in rows} == {"device"}
    assert {row.provenance for row in rows} == {"measured"}
