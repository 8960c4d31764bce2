"""Runs every mapping in the same interleaved rounds as the calls from which its throughput is predicted.

This is called a validation. A mapping says where learner, replay management and storage run; a piece is a call of the
training loop that is timed at its place in the loop. A cell, the unit of work of a run, is one workload at one batch
size. Its rows, all of suite `validation`:

| quantity | of | what it is |
|---|---|---|
| `time_per_call` | a backend | a primitive, or a piece of the loop: the input of the predictions |
| `gradient_steps_per_s` | placerl | throughput of a mapping under a `loop`, with `terms_s` |
| `predicted_gradient_steps_per_s` | a strategy | its prediction, with `error` and `term_errors` |
| `regret` | a strategy | 1 - throughput(chosen) / throughput(best), with its verdict |
| `runtime_overhead` | placerl | time beyond that of the slowest unit, with actors in processes |
| `portability` | placerl or a baseline | PRL's performance portability over device assignments |

A strategy is a performance model that predicts the throughput of mappings and chooses one. Errors are signed:
predicted / achieved - 1, for a throughput and likewise for the time of a term. The FPGA is simulated. Mappings that
use it run in virtual time, and their rows are `simulated`, or `modelled` if the learner is on it
(`harness.runtime.simulated_parts`). A strategy chooses once without and once with it.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from time import perf_counter
from typing import Any

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import STRICT
from placerl.harness.mapping import VALIDATED, Loop, Platform, Problem, predict
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.composed_loop import NAMES
from placerl.harness.pieces.storage import fitted
from placerl.harness.platforms import of_this_machine
from placerl.harness.profile.cases import distinct
from placerl.harness.profile.cases.shared_parts import SharedParts
from placerl.harness.profile.cases.training import TimedTraining, case_name, training_case
from placerl.harness.profile.cases.validation_rounds import FPGA
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ComparisonResult, MachinePeak, PieceTime, PredictedRate
from placerl.harness.store.store import Run as StoredRun
from placerl.harness.validate import piece_times, tried
from placerl.harness.validate.narrowing import Narrowing, dropped, races, slower_among
from placerl.harness.validate.regret import regrets
from placerl.harness.validate.rows import (
    HERE,
    SUITE,
    WITH_SIMULATED,
    Achieved,
    BaselineRates,
    Profile,
    achieved,
    beside,
    overheads,
    portabilities,
)
from placerl.harness.workloads import Workload
from placerl.primitives.quantization.precision import FLOAT_32

BATCH_SIZES = (32, 256, 2048, 16384)
GRIDS: dict[str, dict[str, tuple[int, ...]]] = {
    "quick": {"cartpole-ddpg": (32, 256, 2048), "cartpole-dqn": (32, 256), "hopper-ddpg": (32, 256)},
    "standard": dict.fromkeys(("cartpole-ddpg", "cartpole-dqn"), BATCH_SIZES)
    | {"hopper-ddpg": (32, 256, 2048)},
    "full": dict.fromkeys(
        ("cartpole-ddpg", "cartpole-dqn", "hopper-ddpg", "pendulum-td3", "pendulum-sac"), BATCH_SIZES
    )
    | {"pong-dqn": (32, 64, 256), "hopper-ppo": (64, 512)},
}
"""Batch sizes to validate, by tier (how long a run may take) and workload."""
BUDGETS_S = {
    "quick": dict.fromkeys((("cartpole-ddpg", size) for size in (32, 256, 2048)), 50.0)
    | dict.fromkeys((("cartpole-dqn", size) for size in (32, 256)), 50.0)
    | {("hopper-ddpg", 32): 75.0, ("hopper-ddpg", 256): 130.0},
    "standard": {(name, size): 300.0 for name, sizes in GRIDS["standard"].items() for size in sizes},
    "full": {(name, size): 600.0 for name, sizes in GRIDS["full"].items() for size in sizes},
}
"""Seconds for set-up, checks, rounds and predictions, by tier, and by workload and batch size.

The quick grid takes at most 8 minutes; a round of Hopper takes several times as long as one of the cart-pole.
"""
LEAST_S = {
    ("pong-dqn", 32): 1200.0,
    ("pong-dqn", 64): 2400.0,
    ("pong-dqn", 256): 9600.0,
    ("hopper-ddpg", 16384): 1800.0,
}
"""Estimated seconds of set-up, checks and one round of every mapping, where this is more than any tier gives.

