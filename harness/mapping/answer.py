"""States what a prediction means for a user: the choice, its rate, the runner-up, and what would change the answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.store.rows import PredictedRate as StoredRate

ANSWERING = NAMES[Loop.FUSED]
"""The strategy whose choice is the answer, if it chose: it describes the loop of `placerl run`."""
MACHINE = "machine"
"""Name of the note of a row that names the other machine whose times it is, or is made from."""
SAME = 1e-6
"""Relative difference up to which terms add up to the whole."""


@dataclass(frozen=True)
class PredictedRate:
    """The predicted rate of a training under one mapping.

    Attributes:
        mapping: the mapping as text, LEARNER-RMM-STORAGE: what `placerl.compose` and `placerl run` take.
        gps: gradient steps per second.
        low_gps, high_gps: the predictions if every time is at the slow or at the fast end of its 95% interval; both
            `gps` where times are modelled, which have no interval.
    """

    mapping: str
    gps: float
    low_gps: float
    high_gps: float


@dataclass(frozen=True)
class MappingAnswer(PredictedRate):
    """A chosen mapping, with its predicted rate. As text: `lines`.

    Attributes:
        strategy: name of the strategy that chose.
        runner_up: the fastest other mapping by the same model; None if no other was predicted.
        lines: what the choice means, and what would change it, in words.
    """

    strategy: str
    runner_up: PredictedRate | None
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def chosen_of(rows: Sequence[StoredRate], elsewhere: Iterable[StoredRate] = ()) -> MappingAnswer | None:
    """Return the mapping that is the answer to the user; None if no strategy chose one.

    Args:
        rows, elsewhere: as for `answer`, which gives the lines.
    """
    chosen = _chosen(rows)
    if chosen is None:
        return None
    other = _runner_up(chosen, rows)
    second = None if other is None else PredictedRate(*_numbers(other))
    return MappingAnswer(*_numbers(chosen), chosen.strategy, second, tuple(answer(rows, elsewhere)))


def answer(rows: Sequence[StoredRate], elsewhere: Iterable[StoredRate] = ()) -> list[str]:
    """Return the answer to the user, which mapping to use and how fast it is, as lines of text.

    The list is empty if no strategy chose a mapping.

    Args:
        rows: predictions of every strategy for one workload and batch size (`harness.mapping.predict`). The last
            line is the chosen one's note `MACHINE`.
        elsewhere: predictions for the same workload at other batch sizes; those at this batch size are ignored.
    """
    chosen = _chosen(rows)
    if chosen is None:
        return []
    lines = [f"{chosen.strategy} chooses {_rate(chosen)}."]
    if chosen.status == "too_noisy":
        lines.append(f"A run may reach another rate: {chosen.reason}.")
    other = _runner_up(chosen, rows)
    if other is None:
        lines.append("There is no runner-up: no other mapping was predicted.")
    else:
        lines += _against(chosen, other)
    lines += _in_other_loops(chosen, rows)
    lines += _by_batch_size(chosen, elsewhere)
    return [*lines, f"{chosen.notes[MACHINE]}."] if MACHINE in chosen.notes else lines


def _chosen(rows: Iterable[StoredRate]) -> StoredRate | None:
    chosen = [row for row in rows if row.value and row.chosen]
    return next((row for row in chosen if row.strategy == ANSWERING), chosen[0] if chosen else None)


def _runner_up(chosen: StoredRate, rows: Iterable[StoredRate]) -> StoredRate | None:
    others = [row for row in rows if row.strategy == chosen.strategy and row.value and row is not chosen]
    return max(others, key=lambda row: row.value or 0.0, default=None)


def _numbers(row: StoredRate) -> tuple[str, float, float, float]:
    """Return a row's mapping, its rate, and the ends of the rate's interval."""
    assert row.value is not None
    low, high = (row.value if end is None else end for end in (row.low, row.high))
    return row.mapping, row.value, low, high


def _rate(row: StoredRate) -> str:
    interval = ""
    if row.low is not None and row.high is not None and row.low < row.high:  # modelled times have none
        interval = f" ({row.low:,.1f} to {row.high:,.1f})"
    return f"{row.mapping}: {row.value:,.1f} gradient steps/s{interval}"


def _against(chosen: StoredRate, other: StoredRate) -> list[str]:
    """Return the runner-up, and what would make it the choice; or that the model predicts another to be faster."""
    assert chosen.value is not None
    assert other.value is not None
    if other.value > chosen.value * (1 + SAME):
        return [
            f"By the same model {_rate(other)} is faster: {chosen.strategy} does not compare all mappings."
        ]
    lines = [f"Runner-up: {_rate(other)}, {1 - other.value / chosen.value:.1%} less."]
    if abs(other.value - chosen.value) <= SAME * chosen.value:
        return [*lines, "Both are predicted to be equally fast: the strategy's rule for ties decides."]
    if chosen.low is not None and other.high is not None and other.high >= chosen.low:
        lines.append("Their intervals overlap, so that noise alone may change the answer.")
    terms_s = chosen.terms_s or {}
    step_s, more_s = 1 / chosen.value, 1 / other.value - 1 / chosen.value
    if abs(sum(terms_s.values()) - step_s) <= SAME * step_s:  # not if parts overlap
        term, seconds = max(terms_s.items(), key=lambda item: item[1])
        lines.append(
            f"The runner-up would be as fast if {term} took {1 + more_s / seconds:.2f} times its "
            f"{1e6 * seconds:,.1f} us under {chosen.mapping}."
        )
    return lines


_OTHER_LOOPS = {
    Loop.CONCURRENT: (
        "Threads that run free",
        " They keep the ratio of steps, but no two such trainings are equal bit for bit.",
    ),
    Loop.RESIDENT: ("Rounds that stay on the device", ""),
}
"""The loops in which `placerl run` trains only if it is asked: what is predicted, and what else to know."""


def _in_other_loops(chosen: StoredRate, rows: Iterable[StoredRate]) -> list[str]:
    """Return the predictions of loops that are faster than what was chosen, with their commands."""
    assert chosen.value is not None
    return [
        f"{what} are predicted {row.value / chosen.value:.2f} times as fast: {row.value:,.1f} gradient steps/s by "
        f"`placerl run --mapping {row.mapping} --loop {loop}`.{more}"
        for row in rows
        for loop, (what, more) in _OTHER_LOOPS.items()
        if row.strategy == NAMES[loop] and row.chosen and row.value and row.value > chosen.value
    ]


def _by_batch_size(chosen: StoredRate, elsewhere: Iterable[StoredRate]) -> list[str]:
    """Return the choices at other batch sizes: each where it differs from the one before."""
    choices = {
        row.batch_size: row.mapping
        for row in elsewhere
        if row.strategy == chosen.strategy and row.chosen and row.batch_size is not None
    }
    assert chosen.batch_size is not None
    choices[chosen.batch_size] = chosen.mapping
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
