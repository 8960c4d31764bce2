"""Validation: every mapping is run beside the pieces that predict it, in the same interleaved rounds.

A cell is one workload at one batch size. Its rows, all of suite `validation`:

| quantity | backend | what it is |
|---|---|---|
| `time_per_call` | a backend | a primitive, or a piece of the loop: what the predictions are made from |
| `gradient_steps_per_s` | placerl | what a mapping achieved under a `loop`; `terms_s` in the details |
| `predicted_gradient_steps_per_s` | a strategy | its prediction, with `error` and `term_errors` in the details |
| `regret` | a strategy | 1 - throughput(chosen) / throughput(best), with its verdict |
| `runtime_overhead` | placerl | time beyond that of the slowest unit alone, actors beside the rest |
| `portability` | placerl or a baseline | PRL's, over device assignments |

Errors are signed: predicted / achieved - 1 of a throughput, and of a term's time likewise. The FPGA is simulated: the
mappings that it is part of run in virtual time, their rows are `simulated`, or `modelled` where the learner is on it
(`harness.runtime.time_provenance`), and a strategy chooses once without and once with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness import workloads
from harness.core.errors import UserError
from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.mapping import VALIDATED, Loop, Platform, Problem, Target, predict
from harness.mapping import Mapping as Placement
from harness.mapping.base import REFERENCE, WORD_BYTES
from harness.mapping.problem import problem_of
from harness.mapping.strategies.composed_loop import NAMES
from harness.measure import protocol as measure
from harness.measure.conditions import default_core
from harness.platforms import of_this_machine
from harness.profile import simulated
from harness.profile.cases import PrimitiveCase, distinct, piece_cases, primitive_cases
from harness.profile.cases.learners import learner_targets
from harness.profile.cases.shared_parts import SharedParts, managers
from harness.profile.cases.storage import fitted
from harness.profile.cases.training import Run, case_name, training_case
from harness.profile.cases.validation_rounds import (
    FPGA,
    fpga_unavailable_reason,
    provenance_of,
    validation_cases,
)
from harness.runtime import compose
from harness.runtime.compose import Fusion, fusions
from harness.store.cell import Cell
from harness.store.store import Run as StoredRun
from harness.validate import rows as made
from harness.validate.regret import regrets
from harness.validate.rows import HERE, SUITE, WITH_SIMULATED, Achieved, Profile
from harness.workloads import Workload
from primitives.quantization.precision import FLOAT_32

PRECISION_SUITE = "precision_validation"
CPU, NATIVE = Target("cpu"), Target("native")
BOARD = "fpga:u200"
"""The FPGA that is simulated, as `harness.profile.simulated` knows it; mappings say `fpga`, there being one."""
BATCH_SIZES = (32, 256, 2048, 16384)
GRIDS: dict[str, dict[str, tuple[int, ...]]] = {
    "quick": {"cartpole-ddpg": (32, 256, 2048), "cartpole-dqn": (32, 256), "hopper-ddpg": (32, 256)},
    "standard": dict.fromkeys(("cartpole-ddpg", "cartpole-dqn", "hopper-ddpg"), BATCH_SIZES)
    | {"pong-dqn": (32, 256)},
    "full": dict.fromkeys(
        ("cartpole-ddpg", "cartpole-dqn", "hopper-ddpg", "pendulum-td3", "pendulum-sac"), BATCH_SIZES
    )
    | {"pong-dqn": (32, 64, 256), "hopper-ppo": (64, 512)},
}
"""By tier: the batch sizes of each workload."""
BUDGETS_S = {
    "quick": {"cartpole-ddpg": 45.0, "cartpole-dqn": 45.0, "hopper-ddpg": 85.0},
    "standard": dict.fromkeys(GRIDS["standard"], 300.0),
    "full": dict.fromkeys(GRIDS["full"], 600.0),
}
"""By tier and workload: of one cell, checks and warm-up included. The quick grid takes at most 8 minutes; a round of
Hopper takes several times as long as one of the cart-pole."""
BESIDE = ("binary", REFERENCE)
"""Backends that are there to be compared with, not to be mapped to."""
THREADS = 1  # of PyTorch; a mapping's other parts have cores of their own
ROUNDS = 30
LONG_BLOCK_S = 60e-3
"""Of longer blocks, as of a large batch in PyTorch or of a simulation, there are fewer."""


def cells(tier: str, budget_s: float = 0.0, precisions: Sequence[str] = ()) -> list[Cell]:
    """The cells of a tier.

    Args:
        tier: a key of `GRIDS`.
        budget_s: of a cell, seconds; that of `BUDGETS_S` where 0.
        precisions: of the learners, as well as float32.

    Raises:
        UserError: there is no such tier.
    """
    if tier not in GRIDS:
        raise UserError("command line", "--tier", tier, ", ".join(GRIDS))
    return [
        cell(
            workloads.with_batch_size(workloads.load(name), size, "the grid"),
            size,
            budget_s or BUDGETS_S[tier][name],
            precisions,
        )
        for name, sizes in GRIDS[tier].items()
        for size in sizes
    ]


def cell(item: Workload, batch_size: int, budget_s: float, precisions: Sequence[str] = ()) -> Cell:
    """One workload at one batch size; with more precisions its rows are of suite `PRECISION_SUITE`."""

    def measured(run: StoredRun, report: Report) -> list[Measurement]:
        compared = run.measurements(
            suite="compare", workload=item.name, primitive="training", batch_size=batch_size
        )
        baselines = {
            row.backend: row.value
            for row in compared
            if row.quantity == "gradient_steps_per_s" and row.value and row.details.get("part") == "theirs"
        }
        rows = validate(item, batch_size, budget_s, report, of_this_machine(), baselines, precisions)
        if not precisions:
            return rows
        own = {"precisions": list(precisions)}
        return [replace(row, suite=PRECISION_SUITE, details={**row.details, **own}) for row in rows]

    if precisions:
        key = f"{PRECISION_SUITE}/{item.name}/{batch_size}/{'+'.join(precisions)}"
        return Cell(key, budget_s, measured, item.name)
    return Cell(f"{SUITE}/{item.name}/{batch_size}", budget_s, measured, item.name)


def mappings(item: Workload, precisions: Sequence[str] = ()) -> list[Placement]:
    """Every mapping that this machine can run, the simulated FPGA's after them.

    On-policy, the replay management has nothing to run.

    Args:
        item: what is trained.
        precisions: of the learners, as well as float32.
    """
    found = [mapping for mapping in _of_this_machine(item, precisions) if _can_run(item, mapping)]
    if item.algorithm.name == "ppo" or not item.replay.prioritized or fpga_unavailable_reason():
        return found
    learners = list(dict.fromkeys(mapping.learner for mapping in found))
    rmms = list(dict.fromkeys(mapping.rmm for mapping in found))
    boards = [Placement(FPGA, rmm, CPU) for rmm in rmms]
    for learner in (*learners, FPGA):
        boards += [Placement(learner, FPGA, storage) for storage in (CPU, FPGA)]
    return found + boards


def unsupported(item: Workload) -> list[Placement]:
    """The mappings of this machine's learners and replay managers that the workload cannot run under."""
    return [mapping for mapping in _of_this_machine(item) if not _can_run(item, mapping)]


