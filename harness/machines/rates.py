"""Rates of a workload's mappings on the machine of a card, composed of times as `placerl map` composes them.

The times are predicted from the card (`predicting`), or were measured there, if a bundle with this card is known.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.core.suites import Suite
from placerl.harness.machines.bundle import Bundle, RunRow
from placerl.harness.machines.card import Card
from placerl.harness.machines.predicting import LeftOut, PredictedTime, Predictor
from placerl.harness.machines.probes import FOOTPRINTS
from placerl.harness.mapping import DEFAULT_STRATEGY, STRATEGIES, Strategy, predict
from placerl.harness.measure.cpu_quota import CpuQuota
from placerl.harness.platforms import (
    PlatformDevice,
    PlatformFile,
    PlatformLink,
    SourcedCount,
    SourcedNumber,
)
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.workloads import Workload

PLATFORM = "card"
"""Name of a card's platform in rows."""
_STRATEGY = {DEFAULT_STRATEGY: STRATEGIES[DEFAULT_STRATEGY]}
_SOURCE = "the machine's card"


def rates(
    workload: Workload,
    batch_size: int,
    card: Card,
    times: Sequence[PieceTime],
    strategies: Mapping[str, Strategy] = _STRATEGY,
) -> Sequence[PredictedRate]:
    """Return the predicted gradient steps per second of each mapping on a card's machine.

    Args:
        times: of the pieces there, as `Times` returns them.
        strategies: by name; by default that of the loop that `placerl run` runs.

    Returns:
        Rows of each strategy, which marks its choice `chosen`. If the times or the card do not suffice for one, a row
        that is not run, with the reason.
    """
    # A predicted call is a measured one that takes longer or shorter: it holds its transfers, which the model adds to
    # the calls of devices that were not measured.
    timed = [replace(row, provenance=Provenance.MEASURED) for row in times]
    found = predict.measurements(workload, batch_size, timed, _platform(card), strategies)
    inputs = weakest(*(row.provenance for row in times))
    share = CpuQuota(card.facts.quota_cores).share
    return [predict.under_load(replace(row, inputs=inputs), share, "") if row.value else row for row in found]


def _platform(card: Card) -> PlatformFile:
    """Return what models need to know of a machine besides times: its cores, and the transfers that its card has."""
    facts, values = card.facts, card.values()
    cores = CpuQuota(facts.quota_cores).whole_cores(facts.usable_cores)
    told = SourcedCount(value=cores, provenance=Provenance.PUBLISHED, source=_SOURCE)

    def gb_s(bytes_per_s: float) -> SourcedNumber:
        return SourcedNumber(value=bytes_per_s / 1e9, provenance=Provenance.MEASURED, source=_SOURCE)

    # The card counts each copied byte twice, where it is read and where it is written.
    copied = values.get(f"copy.{list(FOOTPRINTS)[-1]}")
    host = PlatformDevice(
        key="cpu", kind="cpu", name=facts.cpu, cores=told, memory_gb_s=gb_s(copied / 2) if copied else None
    )
    others, links = [], []
    for kind in ("opencl", "cuda"):
        if speeds := [speed for way in ("upload", "download") if (speed := values.get(f"{kind}.{way}"))]:
            others.append(PlatformDevice(key=kind, kind="gpu", name=kind))
            links.append(PlatformLink(between=("cpu", kind), gb_s=gb_s(min(speeds))))
    return PlatformFile(name=PLATFORM, device=(host, *others), link=tuple(links))


class Times:
    """The times of pieces on machines, from cards.

    Args:
        known: bundles of machines that were measured, at least one.
    """

    def __init__(self, known: Sequence[Bundle]) -> None:
        self._measured = {one.card.hash: one for one in known}
        self._predictor = Predictor(known)

    def on(self, card: Card, workload: str, batch_size: int) -> list[PieceTime]:
        """Return the times of a workload's pieces on the machine of a card.

        They are measured if the card is that of a known bundle which has the workload at this batch size, and else
        modelled. Empty if no known machine has it.
        """

        def asked(row: RunRow) -> bool:
            return (row.workload, row.batch_size) == (workload, batch_size)

        own = self._measured.get(card.hash)
        if own and (rows := [measured_time(row) for row in own.rows if asked(row)]):
            return rows
        return [predicted_time(one) for one in self._predictor.predictions(card) if asked(one.row)]


@dataclass(frozen=True)
class LeftOutRate:
    """A mapping's rate on a known machine, and what the others predict.

    Attributes:
        machine: number of the machine among those known.
        predicted: the rate composed of predicted times.
        measured: the rate composed of the times that were measured there.
    """

    machine: int
    predicted: PredictedRate
    measured: PredictedRate


def leave_one_out(known: Sequence[Bundle], pieces: Iterable[LeftOut]) -> list[LeftOutRate]:
    """Return what the other machines predict for each mapping on each machine.

    Args:
        known: bundles of at least two machines.
        pieces: the predictions of their pieces, as `predicting.leave_one_out` returns them.
    """
    times: dict[tuple[int, str, int], list[PieceTime]] = defaultdict(list)
    for piece in pieces:
        row = piece.predicted.row
        times[piece.machine, row.workload, row.batch_size].append(predicted_time(piece.predicted))
    found = []
    for (machine, name, size), predicted in times.items():
        item, bundle = workloads.load(name), known[machine]
        there = Times([bundle]).on(bundle.card, name, size)
        measured = {row.mapping: row for row in rates(item, size, bundle.card, there) if row.value}
        found += [
            LeftOutRate(machine, row, measured[row.mapping])
            for row in rates(item, size, bundle.card, predicted)
            if row.value and row.mapping in measured
        ]
    return found


def measured_time(row: RunRow) -> PieceTime:
    """Return the time of a bundle's row as a row of the store."""
    return _time(row, Provenance.MEASURED, row.status, row.time_s, row.low_s, row.high_s)


def predicted_time(one: PredictedTime) -> PieceTime:
    """Return a predicted time as a row of the store."""
    return _time(one.row, Provenance.MODELLED, "ok", one.time_s, one.low_s, one.high_s)


def _time(
    row: RunRow, provenance: Provenance, status: str, time_s: float, low_s: float | None, high_s: float | None
) -> PieceTime:
    return PieceTime(
        suite=Suite.PROFILE,
        workload=row.workload,
        primitive=row.primitive,
        backend=row.backend,
        device=row.device,
        target=row.target,
        batch_size=row.batch_size,
        items_per_call=row.items_per_call,
        quantity="time_per_call",
        provenance=provenance,
        status=status,
        reason="" if status == "ok" else "the interval is wide",
        value=time_s,
        low=low_s,
        high=high_s,
        platform=PLATFORM,
    )