Pong: at batch size 32 the set-up and a part of the checks took more than 13 minutes on two cores of an AMD EPYC, when
the simulated learner was half as fast; the larger sizes are in proportion. The simulated learner computes Pong's
convolutions in the hardware's own number format, which takes seconds per gradient step, and every mapping with it is
run in three loops.

Hopper: at batch size 2048 all of it took 3.4 minutes on such cores; 8 times as many transitions had not passed the
checks after 8 minutes.
"""
PREDICTING_SHARE = 0.1
"""Share of a cell's seconds that is kept for its predictions, which follow the rounds."""


def cells(
    tier: str,
    budget_s: float = 0.0,
    precisions: Sequence[str] = (),
    only: Sequence[tuple[str, int]] = (),
) -> list[Cell]:
    """Return the cells (pieces of the plan) that validate predictions, one for each workload and batch size of a tier.

    Args:
        tier: how much is measured: "quick", "standard" or "full", a key of `GRIDS`.
        budget_s: seconds per cell; 0 means the value in `BUDGETS_S`. A cell of `LEAST_S` gets no less than that.
        precisions: numeric precisions of the learners in addition to float32, such as "bfloat16".
        only: the workloads and batch sizes of the tier's grid that are validated; empty: all.

    Raises:
        UserError: there is no such tier.
    """
    if tier not in GRIDS:
        raise UserError("command line", "--tier", tier, ", ".join(GRIDS))
    return [
        cell(
            workloads.with_batch_size(workloads.load(name), size, "the grid"),
            size,
            max(budget_s or BUDGETS_S[tier][name, size], LEAST_S.get((name, size), 0.0)),
            precisions,
        )
        for name, sizes in GRIDS[tier].items()
        for size in sizes
        if not only or (name, size) in only
    ]


def cell(item: Workload, batch_size: int, budget_s: float, precisions: Sequence[str] = ()) -> Cell:
    """Return the cell, a piece of the plan, that validates predictions for one workload at one batch size.

    Args:
        precisions: numeric precisions of the learners in addition to float32, such as "bfloat16". If there are any,
            the cell's rows have suite `Suite.PRECISION_VALIDATION`.
    """

    def measured(run: StoredRun, report: Report) -> Sequence[Row]:
        compared = run.rows(
            ComparisonResult,
            suite=Suite.COMPARE,
            workload=item.name,
            primitive="training",
            batch_size=batch_size,
        )
        baselines = {
            (row.system, row.device.partition(":")[0]): row.value
            for row in compared
            if row.quantity == "gradient_steps_per_s" and row.value and row.part == "theirs"
            # Not a comparison of its own conditions, such as PAL-F8's on some cores with some threads.
            if row.baseline == row.system
        }
        rows = validate(item, batch_size, budget_s, report, of_this_machine(), baselines, precisions)
        if not precisions:
            return rows
        return [replace(row, suite=Suite.PRECISION_VALIDATION, precisions=tuple(precisions)) for row in rows]

    if precisions:
        key = f"{Suite.PRECISION_VALIDATION}/{item.name}/{batch_size}/{'+'.join(precisions)}"
        return Cell(key, budget_s, measured, item.name)
    return Cell(f"{SUITE}/{item.name}/{batch_size}", budget_s, measured, item.name)