def _of_this_machine(item: Workload, precisions: Sequence[str] = ()) -> list[Placement]:
    on_policy = item.algorithm.name == "ppo"
    rmms = [NATIVE] if on_policy else [rmm for rmm in managers(item) if rmm.backend not in BESIDE]
    return [
        Placement(learner, rmm, CPU) for learner in learner_targets((FLOAT_32, *precisions)) for rmm in rmms
    ]


def _can_run(item: Workload, mapping: Placement) -> bool:
    try:
        compose.check(item, mapping)
    except UserError:
        return False
    return True


def loops(item: Workload, mapping: Placement) -> tuple[Loop, ...]:
    """Under which loops a mapping is run: each that differs from the fused one.

    Actors beside the learner, which take a process each, are run where the replay management is native; of the
    simulated FPGA's mappings, where it does everything, and the strict loop under none of them: what fusing saves
    on the host shows in the others, and a simulated step takes as long as many real ones.
    """
    if item.algorithm.name == "ppo":
        return (Loop.FUSED,)
    devices = {mapping.learner, mapping.rmm, mapping.storage}
    fuses = fusions(item, mapping, 0)[-1] is not Fusion.NONE
    apart = (Loop.STRICT,) if fuses and FPGA not in devices else ()
    beside = (
        (Loop.OVERLAPPED,) if (mapping.rmm == NATIVE and FPGA not in devices) or devices == {FPGA} else ()
    )
    if mapping.learner.precision != FLOAT_32:  # actors in a process infer in float32
        beside = ()
    return (Loop.FUSED, *apart, *beside)


