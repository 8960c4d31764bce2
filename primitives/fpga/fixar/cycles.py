"""The cycles of a training step on the accelerator, from its program: what the hardware takes, as the tests check.

The sequencer's cycles depend on no data, so that a step's are a constant (Adam) and a constant for each group. It
counts on a link that has every line ready, and takes every result at once. Where Adam runs alongside the next loop, a
step is one of several that follow each other at once.
"""

from placerl.primitives.fpga.fixar.engine import PassKind, pass_latency
from placerl.primitives.fpga.fixar.parameters import UPDATE_LATENCY
from placerl.primitives.fpga.fixar.program import ScalarFunction, SequencerStep, StepKind, act, train
from placerl.primitives.fpga.fixar.shape import CODES, FixarShape, group_size, groups_of

SCALAR_CYCLES = 3  # of each result of the scalar unit


def step_cycles(shape: FixarShape, batch: int, *, halves: bool, overlap: bool = False) -> dict[str, int]:
    """Return the cycles of a training step by part, from the command to the end of the last update.

    Args:
        batch: B, a multiple of the group's samples.
        halves: whether activations have 16 bits, so that four samples pass forward at once, not two.
        overlap: whether Adam runs alongside the next loop; "adam" is then for how long the sequencer waits for it.

    Returns:
        "products": cycles in which the cores get a block; "drains": until a pass's last results are stored; "samples":
        lines from the host and results to it; "scalars": tanh and errors; "adam"; "control": one cycle for the
        command, and for each instruction.
    """
    groups = groups_of(batch, halves=halves)
    parts = dict.fromkeys(("products", "drains", "samples", "scalars", "adam", "control"), 0)
    parts["control"] = 1
    updates, loops = [], [1]
    for step in train(shape):
        times = (
            1 if step.operation in (StepKind.UPDATE, StepKind.END) else groups * _parts(step, halves=halves)
        )
        parts["control"] += times
        took = _cycles(step, shape, group_size(halves=halves))
        for name, cycles in took.items():
            parts[name] += times * cycles
        if step.operation == StepKind.UPDATE:
            updates.append(took["adam"])
            loops.append(0)
        else:
            loops[-1] += times * (1 + sum(took.values()))
    if overlap:
        # The critic's goes on in the second loop, the actor's at the end of the step and in the next one's first loop.
        alongside = (loops[1], loops[2] + loops[0])
        parts["adam"] = sum(
            1 + max(0, cycles - 2 - loop) for cycles, loop in zip(updates, alongside, strict=True)
        )
    return parts


def forward_cycles(shape: FixarShape, batch: int, *, halves: bool) -> int:
    """Return the cycles of a training step in which the cores get a block of a forward pass, of all of "products".

    Args:
        batch: B, a multiple of the group's samples.
        halves: whether activations have 16 bits, so that four samples pass forward at once, not two.
    """
    passes = [
        step
        for step in train(shape)
        if step.operation == StepKind.PASS and step.fields["kind"] == PassKind.FORWARD
    ]
    cycles = sum(_cycles(step, shape, group_size(halves=halves))["products"] for step in passes)
    return groups_of(batch, halves=halves) * cycles


def act_cycles(shape: FixarShape) -> int:
    """Return the cycles of an action for one state, from the command to its end."""
    return 1 + sum(1 + sum(_cycles(step, shape, 1).values()) for step in act(shape))


def _parts(step: SequencerStep, *, halves: bool) -> int:
    """Return how often an instruction runs for a group: passes with errors take four samples in two parts."""
    split = step.operation == StepKind.PASS and step.fields["kind"] != PassKind.FORWARD
    return CODES if halves and split else 1


def _cycles(step: SequencerStep, shape: FixarShape, samples: int) -> dict[str, int]:
    kind, fields = step.operation, step.fields
    if kind == StepKind.PASS:
        blocks = (fields["outer"] - fields.get("skip", 0)) * fields["inner"]
        return {"products": blocks, "drains": pass_latency(shape.side)}
    if kind == StepKind.SCALAR:
        products = 2 if step.function == ScalarFunction.TANH_BACK else 1
        return {"scalars": SCALAR_CYCLES * products * step.count * samples}
    if kind == StepKind.UPDATE:
        blocks = shape.actor_blocks if step.actor else shape.critic_blocks
        return {"adam": blocks * shape.side + UPDATE_LATENCY + 1}
    if kind == StepKind.READ_STATES:
        return {"samples": samples * -(-shape.state // shape.side)}
    if kind in (StepKind.READ_ACTIONS, StepKind.READ_OUTCOMES, StepKind.SEND_ERRORS, StepKind.SEND_ACTION):
        return {"samples": samples}
    return {}
