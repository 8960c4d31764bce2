"""What the sequencer does: programs of instructions for a DDPG update and for an action (FIX III, Fig. 3).

An update has two loops over the batch, a group of samples each time. The first trains the critic, the second trains
the actor through the updated critic; the host sends the samples' states twice, because the activation memory holds
one group. Adam follows each loop.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from placerl.primitives.fpga.fixar.engine import PassKind
from placerl.primitives.fpga.fixar.shape import FixarShape, LayerPlace


class StepKind(IntEnum):
    """What an instruction does; the sequencer's states have the same names."""

    PASS = 0  # the engine runs a pass
    READ_STATES = 1  # lines of states, of each sample of the group
    READ_ACTIONS = 2  # a line with the action, of each sample
    READ_OUTCOMES = 3  # a line with reward, discount and the weight of the loss, of each sample
    SCALAR = 4  # a function of each sample, and of each element of its action
    SEND_ERRORS = 5  # temporal difference errors
    SEND_ACTION = 6
    UPDATE = 7  # Adam
    LOOP = 8  # back to `target` until all groups are done
    END = 9


class ScalarFunction(IntEnum):
    """Functions of the scalar unit."""

    TANH = 0  # action = tanh(output)
    GOAL = 1  # goal = reward + discount x output
    ERROR = 2  # error = goal - output; output error = -error x weight of the loss
    ASCEND = 3  # output error = -1 / B
    TANH_BACK = 4  # output error = input error x (1 - action^2)
    EXPLORE = 5  # action = action + noise, limited


@dataclass(frozen=True)
class SequencerStep:
    """An instruction.

    Attributes:
        operation: what it does.
        fields: of a pass, by name (`engine.pass_layout`).
        function: of a scalar instruction.
        count: elements of a scalar instruction.
        actor: whether Adam updates the actor, not the critic.
        target: position in the program, of a loop.
    """

    operation: StepKind
    fields: dict[str, int] = field(default_factory=dict)
    function: ScalarFunction = ScalarFunction.TANH
    count: int = 1
    actor: bool = False
    target: int = 0


def _pass(shape: FixarShape, layer: LayerPlace, kind: PassKind, **options: int) -> SequencerStep:
    signs = shape.lines if layer.critic else 0
    at_start, at_end = layer.read_line == 0, layer.write_line is None
    fields = {
        "kind": kind,
        "base": layer.base,
        "outer": layer.out_blocks,
        "inner": layer.in_blocks,
        "stride": 1,
        "outer_stride": layer.in_blocks,
        "inputs": layer.inputs,
        "read_line": layer.read_line,
        "error_line": layer.write_line or 0,
        "write_line": layer.write_line or 0,
        "at_start": at_start,
        "at_end": at_end,
        "actions": at_start and layer.critic,
        "scale": layer.scale,
        "write_scale": 0 if at_end else layer.scale + (1 if layer.scale else (3 if layer.critic else 1)),
        "mask_line": signs + (layer.write_line or 0),
    }
    if kind == PassKind.BACKWARD:
        first = shape.state // shape.side if at_start else 0
        inputs = -(-layer.inputs // shape.side)  # no error goes to the bias
        back = {
            "base": layer.base + first,
            "skip": first,
            "outer": inputs,
            "inner": layer.out_blocks,
            "stride": layer.in_blocks,
            "outer_stride": 1,
            "write_line": layer.read_line,
            "mask_line": signs + layer.read_line,
        }
        fields |= back
    return SequencerStep(StepKind.PASS, {**{name: int(value) for name, value in fields.items()}, **options})


def _forward(shape: FixarShape, layers: tuple[LayerPlace, ...], **options: int) -> list[SequencerStep]:
    return [_pass(shape, layer, PassKind.FORWARD, **options) for layer in layers]


def _backward(shape: FixarShape, layers: tuple[LayerPlace, ...]) -> list[SequencerStep]:
    """Return the passes that add the gradients of a network, from its last layer to its first."""
    passes = []
    for layer in reversed(layers):
        passes.append(_pass(shape, layer, PassKind.GRADIENT))
        if layer.read_line:
            passes.append(_pass(shape, layer, PassKind.BACKWARD))
    return passes


def _scalar(function: ScalarFunction, count: int = 1) -> SequencerStep:
    return SequencerStep(StepKind.SCALAR, function=function, count=count)


def train(shape: FixarShape) -> list[SequencerStep]:
    """Return the program of a DDPG update."""
    one = SequencerStep
    tanh = _scalar(ScalarFunction.TANH, shape.action)
    critic = [
        one(StepKind.READ_STATES),
        *_forward(shape, shape.actor, target=1),
        tanh,
        *_forward(shape, shape.critic, target=1),
        one(StepKind.READ_OUTCOMES),
        _scalar(ScalarFunction.GOAL),
        one(StepKind.READ_STATES),
        one(StepKind.READ_ACTIONS),
        *_forward(shape, shape.critic),
        _scalar(ScalarFunction.ERROR),
        one(StepKind.SEND_ERRORS),
        *_backward(shape, shape.critic),
        one(StepKind.LOOP, target=0),
        one(StepKind.UPDATE, actor=False),
    ]
    through = [_pass(shape, layer, PassKind.BACKWARD) for layer in reversed(shape.critic)]
    actor = [
        one(StepKind.READ_STATES),
        *_forward(shape, shape.actor),
        tanh,
        *_forward(shape, shape.critic, scratch=1),
        _scalar(ScalarFunction.ASCEND),
        *through,
        _scalar(ScalarFunction.TANH_BACK, shape.action),
        *_backward(shape, shape.actor),
        one(StepKind.LOOP, target=len(critic)),
        one(StepKind.UPDATE, actor=True),
        one(StepKind.END),
    ]
    return [*critic, *actor]


def act(shape: FixarShape) -> list[SequencerStep]:
    """Return the program that gives the action for one state, with noise for exploration."""
    return [
        SequencerStep(StepKind.READ_STATES),
        *_forward(shape, shape.actor),
        _scalar(ScalarFunction.TANH, shape.action),
        _scalar(ScalarFunction.EXPLORE, shape.action),
        SequencerStep(StepKind.SEND_ACTION),
        SequencerStep(StepKind.END),
    ]
