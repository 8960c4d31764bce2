"""A learner is the one that the mapping names, with the threads, the precision and the streams that were requested."""

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import DELAY, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.runtime.learners import creation
from placerl.harness.runtime.learners.streamed import StreamedLearner
from placerl.harness.workloads.custom_task import CustomTask
from placerl.primitives import learner as learners
from placerl.primitives.algorithms.custom import CustomAlgorithm
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.learner.aware_training import FixedPointLearner
from placerl.primitives.learner.fpga.pipeline_executable import PipelineExecutable
from placerl.primitives.quantization import dynamic, fixed_16
from tests.harness.runtime.trainings import replay_training
from tests.marks import needs_opencl

NATIVE, TORCH = Mapping.parse("native-native-cpu"), Mapping.parse("torch-native-cpu")


def test_a_native_learner_computes_with_its_threads_and_no_other_is_told_of_them(monkeypatch, short):
    asked = []

    def create(algorithm, **options):
        asked.append(options)

    monkeypatch.setattr(learners, "create", create)
    for mapping in (NATIVE, TORCH, Mapping.parse("torch:cpu-native-cpu")):
        creation.learner_of(short("cartpole-dqn"), mapping, 8, np.random.SeedSequence(5), threads=3)
    creation.learner_of(short("cartpole-dqn"), NATIVE, 8, np.random.SeedSequence(5))
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
        creation.created(NATIVE, "rmm", NATIVE.rmm, refuse)
    assert str(refused.value) == f"native-native-cpu: rmm: found native; allowed: {allowed}"


@pytest.mark.parametrize("name", ["cartpole-dqn", "cartpole-ppo"])
def test_a_learner_has_the_precision_of_its_target_and_the_delay_asked_for(short, name):
    def made(precision, **options):
        mapping = Mapping.parse(f"native[{precision}]-native-cpu")
        return creation.learner_of(short(name), mapping, 8, np.random.SeedSequence(1), **options)

    assert made("fixed16").precision == fixed_16()
    assert made("dynamic").precision == dynamic(DELAY)
    assert made("dynamic", delay=5).precision == dynamic(5)
    assert made("dynamic", threads=2).executable.threads == 2
    assert not isinstance(made("float32"), FixedPointLearner)


def test_what_fixed_point_cannot_express_is_an_error_of_the_mapping(short):
    """A batch of one: the products that fixed point goes by are none."""
    mapping = Mapping.parse("native[fixed32]-native-cpu")
    with pytest.raises(UserError, match=r"learner: found native\[fixed32\]; allowed: .*matmul at "):
        creation.learner_of(short("cartpole-ddpg"), mapping, 1, np.random.SeedSequence(1))


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
    alone = creation.learner_of(task, mapping, 8, np.random.SeedSequence(1))
    assert not isinstance(alone, StreamedLearner)


FPGA = next(status for status in learners.backends() if status.name == "fpga")


@pytest.mark.skipif(not FPGA.available, reason=FPGA.reason)
def test_streams_of_a_simulated_fpga_are_its_pipelines(short):
    mapping, task = Mapping.parse("fpga:u50-native-cpu"), short("cartpole-dqn")
    made = creation.learner_of(task, mapping, 8, np.random.SeedSequence(1), streams=2)
    assert isinstance(made.executable, PipelineExecutable)
    assert (made.executable.design.pipelines, made.executable.design.samples) == (2, 4)
    with pytest.raises(UserError, match="streams: found 3; allowed: 1, 2, 4, 8, which divide a batch of 8"):
        creation.check_streams(task, mapping, 8, 3)


def test_more_pipelines_than_a_board_holds_are_refused_with_the_resource_that_is_too_small():
    task, mapping = workloads.load("hopper-ddpg"), Mapping.parse("fpga-native-cpu")
    creation.check_streams(task, mapping, 256, 2)
    with pytest.raises(
        UserError, match=r"streams: found 4; allowed: 1, 2 on the AMD Alveo U200 .* flip-flops of 1,576,320"
    ):
        creation.check_streams(task, mapping, 256, 4)
    with pytest.raises(UserError, match=r"streams: found 2; allowed: .*learner pipeline for ppo"):
        creation.check_streams(workloads.load("hopper-ppo"), mapping, 256, 2)


def test_a_step_of_one_s_own_has_no_streams():
    algorithm = CustomAlgorithm(
        observation_shape=(4,), action_size=2, state={}, step=None, policy=None, action_kind="discrete"
    )
    task = CustomTask("mine", None, algorithm, None, None)
    with pytest.raises(UserError, match="streams: found 2; allowed: 1 with a step of your own"):
        creation.check_streams(task, Mapping.parse("opencl-native-cpu"), 8, 2)
