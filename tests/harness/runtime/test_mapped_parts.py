"""What a mapping names is asked for, before any of it is created; its learner has what was requested.

That is threads, precision and streams.
"""

import re

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import DELAY, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import compose, mapped_parts
from placerl.harness.runtime.learners.streamed import StreamedLearner
from placerl.harness.workloads.custom_task import CustomTask
from placerl.harness.workloads.task import resized
from placerl.primitives import learner as learners
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.fpga.pipeline_executable import PipelineExecutable
from placerl.primitives.quantization import dynamic, fixed_16
from tests.harness.runtime.trainings import replay_training
from tests.marks import needs_opencl

CARTPOLE = workloads.load("cartpole-dqn")
NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")


def test_a_native_learner_computes_with_its_threads_and_no_other_is_told_of_them(monkeypatch, short):
    asked = []

    def create(algorithm, **options):
        asked.append(options)

    monkeypatch.setattr(learners, "create", create)
    for mapping in (NATIVE, TORCH, Mapping.parse("torch:cpu-native-cpu")):
        mapped_parts.learner_of(
            short("cartpole-dqn"), mapping, np.random.SeedSequence(5), Schedule(threads=3)
        )
    mapped_parts.learner_of(short("cartpole-dqn"), NATIVE, np.random.SeedSequence(5))
    seed = int(np.random.SeedSequence(5).generate_state(1)[0])
    assert asked == [
        {"backend": "native", "batch_size": 8, "seed": seed, "threads": 3},
        {"backend": "torch", "batch_size": 8, "seed": seed},
        {"backend": "torch", "device": "cpu", "batch_size": 8, "seed": seed},
        {"backend": "native", "batch_size": 8, "seed": seed, "threads": 1},
    ]


@pytest.mark.parametrize(
    ("error", "allowed"),
    [
        (BackendUnavailableError("needs a compiler"), "needs a compiler"),
        (ValueError("backend: found abacus; allowed: flat, native"), "flat, native"),
        (ValueError("fanout: too small"), "fanout: too small"),
    ],
)
def test_what_a_backend_refuses_is_an_error_of_the_mapping(error, allowed):
    def refuse(*, backend):
        raise error

    with pytest.raises(UserError) as refused:
        mapped_parts.created(NATIVE, "rmm", NATIVE.rmm, refuse)
    assert str(refused.value) == f"native-native-cpu: rmm: found native; allowed: {allowed}"


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ppo"])
def test_a_learner_has_the_precision_of_its_target_and_the_delay_asked_for(short, name):
    def learner_in(precision, **options):
        mapping = Mapping.parse(f"native[{precision}]-native-cpu")
        return mapped_parts.learner_of(short(name), mapping, np.random.SeedSequence(1), Schedule(**options))

    assert learner_in("fixed16").precision == fixed_16()
    assert learner_in("dynamic").precision == dynamic(DELAY)
    assert learner_in("dynamic", delay=5).precision == dynamic(5)
    assert learner_in("dynamic", threads=2).executable.threads == 2
    assert not isinstance(learner_in("float32"), FixedPointLearner)


def test_what_fixed_point_cannot_express_is_an_error_of_the_mapping(short):
    """A batch of one: the products that fixed point goes by are none."""
    mapping = Mapping.parse("native[fixed32]-native-cpu")
    with pytest.raises(UserError, match=r"learner: found native\[fixed32\]; allowed: .*matmul at "):
        mapped_parts.learner_of(resized(short("cartpole-ddpg"), 1), mapping, np.random.SeedSequence(1))


@needs_opencl
def test_streams_are_those_of_the_options(short):
    mapping = Mapping.parse("opencl-native-cpu")
    task = short("cartpole-dqn")
    training = replay_training(task, mapping, batch_size=8, seed=3, schedule=Schedule(streams=2))
    assert isinstance(training.learner, StreamedLearner)
    assert training.learner.updates.parts == (4, 4)
    training.advance(4)
    assert np.isfinite(next(iter(training.learner.parameters().values()))).all()
    training.close()
    alone = mapped_parts.learner_of(task, mapping, np.random.SeedSequence(1))
    assert not isinstance(alone, StreamedLearner)


FPGA = next(status for status in learners.backends() if status.name == "fpga")


