"""Cycles of a pass of a batch through the learner pipeline: by MAP's formula (VI-A2), and of the hardware (the RTL).

The learner pipeline has DP copies of a pipeline of n stages, and each takes PI samples of the batch. MAP's
formula is (PI + n - 1) T_max for the samples, with the time T_max of the slowest stage, plus the sum of DP
size(W) / updates over the layers for the update of the weights W. The RTL of `fpga.learner_pipeline` differs as
follows (`difference_terms`):

- own times: a sample passes a stage in that stage's own time, while MAP uses the slowest stage's time for every
  stage, and only the stages on the longest path are in sequence: gradients run in parallel with the backward path.
- handing over: a sample needs `HANDOVER_CYCLES` more in every forward and backward stage, for the FIFO, the memory's
  answer and the result's register, and `LAST_CYCLES` in the loss (if it takes one cycle) and the gradient together.
  MAP has none.
- policy: an action is the tanh of its sums, which takes `TANH_CYCLES` on the way to the critic, and
  `POLICY_BACK_CYCLES` on the way back to the actor.
- update at once: a word of every pipeline's sums is read in the same cycle and added in a tree, and all layers are
  updated in parallel; MAP adds the DP sums one after another, layer by layer.
- Adam's latency: from the last word of sums to the last new weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placerl.primitives.fpga.learner_pipeline.layer_shape import (
    POLICY_BACK_CYCLES,
    TANH_CYCLES,
    TD_LOSS_CYCLES,
    LayerShape,
)

HANDOVER_CYCLES = 4
LAST_CYCLES = 6


@dataclass(frozen=True)
class Pass:
    """The layers of a pass through the learner pipeline: samples go forward through layers to a loss and errors back.

    The first layers, or all, are trained.

    Attributes:
        layers: layers from the samples to the loss.
        trained: number of trained layers, counted from the samples; 0: all.
        target: layers that compute the loss's targets; empty if the targets come with the samples.
        loss_cycles: cycles from the loss's inputs to its errors. It takes a sample per cycle.
        policy: number of layers of an actor, whose actions go to the critic after it: the first of `target`, or
            without targets the first of `layers`, and then what is trained; 0 if there is none.
    """

    layers: tuple[LayerShape, ...]
    trained: int = 0
    target: tuple[LayerShape, ...] = ()
    loss_cycles: int = 1
    policy: int = 0

    @property
    def trained_layers(self) -> tuple[LayerShape, ...]:
        """The layers whose weights are updated."""
        return self.layers[: self.trained or len(self.layers)]


def gradient_step_passes(
    values: tuple[LayerShape, ...], actor: tuple[LayerShape, ...] = ()
) -> tuple[Pass, ...]:
    """Return the passes of a gradient step: one of DQN; with an actor those of DDPG, the critic's and the actor's.

    Args:
        values: layers of the Q network or of the critic; a target network of the same sizes gives the targets.
        actor: layers of DDPG's actor; empty for DQN.
    """
    count = len(actor)
    trains_values = Pass(values, target=(*actor, *values), loss_cycles=TD_LOSS_CYCLES, policy=count)
    if not actor:
        return (trains_values,)
    return trains_values, Pass((*actor, *values), trained=count, policy=count)


def _forward(layers: Sequence[LayerShape]) -> list[int]:
    return [layer.words for layer in layers]


def stage_cycles(work: Pass) -> dict[str, list[int]]:
    """Return the cycles that a sample takes in each stage of the learner pipeline, by the kind of stage.

    Returns:
        For "target", "forward", "loss", "backward" and "gradient" the cycles of each stage, layer by layer. The first
        layer has no backward stage.
    """
    return {
        "target": _forward(work.target),
        "forward": _forward(work.layers),
        "loss": [1],
        "backward": [layer.blocks * layer.inputs for layer in work.layers[1:]],
        "gradient": _forward(work.trained_layers),
    }


def _ways(work: Pass) -> Iterator[tuple[list[int], int, int]]:
    """Yield every path of a sample to a gradient: the cycles of its stages, of handing it over, and of a policy."""
    times = stage_cycles(work)
    for begin in (times["forward"], times["target"]) if work.target else (times["forward"],):
        for number, gradient in enumerate(times["gradient"]):
            back = times["backward"][number:]
            way = [*begin, *times["loss"], *back, gradient]
            more = work.loss_cycles - 1
            policy = 0
            if work.policy and begin is (times["target"] if work.target else times["forward"]):
                policy = TANH_CYCLES + (0 if work.target else POLICY_BACK_CYCLES)
            yield way, HANDOVER_CYCLES * (len(begin) + len(back)) + LAST_CYCLES + more, policy


def pipeline_cycles(work: Pass, *, samples: int, interval: int = 1) -> int:
    """Return the hardware's cycles from the first sample taken to the start of the update, in closed form.

    A path of stages takes the time of each stage once, and the slowest stage's time, or the interval if that is longer,
    for every further sample. The longest path counts.

    Args:
        interval: cycles after which the pipeline is offered another sample: DP if pipelines get theirs in turn.
    """
    return max(
        sum(way) + handover + policy + (samples - 1) * max(interval, *way)
        for way, handover, policy in _ways(work)
    )


def update_cycles(work: Pass, *, adam_latency: int) -> int:
    """Return the hardware's cycles for the update of all weights after a batch.

    A part of a word of weights is read per cycle, for all layers in parallel.

    Args:
        adam_latency: cycles from reading the last weights to writing the last new weight.
    """
    return max(layer.update_words for layer in work.trained_layers) + adam_latency


def stage_count(work: Pass) -> int:
    """Return the number of stages of a pass, which MAP calls n.

    It is 3 L if all L layers are trained and the loss's targets come with the samples.
    """
    return sum(map(len, stage_cycles(work).values()))


def map_pipeline_cycles(work: Pass, *, samples: int) -> int:
    """Return T_pipeline = (PI + n - 1) T_max, the cycles of PI samples by MAP's formula (VI-A2).

    The result is `modelled`, which means that it comes from a formula. n is the number of stages, and T_max the time
    of the slowest one.
    """
    slowest = max(max(times, default=0) for times in stage_cycles(work).values())
    return (samples + stage_count(work) - 1) * slowest


def map_update_cycles(work: Pass, *, pipelines: int) -> int:
    """Return T_WU, the cycles of the weights' update by MAP's formula (VI-A2).

    It is the sum over the trained layers of DP size(W) / updates; the updates per cycle are MAP's r_WU f. The result is
    `modelled`, which means that it comes from a formula.
    """
    return sum(pipelines * layer.update_words for layer in work.trained_layers)


def map_cycles(work: Pass, *, samples: int, pipelines: int) -> int:
    """Return T_learner = T_pipeline + T_WU, the cycles of one pass by MAP's formula (VI-A2).

    The result is `modelled`, which means that it comes from a formula.
    """
    return map_pipeline_cycles(work, samples=samples) + map_update_cycles(work, pipelines=pipelines)


def difference_terms(work: Pass, *, samples: int, pipelines: int, adam_latency: int) -> dict[str, int]:
    """Return the cycles of the hardware (RTL) beyond MAP's formula, by reason; they add up to the difference.

    Args:
        adam_latency: cycles from the last sums to the last new weight.

    Returns:
        The cycles for "own times" (of each stage), "handing over" (samples from stage to stage), "policy" (tanh),
        "update at once" (of all layers) and "Adam's latency". The top of this module explains them.
    """
    way, handover, policy = max(
        _ways(work), key=lambda item: sum(item[0]) + item[1] + item[2] + (samples - 1) * max(item[0])
    )
    own = sum(way) + (samples - 1) * max(way)
    words = max(layer.update_words for layer in work.trained_layers)
    return {
        "own times": own - map_pipeline_cycles(work, samples=samples),
        "handing over": handover,
        "policy": policy,
        "update at once": words - map_update_cycles(work, pipelines=pipelines),
        "Adam's latency": adam_latency,
    }
