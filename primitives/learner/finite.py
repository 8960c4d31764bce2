"""Report a gradient step whose results are not finite: the learner's state is of no use from then on.

TD errors and losses are known after every step, so that their check costs next to nothing. Adam's second moments, in
which every gradient shows that is not finite or whose square is not, are looked at while they are written (native,
OpenCL) or searched: no result of the step depends on them, and their overflow ends all updates of a parameter. A
parameter that overflows without them, since the learning rate is near the largest number, shows in the next step's
results. The whole state is searched where a loss alone is not finite, and from time to time (`CHECK_INTERVAL`).
"""

from collections.abc import Callable, Mapping
from math import isfinite

import numpy as np

from placerl.primitives.learner.columns import all_finite

CHECK_INTERVAL = 1000
"""Gradient steps between two searches of a learner's state for NaN and infinity."""
_WAY_OUT = (
    "allowed: finite numbers; the state cannot be used any more: continue from an earlier state_dict, with a lower "
    "learning rate, smaller rewards or a limit of the gradients' norm"
)


class NotFiniteError(FloatingPointError, ValueError):
    """A gradient step has given NaN or infinity: a TD error, a loss, or a number of the new state."""


def result_name(output: str) -> str:
    """Return the name of a step graph's output in `StepOutcome`; "" for one that is no result of a gradient step.

    Args:
        output: name of the output, such as `td_error` or `losses/q`.
    """
    if output == "td_error":
        return "td_errors"
    kind, _, name = output.partition("/")
    return f"losses[{name!r}]" if kind == "losses" else ""


def not_finite(gradient_step: int | str, names: str) -> NotFiniteError:
    """Return the error of a gradient step whose results are not finite.

    Args:
        gradient_step: number of the step, counted from 1, or numbers such as "1 to 1000".
        names: what is not finite, such as "losses['q'], td_errors".
    """
    return NotFiniteError(f"gradient step {gradient_step}: {names}: found NaN or infinity; {_WAY_OUT}")


def require_finite(
    gradient_step: int,
    td_errors: np.ndarray,
    losses: Mapping[str, float],
    state: Callable[[], Mapping[str, np.ndarray]],
) -> None:
    """Check the results of a gradient step.

    A loss alone may overflow where the state does not: a sum of rewards of 1e38 does under Huber's loss, whose
    gradients are at most 1. Then the new state decides.

    Args:
        gradient_step: number of the step, counted from 1.
        td_errors: (B,) floats.
        state: returns the arrays of the new state by name; called only where a loss is not finite.

    Raises:
        NotFiniteError: a TD error is NaN or infinite, or a loss and a number of the state are; the message names the
            step and the results.
    """
    wrong = [f"losses[{name!r}]" for name, loss in losses.items() if not isfinite(loss)]
    if not all_finite(td_errors):
        wrong.append("td_errors")
    elif wrong and _all_finite(state()):
        return
    if wrong:
        raise not_finite(gradient_step, ", ".join(wrong))


def require_finite_state(first: int, last: int, leaves: Mapping[str, np.ndarray]) -> None:
    """Check a learner's state.

    Args:
        first, last: numbers of the gradient steps since the last check, counted from 1.
        leaves: arrays of the state by name.

    Raises:
        NotFiniteError: an array of floats holds NaN or infinity; the message names the steps and the array.
    """
    for name, leaf in leaves.items():
        if not _all_finite({name: leaf}):
            steps = f"{first}" if first == last else f"{first} to {last}"
            raise not_finite(steps, f"state[{name!r}]")


def _all_finite(leaves: Mapping[str, np.ndarray]) -> bool:
    return all(all_finite(leaf) for leaf in leaves.values() if leaf.dtype.kind == "f")