@pytest.mark.skipif(not FPGA.available, reason=FPGA.reason)
def test_streams_of_a_simulated_fpga_are_its_pipelines(short):
    mapping, task = Mapping.parse("fpga:u50-native-cpu"), short("cartpole-dqn")
    made = mapped_parts.learner_of(task, mapping, np.random.SeedSequence(1), Schedule(streams=2))
    assert isinstance(made.executable, PipelineExecutable)
    assert (made.executable.design.pipelines, made.executable.design.samples) == (2, 4)
    with pytest.raises(UserError, match="streams: found 3; allowed: 1, 2, 4, 8, which divide a batch of 8"):
        mapped_parts.check_streams(task, mapping, 3)


def test_more_pipelines_than_a_board_holds_are_refused_with_the_resource_that_is_too_small():
    task, mapping = resized(workloads.load("hopper-ddpg"), 256), Mapping.parse("fpga-native-cpu")
    mapped_parts.check_streams(task, mapping, 2)
    with pytest.raises(
        UserError, match=r"streams: found 4; allowed: 1, 2 on the AMD Alveo U200 .* flip-flops of 1,576,320"
    ):
        mapped_parts.check_streams(task, mapping, 4)
    with pytest.raises(UserError, match=r"streams: found 2; allowed: .*learner pipeline for ppo"):
        mapped_parts.check_streams(resized(workloads.load("hopper-ppo"), 256), mapping, 2)


def test_a_step_of_one_s_own_has_no_streams():
    algorithm = CustomAlgorithm(
        observation_shape=(4,), action_size=2, state={}, step=None, policy=None, action_kind="discrete"
    )
    task = CustomTask("mine", None, algorithm, None, None)
    with pytest.raises(UserError, match="streams: found 2; allowed: 1 with a step of your own"):
        mapped_parts.check_streams(task, Mapping.parse("opencl-native-cpu"), 2)


@pytest.mark.parametrize(
    ("mapping", "allowed"),
    [
        ("torch-native-cuda", "cpu"),
        ("native-flat-flat", "cpu"),
        ("native-fpga:u200-fpga:u50", "cpu or fpga:u200"),
        ("fpga:u200-native-fpga:u50", "cpu or fpga:u200"),
    ],
)
def test_data_lies_on_the_host_or_with_a_simulated_learner_or_replay(mapping, allowed):
    with pytest.raises(UserError) as refused:
        mapped_parts.check_storage(Mapping.parse(mapping))
    assert f"allowed: {allowed}" in str(refused.value)
    assert refused.value.field == "storage"
    for fine in ("native-fpga:u200-fpga:u200", "native-fpga:u200-cpu", "fpga-native-fpga"):
        mapped_parts.check_storage(Mapping.parse(fine))
        assert compose.storage_of(CARTPOLE, Mapping.parse(fine)).capacity == CARTPOLE.replay.capacity


def test_what_a_mapping_names_is_looked_for_before_anything_starts(short):
    task = short("cartpole-dqn")
    for mapping in ("native-native-cpu", "torch-reference-cpu", "torch:cpu-flat-cpu"):
        mapped_parts.check(task, Mapping.parse(mapping))
    for field, mapping in (
        ("learner", "abacus-native-cpu"),
        ("rmm", "native-abacus-cpu"),
        ("storage", "native-native-moon"),
    ):
        with pytest.raises(UserError) as refused:
            mapped_parts.check(task, Mapping.parse(mapping))
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("mapping", "options", "words"),
    [
        ("native[fixed32]", {"delay": 5}, "delay: found 5; allowed: gradient steps"),
        ("native", {"delay": 5}, "delay: found 5; allowed: gradient steps"),
        ("native[dynamic]", {"delay": 0}, "delay: found 0; allowed: gradient steps"),
        ("fpga[fixed32]", {}, "learner: found fpga[fixed32]; allowed: fpga"),
        ("abacus[fixed32]", {}, "learner: found abacus[fixed32]"),
    ],
)
def test_what_does_not_go_with_a_precision_is_refused_before_anything_starts(short, mapping, options, words):
    with pytest.raises(UserError, match=re.escape(words)):
        mapped_parts.check(short("cartpole-dqn"), Mapping.parse(f"{mapping}-native-cpu"), **options)


@pytest.mark.parametrize(
    "name", ["cartpole-ddpg", "pendulum-td3", "pendulum-sac", "cartpole-dqn", "cartpole-ppo"]
)
def test_every_algorithm_can_be_trained_in_fixed_point(short, name):
    mapped_parts.check(short(name), Mapping.parse("native[fixed32]-native-cpu"))
