"""The timer of the learner pipeline against the whole pipeline's RTL, and against the closed form."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cycles.learner import Pass, pipeline_cycles, stage_count
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape
from placerl.primitives.fpga.learner_pipeline.pipeline import LearnerPipeline
from placerl.primitives.fpga.learner_pipeline.td_loss import LATENCY
from placerl.primitives.fpga.learner_pipeline.timer import (
    PipelineTimer,
    Topology,
    command_fields,
    topology_of,
)
from placerl.primitives.fpga.learner_pipeline.update_unit import adam_latency
from tests.primitives.fpga.interpreter import interpreted


def timed(work: Pass, *commands: tuple[int, int]) -> list[int]:
    """Cycles of passes of so many samples and update cycles, one after the other on one timer."""
    timer = interpreted(PipelineTimer(topology_of(work)))
    fields = [command_fields(work, samples=samples, update=update) for samples, update in commands]
    given = {name: np.array([each[name] for each in fields]) for name in fields[0]}
    run = timer.run({"commands": given}, {"cycles": len(commands)})
    return [int(cycles) for cycles in run.outputs["cycles"]]


@pytest.mark.parametrize("pipelines", [1, 2, 4])
def test_the_timer_counts_the_cycles_of_a_batch_on_several_pipelines(pipelines: int) -> None:
    batch_size = 8
    samples = batch_size // pipelines
    layers = (LayerShape(2, 3, 1), LayerShape(3, 1, 1))
    pipeline = interpreted(LearnerPipeline(layers, pipelines=pipelines, samples=samples))
    given = {"x": np.zeros((samples, 2), np.int64), "y": np.zeros((samples, 1), np.int64)}
    run = pipeline.run(
        {f"samples_{p}": given for p in range(pipelines)},
        {f"updated_{n}": layer.words for n, layer in enumerate(layers)},
    )
    first = min(int(run.input_cycles[f"samples_{p}"][0]) for p in range(pipelines))
    last = max(int(run.output_cycles[f"updated_{n}"][-1]) for n in range(len(layers)))
    update = max(layer.words for layer in layers) + adam_latency(batch_size)
    assert timed(Pass(layers), (samples, update)) == [last - first]


def layers(draw: Any, name: str, low: int) -> tuple[LayerShape, ...]:
    sizes = st.integers(1, 9)
    shapes = st.builds(lambda i, o, lanes: LayerShape(i, o, min(o, lanes)), sizes, sizes, sizes)
    return tuple(draw(st.lists(shapes, min_size=low, max_size=4), name))


@settings(max_examples=16, deadline=None)
@given(data=st.data())
def test_the_timer_agrees_with_the_closed_form(data: st.DataObject) -> None:
    chain = layers(data.draw, "layers", 1)
    work = Pass(chain, data.draw(st.integers(1, len(chain)), "trained"), layers(data.draw, "target", 0))
    work = replace(work, loss_cycles=data.draw(st.sampled_from([1, LATENCY]), "loss_cycles"))
    if policy := data.draw(st.integers(0, max(1, len(work.target or chain)) - 1), "policy"):
        work = replace(work, policy=policy, trained=work.trained if work.target else policy)
    command = st.tuples(st.integers(1, 20), st.integers(1, 20))
    commands = data.draw(st.lists(command, min_size=1, max_size=3), "samples and update")
    expected = [pipeline_cycles(work, samples=samples) + update for samples, update in commands]
    assert timed(work, *commands) == expected


def test_a_pass_has_as_many_stages_as_its_hardware() -> None:
    shape = LayerShape(4, 4, 1)
    assert stage_count(Pass((shape,) * 3)) == 9  # MAP's 3 L
    for work in (Pass((shape,) * 5, 2), Pass((shape,) * 2, 2, (shape,) * 3)):
        assert topology_of(work).stage_count == stage_count(work)
    with pytest.raises(ValueError, match="trained: found 3; allowed: 1 to 2"):
        Topology(forward=2, trained=3)
