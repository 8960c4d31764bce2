"""A learner on MAP's pipeline: float32 numbers, the pipeline's cycles."""

import numpy as np
import pytest
import torch

from placerl.primitives import learner
from placerl.primitives.graph.interpreter import ReferenceExecutable
from placerl.primitives.learner.fpga import fpga_backend, pipeline, pipeline_executable
from placerl.primitives.learner.fpga.pipeline_executable import PipelineExecutable
from tests.primitives.learner.graph_cases import make, random_batch

if reason := fpga_backend.unavailable_reason():
    pytest.skip(reason, allow_module_level=True)

BATCH_SIZE = 8


def learner_of(name: str = "ddpg", **options: object) -> learner.Learner:
    return learner.create(make(name, torch.float32), backend="fpga", batch_size=BATCH_SIZE, **options)


def batch() -> dict[str, np.ndarray]:
    columns = random_batch(make("ddpg", torch.float32), BATCH_SIZE, torch.Generator().manual_seed(1))
    return {name: value.numpy() for name, value in columns.items() if name != "weight"}


def test_its_numbers_are_the_reference_s() -> None:
    one = learner_of(design="pipeline")
    reference = learner.create(make("ddpg", torch.float32), backend="reference", batch_size=BATCH_SIZE)
    assert isinstance(one.executable, PipelineExecutable)
    np.testing.assert_array_equal(one.step(batch()).td_errors, reference.step(batch()).td_errors)


def test_cycles_are_the_step_s_times_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    design = pipeline.best_design(
        make("ddpg", torch.float32), BATCH_SIZE, fpga_backend.catalogue.device("u50")
    )
    asked: list[tuple] = []

    def step(*arguments: object) -> pipeline.PipelineStep:
        asked.append(arguments)
        return pipeline.PipelineStep(design, {"critic": 100, "actor": 23}, {})

    monkeypatch.setattr(pipeline_executable.pipeline, "gradient_step", step)
    one = learner_of(device="u50", design="pipeline")
    assert (one.executable.cycles, asked) == (0, []), "nothing is simulated before a step"
    for count in (1, 2, 3):
        one.step(batch())
        assert one.executable.cycles == count * 123
    assert len(asked) == 1
    assert asked[0][1:] == (BATCH_SIZE, fpga_backend.catalogue.device("u50"), design.pipelines)
    assert one.executable.clock_hz == fpga_backend.DEVICES["u50"]


def test_it_refuses_what_the_pipeline_does_not_run() -> None:
    with pytest.raises(ValueError, match="needs a learner pipeline for sac"):
        learner_of("sac", design="pipeline")
    assert issubclass(PipelineExecutable, ReferenceExecutable)
