"""The calls from which a validation predicts: the pieces of the loop, how they are timed, and their rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.recorder import PIECE_S
from placerl.harness.mapping import Problem
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.measure import protocol as measure
from placerl.harness.measure.conditions import default_core
from placerl.harness.platforms import PlatformFile, of_this_machine
from placerl.harness.profile import simulated
from placerl.harness.profile.cases import PrimitiveCase, piece_cases, primitive_cases
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.validation_rounds import FPGA, provenance_of, validation_cases
from placerl.harness.store.rows import MachinePeak, PieceTime
from placerl.harness.validate.rows import SUITE
from placerl.harness.workloads import Workload

BOARD = "fpga:u200"
"""The simulated FPGA's name in `harness.profile.simulated`. Mappings name it `fpga`, because there is only one."""
WARM_UP_CALLS = 1
"""Blocks of calls of a case before the length of its blocks is found: its check, and what finds the length of a
training's calls, have run before.
"""
PROTOCOL = measure.Protocol(
    rounds=30,
    block_s=20e-3,
    piece_s=PIECE_S,
    lead_in_calls=1,
    largest_block=1024,
    long_block_s=60e-3,
    threads=1,
)
"""How trainings and pieces are timed in the same rounds; with large batches or simulations a case has fewer blocks.
PyTorch has one thread; a mapping's other parts have cores of their own.
"""


def timed_pieces(
    item: Workload, small: Workload, problem: Problem, parts: SharedParts, precisions: Sequence[str]
) -> list[PrimitiveCase]:
    """Return the calls from which throughput is predicted."""
    pieces = [
        *primitive_cases(item, problem.batch_size, precisions),
        *piece_cases(item, problem.batch_size, parts, precisions),
    ]
    if not problem.on_policy and item.replay.prioritized:
        pieces += validation_cases(small, problem, parts, precisions)
    return [one for one in pieces if one.target.backend not in COMPARED_ONLY]


def timed(
    cases: Iterable[measure.Case[Any]], report: Report, narrow: measure.Narrow | None = None, **how: Any
) -> Mapping[str, measure.Timing]:
    """Time cases in interleaved rounds, as `PROTOCOL` says.

    Args:
        how: fields of the protocol that differ, such as `budget_s`.
    """
    return measure.measure(
        cases,
        replace(PROTOCOL, caller_core=default_core(), **how),
        progress=lambda done, total: report(done, total, "interleaved rounds"),
        narrow=narrow,
    )


def with_board() -> PlatformFile:
    """Return this machine with the simulated FPGA."""
    return simulated.with_device(of_this_machine(), BOARD)


def piece_rows(
    pieces: Sequence[PrimitiveCase], timings: Mapping[str, measure.Timing], item: Workload, batch_size: int
) -> list[PieceTime]:
    """Return the times of pieces (calls of the training loop) as rows."""
    rows = (
        one.timing(timings).measurement(
            PieceTime,
            suite=SUITE,
            workload=item.name,
            primitive=one.primitive,
            backend=one.target.kind,
            device=one.target.device,
            batch_size=batch_size,
            target=str(one.target),
            items_per_call=one.batch_size,
            **one.columns,
        )
        for one in pieces
    )
    return [replace(row, provenance=provenance_of(one)) for row, one in zip(rows, pieces, strict=True)]


def rounds_of(
    pieces: Sequence[PrimitiveCase], timings: Mapping[str, measure.Timing]
) -> list[dict[int, float]]:
    """Return each piece's seconds by number of the round, as the clock had them.

    A training in the same round ran at the same speed.
    """
    of_pieces = (one.timing(timings) for one in pieces)
    return [dict(zip(timing.clock_rounds, timing.clock_s, strict=True)) for timing in of_pieces]


def board_rows(item: Workload, batch_size: int, problem: Problem) -> Iterator[PieceTime | MachinePeak]:
    """Yield the papers' primitives on the FPGA: cycles at its clock, and the storage at its memory's bandwidth.

    A row of the storage crosses the memory's port once, as in `harness.mapping.roofline` and in virtual time.
    The rounds that are run have the learner's own number of pipelines, so its times in other numbers are left out.
    """
    every = simulated.profile(item, batch_size, BOARD, lambda *_: None)
    times = [row for row in every if isinstance(row, PieceTime)]
    used = [row for row in times if not simulated.IN_PIPELINES.fullmatch(row.primitive)]
    peaks = [row for row in every if isinstance(row, MachinePeak)]
    both: list[PieceTime | MachinePeak] = [*used, *peaks]
    for row in both:
        yield replace(row, suite=SUITE, device=FPGA.device, target=str(FPGA), board=BOARD)
    speed = with_board().bytes_per_s(BOARD, BOARD)
    for primitive, rows in (("storage.gather", batch_size), ("storage.insert", 1)):
        copied = rows * problem.item_bytes
        yield PieceTime(
            suite=SUITE,
            workload=item.name,
            primitive=primitive,
            backend=FPGA.backend,
            device=FPGA.device,
            batch_size=batch_size,
            quantity="time_per_call",
            provenance=Provenance.MODELLED,
            value=copied / speed,
            target=str(FPGA),
            board=BOARD,
            formula=f"{copied} B / {speed:g} B/s",
        )
