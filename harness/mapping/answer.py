"""States what a prediction means for a user: the choice, its rate, the runner-up, and what would change the answer."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from placerl.harness.core.row import Measurement
from placerl.harness.mapping.base import Loop
from placerl.harness.mapping.strategies.composed_loop import NAMES

ANSWERING = NAMES[Loop.FUSED]
"""The strategy whose choice is the answer, if it chose: it describes the loop of `placerl run`."""
SAME = 1e-6
"""Relative difference up to which terms add up to the whole."""


def answer(rows: Sequence[Measurement], elsewhere: Iterable[Measurement] = ()) -> list[str]:
    """Return the answer to the user, which mapping to use and how fast it is, as lines of text.

    The list is empty if no strategy chose a mapping.

    Args:
        rows: predictions of every strategy for one workload and batch size (`harness.mapping.predict`).
        elsewhere: predictions for the same workload at other batch sizes; those at this batch size are ignored.
    """
    chosen = _chosen(rows)
    if chosen is None:
        return []
    lines = [f"{chosen.backend} chooses {_rate(chosen)}."]
    others = [row for row in rows if row.backend == chosen.backend and row.value and row is not chosen]
    if others:
        lines += _against(chosen, max(others, key=lambda row: row.value or 0.0))
    else:
        lines.append("There is no runner-up: no other mapping was predicted.")
    return lines + _by_batch_size(chosen, elsewhere)


def _chosen(rows: Iterable[Measurement]) -> Measurement | None:
    found = [row for row in rows if row.value and row.details.get("chosen")]
    return next((row for row in found if row.backend == ANSWERING), found[0] if found else None)


def _rate(row: Measurement) -> str:
    interval = ""
    if row.low is not None and row.high is not None and row.low < row.high:  # modelled times have none
        interval = f" ({row.low:,.1f} to {row.high:,.1f})"
    return f"{row.device}: {row.value:,.1f} gradient steps/s{interval}"


def _against(chosen: Measurement, other: Measurement) -> list[str]:
    """Return the runner-up, and what would make it the choice; or that the model predicts another to be faster."""
    assert chosen.value is not None
    assert other.value is not None
    if other.value > chosen.value * (1 + SAME):
        return [
            f"By the same model {_rate(other)} is faster: {chosen.backend} does not compare all mappings."
        ]
    lines = [f"Runner-up: {_rate(other)}, {1 - other.value / chosen.value:.1%} less."]
    if abs(other.value - chosen.value) <= SAME * chosen.value:
        return [*lines, "Both are predicted to be equally fast: the strategy's rule for ties decides."]
    if chosen.low is not None and other.high is not None and other.high >= chosen.low:
        lines.append("Their intervals overlap, so that noise alone may change the answer.")
    terms_s = chosen.details["terms_s"]
    step_s, more_s = 1 / chosen.value, 1 / other.value - 1 / chosen.value
    if abs(sum(terms_s.values()) - step_s) <= SAME * step_s:  # not if parts overlap
        term, seconds = max(terms_s.items(), key=lambda item: item[1])
        lines.append(
            f"The runner-up would be as fast if {term} took {1 + more_s / seconds:.2f} times its "
            f"{1e6 * seconds:,.1f} us under {chosen.device}."
        )
    return lines


def _by_batch_size(chosen: Measurement, elsewhere: Iterable[Measurement]) -> list[str]:
    """Return the choices at other batch sizes: each where it differs from the one before."""
    choices = {
        row.batch_size: row.device
        for row in elsewhere
        if row.backend == chosen.backend and row.details.get("chosen") and row.batch_size is not None
    }
    assert chosen.batch_size is not None
    choices[chosen.batch_size] = chosen.device
    if len(choices) == 1:
        return ["Another batch size may change the choice: `--batch-size N` predicts it."]
    sizes = sorted(choices)
    listed = ", ".join(map(str, sizes))
    changes = [
        f"from batch size {size} on {choices[size]}"
        for before, size in pairwise(sizes)
        if choices[size] != choices[before]
    ]
    if not changes:
        return [f"The choice is the same at batch sizes {listed}."]
    return [f"At batch size {sizes[0]} it is {choices[sizes[0]]}, {', '.join(changes)} (of {listed})."]
