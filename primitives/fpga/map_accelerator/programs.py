"""The stream programs of MAP's accelerator: importance weights, priorities, and Adam's corrections.

Their golden models are `StreamProgram.golden`.
"""

from placerl.primitives.fpga.floating_point.operators import ProgramBuilder, StreamProgram
from placerl.primitives.fpga.learner_pipeline.update_unit import BETA1, BETA2


def weight_program() -> StreamProgram:
    """Return the program of a sample's importance weight, (P_min / P)^beta.

    This is (sum P / (N P))^beta divided by the largest of the batch (Schaul et al. 2015, section 3.4; PAL Algorithm 1,
    line 15), because the sum and N cancel.

    Inputs: P and P_min, the smallest priority of the batch, both as integers; beta. Result: the weight.
    """
    b = ProgramBuilder(3)
    priority, smallest = (b.apply("from_integer", number) for number in range(2))
    ratio = b.apply("log", b.apply("div", smallest, priority))
    return b.finished([b.apply("exp", b.apply("mul", 2, ratio))])


def priority_program() -> StreamProgram:
    """Return the program of a new priority, (|td| + epsilon)^alpha (Schaul et al. 2015, section 3.3).

    Inputs: td, epsilon, alpha. Result: the priority.
    """
    b = ProgramBuilder(3)
    logarithm = b.apply("log", b.apply("add", b.apply("abs", 0), 1))
    return b.finished([b.apply("exp", b.apply("mul", 2, logarithm))])


def corrections_program() -> StreamProgram:
    """Return the program of Adam's corrections for the bias of its moments, step by step.

    Inputs: 1 - beta1^(t-1), 1 - beta2^(t-1), the learning rate r. Results: 1 - beta1^t, 1 - beta2^t, r / (1 - beta1^t)
    and sqrt(1 - beta2^t). The recurrence 1 - beta^t = beta (1 - beta^(t-1)) + (1 - beta) loses no digits, as the
    difference 1 - beta^t would for small t.
    """
    b = ProgramBuilder(3)
    new = [
        b.apply("add", b.apply("mul", b.constant(beta), number), b.constant(1 - beta))
        for number, beta in enumerate((BETA1, BETA2))
    ]
    return b.finished([*new, b.apply("div", 2, new[0]), b.apply("sqrt", new[1])])
