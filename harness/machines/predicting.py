"""Predicts the times of a machine's primitives from its card, with the cards and times of machines that are known.

A piece takes longer on one machine than on another as what bounds it does: its arithmetic, the bandwidth and the
latency of the memory that holds its footprint, calls, the interpreter. How much each of them matters is learnt from the
known machines, for each kind of piece (an operation on a backend):

    log(t there / t here) = sum of w_k log(s_k there / s_k here), with every w_k >= 0, and 1 as their sum

where s_k are seconds of the cards: of an operation, a byte, a load, a call. With few machines the weights stay near
equal ones. The interval follows from the errors that the same rule makes for each known machine when it is left out,
and from a prior where these are few.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import nnls

from placerl.harness import workloads
from placerl.harness.machines.bundle import Bundle, RunRow
from placerl.harness.machines.card import Card
from placerl.harness.machines.probes import FOOTPRINTS
from placerl.harness.machines.work_of import work_of

BOUNDS = ("arithmetic", "bandwidth", "latency", "call", "interpreter", "environment")
PRIOR_WEIGHT = 3e-3
"""Mean squared error of a log ratio that is as bad as weights that differ from equal ones by 1."""
PRIOR_ERROR, PRIOR_MACHINES = 0.15, 2
"""Standard deviation of the log of a prediction without any experience, and the machines that it counts for."""
NEAR = 0.05
"""Difference of cards, as the root mean square of log ratios, within which known machines count alike."""
_SUM_WEIGHT = 1e3
_UNKNOWN_FOOTPRINT = 2**18
_CALLS = {"torch": "call.torch", "flat": "call.torch", "reference": "call.numpy", "binary": "call.numpy"}

Array = npt.NDArray[np.float64]
Key = tuple[str, int, str, str]
Kind = tuple[str, str]


@dataclass(frozen=True)
class PredictedTime:
    """The predicted time of a piece on a machine.

    Attributes:
        row: the piece, as a known machine has it.
        time_s, low_s, high_s: seconds of a call, and the bounds of the 95% interval.
        bounds: how much each of `BOUNDS` counts, with 1 as the sum.
    """

    row: RunRow
    time_s: float
    low_s: float
    high_s: float
    bounds: Mapping[str, float]


def kind_of(row: RunRow) -> Kind:
    """Return the kind of a piece: its operation, such as "sample", and its backend."""
    return row.primitive.split(" ")[0].rpartition(".")[2], row.backend


@lru_cache(maxsize=65_536)
def _footprint(workload: str, batch_size: int, primitive: str) -> int:
    work = work_of(workload, batch_size, primitive)
    return work.footprint_bytes if work else _UNKNOWN_FOOTPRINT


@lru_cache(maxsize=256)
def _environment(workload: str) -> str:
    return f"environment.{workloads.load(workload).environment.id}"


def missing_figures(card: Card) -> list[str]:
    """Return what a card lacks of the figures without which nothing can be predicted: the beginnings of their names."""
    values = card.values()
    at_footprints = [
        kind for kind in ("copy", "latency") if not any(f"{kind}.{text}" in values for text in FOOTPRINTS)
    ]
    return [*(["interpreter"] if "interpreter" not in values else []), *at_footprints]


def slowness(card: Card, row: RunRow) -> Array:
    """Return the logarithms of the seconds that a card states for each of `BOUNDS` of a piece; shape (6,).

    A figure that the card lacks is replaced by the interpreter's, which no card may lack (`missing_figures`).
    """
    values = card.values()
    interpreter = values["interpreter"]
    accelerator = row.device.partition(":")[0]
    on_cpu = accelerator == "cpu"
    by_product = row.backend == "torch" and on_cpu
    arithmetic = (
        "product.float32" if by_product else "multiply_add.float32" if on_cpu else f"{accelerator}.peak"
    )
    call = _CALLS.get(row.backend, "call.native") if on_cpu else f"{accelerator}.launch"
    footprint = _footprint(row.workload, row.batch_size, row.primitive)
    rate = values.get(_environment(row.workload))
    seconds = (
        1 / values.get(arithmetic, 1 / interpreter),
        1 / _at(values, "copy", footprint),
        _at(values, "latency", footprint),
        values.get(call, interpreter),
        interpreter,
        1 / rate if rate else interpreter,
    )
    return np.log(seconds)


def _at(values: Mapping[str, float], name: str, footprint: int) -> float:
    """Return a figure at a footprint in bytes, between those that were measured along straight lines of logarithms."""
    known = [
        (np.log(size), np.log(values[f"{name}.{text}"]))
        for text, size in FOOTPRINTS.items()
        if f"{name}.{text}" in values
    ]
    sizes, figures = zip(*known, strict=True)
    return float(np.exp(np.interp(np.log(footprint), sizes, figures)))


@dataclass(frozen=True)
class _Rule:
    """The rule of a kind of piece: the weights, and the standard deviation of its logarithmic error."""

    weights: Array
    error: float
    machines: int


class Predictor:
    """Predicts from some known machines.

    Args:
        known: their bundles, at least one.
    """

    def __init__(self, known: Sequence[Bundle]) -> None:
        if not known:
            raise ValueError("known: found none; allowed: at least one bundle")
        self._known = known
        self._rows = [{row.key: row for row in one.rows} for one in known]
        self._slowness = [{row.key: slowness(one.card, row) for row in one.rows} for one in known]
        self._keys: dict[Kind, list[Key]] = defaultdict(list)
        for key, row in {key: row for rows in self._rows for key, row in rows.items()}.items():
            self._keys[kind_of(row)].append(key)
        self._rules = {kind: self._rule(keys) for kind, keys in self._keys.items()}

    def predictions(self, card: Card) -> list[PredictedTime]:
        """Return the times of every piece that a known machine has, on the machine of a card."""
        found = []
        for kind, keys in self._keys.items():
            rule = self._rules[kind]
            reach = float(stats.t.ppf(0.975, PRIOR_MACHINES + rule.machines)) * rule.error
            bounds = dict(zip(BOUNDS, rule.weights.tolist(), strict=True))
            for key in keys:
                row = next(rows[key] for rows in self._rows if key in rows)
                log_s = self._log_time(key, slowness(card, row), rule.weights, range(len(self._known)))
                low_s, time_s, high_s = np.exp([log_s - reach, log_s, log_s + reach]).tolist()
                found.append(PredictedTime(row, time_s, low_s, high_s, bounds))
        return found

    def _log_time(self, key: Key, there: Array, weights: Array, sources: Iterable[int]) -> float:
        """Return the log of a piece's time, from known machines that have it; those with similar cards count more."""
        logs, trust = [], []
        for source in sources:
            if key in self._rows[source]:
                ratios = there - self._slowness[source][key]
                logs.append(np.log(self._rows[source][key].time_s) + ratios @ weights)
                trust.append(1 / (NEAR**2 + np.mean(ratios**2)))
        return float(np.average(logs, weights=trust))

    def _rule(self, keys: Sequence[Key]) -> _Rule:
        """Return the rule of the pieces of a kind."""
        every = range(len(self._known))
        squares = []
        for out in every if len(self._known) > 1 else ():
            others = [source for source in every if source != out]
            weights = self._weights(keys, others)
            errors = [
                np.log(self._rows[out][key].time_s)
                - self._log_time(key, self._slowness[out][key], weights, others)
                for key in keys
                if key in self._rows[out] and any(key in self._rows[source] for source in others)
            ]
            if errors:
                squares.append(float(np.mean(np.square(errors))))
        variance = (PRIOR_MACHINES * PRIOR_ERROR**2 + sum(squares)) / (PRIOR_MACHINES + len(squares))
        return _Rule(self._weights(keys, every), float(np.sqrt(variance)), len(squares))

    def _weights(self, keys: Sequence[Key], machines: Sequence[int]) -> Array:
        """Return the weights, which fit the ratios between each two machines best; equal ones from one machine."""
        ratios, times = [], []
        for place, one in enumerate(machines):
            for other in machines[place + 1 :]:
                for key in keys:
                    if key in self._rows[one] and key in self._rows[other]:
                        ratios.append(self._slowness[other][key] - self._slowness[one][key])
                        times.append(np.log(self._rows[other][key].time_s / self._rows[one][key].time_s))
        count = len(BOUNDS)
        scale = 1 / np.sqrt(max(1, len(times)))
        equal = np.full(count, 1 / count)
        left = [np.eye(count) * np.sqrt(PRIOR_WEIGHT), np.full((1, count), _SUM_WEIGHT)]
        right = [equal * np.sqrt(PRIOR_WEIGHT), np.array([_SUM_WEIGHT])]
        if times:
            left.append(np.array(ratios) * scale)
            right.append(np.array(times) * scale)
        weights, _ = nnls(np.vstack(left), np.concatenate(right))
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class LeftOut:
    """A piece's time on a known machine, and what the others predict.

    Attributes:
        machine: number of the machine among those known.
        predicted: the prediction.
        time_s: seconds of a call, measured.
    """

    machine: int
    predicted: PredictedTime
    time_s: float

    @property
    def error(self) -> float:
        """The predicted time over the measured one, minus 1."""
        return self.predicted.time_s / self.time_s - 1

    @property
    def covered(self) -> bool:
        """Whether the interval holds the measured time."""
        return self.predicted.low_s <= self.time_s <= self.predicted.high_s


def leave_one_out(known: Sequence[Bundle]) -> list[LeftOut]:
    """Return what the other machines predict for each piece of each machine; pieces that no other has are left out.

    Args:
        known: bundles of at least two machines.
    """
    found: list[LeftOut] = []
    for number, one in enumerate(known):
        measured = {row.key: row.time_s for row in one.rows}
        predictor = Predictor([other for other in known if other is not one])
        found += (
            LeftOut(number, predicted, measured[predicted.row.key])
            for predicted in predictor.predictions(one.card)
            if predicted.row.key in measured
        )
    return found