def validate(
    item: Workload,
    batch_size: int,
    budget_s: float,
    report: Report,
    platform: Platform,
    baselines: Mapping[str, float] | None = None,
    precisions: Sequence[str] = (),
) -> list[Measurement]:
    """Measure the pieces and every mapping, correctness first, and set predictions beside what was achieved.

    Args:
        item, batch_size: the cell.
        budget_s: begin no further round after this time, seconds.
        report: called with the progress.
        platform: the machine at hand, as the strategies see it.
        baselines: gradient steps a second of the baselines that were run on this cell's workload and batch size.
        precisions: of the learners, as well as float32.
    """
    every = (FLOAT_32, *precisions)
    problem, small = problem_of(item, batch_size), fitted(item)
    parts = SharedParts(small, problem)
    pieces = [
        *primitive_cases(item, batch_size, every),
        *piece_cases(item, batch_size, parts, every),
    ]
    chosen = mappings(item, precisions)
    if not problem.on_policy and item.replay.prioritized:
        pieces += validation_cases(small, problem, parts, every)
    pieces = [one for one in pieces if one.target.backend not in BESIDE]
    runs: dict[str, Run] = {}
    trainings = {
        (mapping, loop): training_case(small, problem, mapping, runs, loop, parts)
        for mapping in chosen
        for loop in loops(item, mapping)
    }
    protocol = measure.Protocol(
        rounds=ROUNDS,
        block_s=20e-3,
        lead_in_calls=1,
        largest_block=1024,
        long_block_s=LONG_BLOCK_S,
        budget_s=budget_s,
        threads=THREADS,
        caller_core=default_core(),
    )
    timings = measure.measure(
        [*distinct(pieces), *(one.case for one in trainings.values())],
        protocol,
        progress=lambda done, total: report(done, total, "interleaved rounds"),
    )
    fields = {"workload": item.name, "batch_size": batch_size}
    details = {"replay_capacity": small.replay.capacity}
    ran = {
        (str(mapping), loop): made.achieved(
            fields, mapping, loop, timings, runs.get(case_name(mapping, loop)), details
        )
        for mapping, loop in trainings
    }
    profile = [_piece(one, timings, item, batch_size) for one in pieces]
    # As the clock had them: a training in the same round ran at the same speed.
    rounds = [
        dict(zip(t.clock_rounds, t.clock_s, strict=True)) for t in (one.timing(timings) for one in pieces)
    ]
    if any(FPGA in (mapping.learner, mapping.rmm) for mapping in chosen):
        told = list(_board_rows(item, batch_size, problem))
        profile, rounds = [*profile, *told], [*rounds, *({} for _ in told)]
    table = Profile(profile, rounds, batch_size)
    predicted = _predictions(item, problem, profile, table, platform, ran)
    overlapped = VALIDATED[NAMES[Loop.OVERLAPPED]]
    in_turn = [one for one in ran.values() if one.loop is Loop.FUSED]
    return [
        *profile,
        *(one.row for one in ran.values()),
        *predicted,
        *regrets(predicted, ran),
        *made.overheads(predicted, ran, overlapped, table, problem, platform),
        *made.portabilities(fields, in_turn, baselines or {}, item.algorithm.name, unsupported(item)),
    ]


def _piece(
    one: PrimitiveCase, timings: Mapping[str, measure.Timing], item: Workload, batch_size: int
) -> Measurement:
    row = one.timing(timings).measurement(
        suite=SUITE,
        workload=item.name,
        primitive=one.primitive,
        backend=one.target.kind,
        device=one.target.device,
        batch_size=batch_size,
        details={"target": str(one.target), "items_per_call": one.batch_size, **one.details},
    )
    return replace(row, provenance=provenance_of(one))


def _board_rows(item: Workload, batch_size: int, problem: Problem) -> Iterator[Measurement]:
    """The papers' primitives on the FPGA: cycles at its clock, and the storage at its memory's bandwidth."""
    for row in simulated.profile(item, batch_size, BOARD, lambda *_: None):
        yield replace(
            row, suite=SUITE, device=FPGA.device, details={**row.details, "target": str(FPGA), "board": BOARD}
        )
    speed = simulated.with_device(of_this_machine(), BOARD).bytes_per_s(BOARD, BOARD)
    for primitive, rows in (("storage.gather", batch_size), ("storage.insert", 1)):
        copied = rows * problem.item_words * WORD_BYTES
        yield Measurement(
            suite=SUITE,
            workload=item.name,
            primitive=primitive,
            backend=FPGA.backend,
            device=FPGA.device,
            batch_size=batch_size,
            quantity="time_per_call",
            provenance=Provenance.MODELLED,
            value=copied / speed,
            details={"target": str(FPGA), "board": BOARD, "formula": f"{copied} B / {speed:g} B/s"},
        )


def _predictions(
    item: Workload,
    problem: Problem,
    profile: Sequence[Measurement],
    table: Profile,
    platform: Platform,
    ran: Mapping[tuple[str, Loop], Achieved],
) -> list[Measurement]:
    """Every strategy's rows: choosing among what is here, and among that and the simulated FPGA."""
    size = problem.batch_size
    here = [row for row in profile if row.backend != FPGA.backend]
    rows = predict.measurements(item, size, here, platform, VALIDATED)
    among: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.details.get("chosen"):
            among.setdefault((row.backend, row.device), []).append(HERE)
    if len(here) < len(profile):
        platform = simulated.with_device(of_this_machine(), BOARD)
        more = predict.measurements(item, size, profile, platform, VALIDATED)
        for row in more:
            if row.details.get("chosen"):
                among.setdefault((row.backend, row.device), []).append(WITH_SIMULATED)
        known = {(row.backend, row.device) for row in rows}
        rows += [row for row in more if (row.backend, row.device) not in known]
    found = []
    for row in rows:
        chosen = among.get((row.backend, row.device), [])
        details = {**row.details, "chosen": HERE in chosen, "chosen_among": chosen}
        row = replace(row, details=details)
        found.append(made.beside(row, VALIDATED[row.backend], ran, table, problem, platform))
    return found