def validate(
    item: Workload,
    batch_size: int,
    budget_s: float,
    report: Report,
    platform: Platform,
    baselines: BaselineRates | None = None,
    precisions: Sequence[str] = (),
) -> Sequence[Row]:
    """Time every mapping and the calls that predict its throughput, and compare predictions with results.

    A mapping says where learner, replay management and storage run. Everything is checked before it is timed.

    Args:
        budget_s: seconds for set-up, checks, rounds and predictions. A round times every mapping and every call once.
            There is at least one round; no other begins that is expected to end after the time for rounds. Later
            rounds leave out what is clearly slower than the best (`harness.validate.narrowing`).
        platform: this machine, as the performance models see it.
        baselines: rates of other libraries that ran on this workload and batch size.

    Returns:
        All rows: times, throughputs, predictions with errors, regrets, overheads and portabilities. The module's
        docstring lists them.
    """
    end_s = perf_counter() + budget_s
    problem, small = problem_of(item, batch_size), fitted(item)
    parts = SharedParts(small, problem)
    pieces = piece_times.timed_pieces(item, small, problem, parts, (FLOAT_32, *precisions))
    runs: dict[str, TimedTraining] = {}
    trainings = {
        (mapping, loop): training_case(small, problem, mapping, runs, loop, parts)
        for mapping in tried.mappings(item, precisions)
        for loop in tried.loops(item, mapping)
    }
    simulates = any(FPGA in (mapping.learner, mapping.rmm) for mapping, _ in trainings)
    stated = list(piece_times.board_rows(item, batch_size, problem)) if simulates else []
    board = [row for row in stated if isinstance(row, PieceTime)]
    platforms = [(platform, False)]
    if board:
        platforms.append((piece_times.with_board(), True))
    run_races = races(trainings, VALIDATED.values(), platforms)
    narrowing = Narrowing(
        run_races,
        runs,
        pieces,
        predict.table_from(board, batch_size),
        VALIDATED.values(),
        problem,
    )
    with closing(parts):
        timings = piece_times.timed(
            [*distinct(pieces), *(one.case for one in trainings.values())],
            report,
            narrowing,
            warm_up_calls=piece_times.WARM_UP_CALLS,
            budget_s=(1 - PREDICTING_SHARE) * max(0.0, end_s - perf_counter()),
            ends_within=True,
        )
    fields = {"workload": item.name, "batch_size": batch_size}
    slower = dropped(run_races)
    ran = {
        (str(mapping), loop): achieved(
            fields,
            mapping,
            loop,
            timings,
            runs.get(case_name(mapping, loop)),
            stepped_by=str(STRICT.stepping(item)),
            replay_capacity=small.replay.capacity,
            clearly_slower_among=slower_among(slower, mapping, loop),
        )
        for mapping, loop in trainings
    }
    profile = [*piece_times.piece_rows(pieces, timings, item, batch_size), *board]
    table = Profile(profile, [*piece_times.rounds_of(pieces, timings), *({} for _ in board)], batch_size)
    predicted = _predictions(item, problem, profile, table, platform, ran)
    overlapped = VALIDATED[NAMES[Loop.OVERLAPPED]]
    in_turn = [one for one in ran.values() if one.loop is Loop.FUSED]
    return [
        *profile,
        *(row for row in stated if isinstance(row, MachinePeak)),
        *(one.row for one in ran.values()),
        *predicted,
        *regrets(predicted, ran, slower),
        *overheads(predicted, ran, overlapped, table, problem, platform),
        *portabilities(
            fields, in_turn, baselines or {}, item.algorithm.name, slower, tried.unsupported(item, precisions)
        ),
    ]


def _predictions(
    item: Workload,
    problem: Problem,
    profile: Sequence[PieceTime],
    table: Profile,
    platform: Platform,
    ran: Mapping[tuple[str, Loop], Achieved],
) -> list[PredictedRate]:
    """Return every strategy's rows: once choosing among real devices, once also with the simulated FPGA.

    With it, the rows state how the prediction and the choice depend on the latency of its link, for which MAP states
    none (`predict.with_slow_links`).
    """
    size = problem.batch_size
    here = [row for row in profile if row.backend != FPGA.backend]
    rows = predict.measurements(item, size, here, platform, VALIDATED)
    among: dict[tuple[str, str], list[str]] = {}
    slow: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        if row.chosen:
            among.setdefault((row.strategy, row.mapping), []).append(HERE)
    if len(here) < len(profile):
        platform = piece_times.with_board()
        more = predict.with_slow_links(item, size, profile, platform, VALIDATED)
        for row in more:
            if row.chosen:
                among.setdefault((row.strategy, row.mapping), []).append(WITH_SIMULATED)
            slow[row.strategy, row.mapping] = {name: getattr(row, name) for name in predict.WITH_SLOW_LINKS}
        known = {(row.strategy, row.mapping) for row in rows}
        rows += [row for row in more if (row.strategy, row.mapping) not in known]
    predictions = []
    for row in rows:
        chosen = among.get((row.strategy, row.mapping), [])
        links = slow.get((row.strategy, row.mapping), {})
        row = replace(row, chosen=HERE in chosen, chosen_among=chosen, **links)
        predictions.append(beside(row, VALIDATED[row.strategy], ran, table, problem, platform))
    return predictions
