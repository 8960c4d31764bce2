"""Validation: every mapping is run beside the pieces that predict it, in the same interleaved rounds.

A cell is one workload at one batch size. Its rows, all of suite `validation`:

| quantity | backend | what it is |
|---|---|---|
| `time_per_call` | a backend | a primitive, or a piece of the loop: what the predictions are made from |
| `gradient_steps_per_s` | placerl | what a mapping achieved; `terms_s` in the details |
| `predicted_gradient_steps_per_s` | a strategy | its prediction, with `error` and `term_errors` in the details |
| `regret` | a strategy | 1 - throughput(chosen) / throughput(best) |
| `portability` | placerl or a baseline | PRL's, over the mappings |

Errors are signed: predicted / achieved - 1 of a throughput, and of a term's time likewise.
"""

from collections.abc import Mapping as MappingABC
from collections.abc import Sequence
from dataclasses import replace

from harness import measure, predicting, workload
from harness.cases import all_cases, distinct
from harness.cases.learners import learner_targets
from harness.cases.rounds import managers
from harness.cases.storage import fitted
from harness.cases.training import Run, training_case
from harness.conditions import default_core
from harness.errors import UserError
from harness.mapping import Mapping, Platform, Target
from harness.mapping.metrics import experiences_per_s, portability, regret
from harness.measurement import Measurement
from harness.platform_model import this_machine
from harness.progress import Report
from harness.provenance import Provenance
from harness.reproduce import Cell
from harness.runtime import compose
from harness.store import Run as StoredRun
from harness.workload import Workload

SUITE = "validation"
CPU = Target("cpu")
BASELINE_LEARNERS = {"sb3": ("torch",), "rllib": ("torch",)}
"""By baseline: the learners of this machine's mappings that it has; both keep their replay in Python on the CPU."""
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
BUDGETS_S = {"quick": 60.0, "standard": 300.0, "full": 600.0}
"""By tier: of one cell, checks and warm-up included. The quick grid takes at most 8 minutes."""
THREADS = 1  # of PyTorch; a mapping's other parts have cores of their own


def cells(tier: str, budget_s: float = 0.0) -> list[Cell]:
    """The cells of a tier.

    Args:
        tier: a key of `GRIDS`.
        budget_s: of a cell, seconds; that of `BUDGETS_S` where 0.

    Raises:
        UserError: there is no such tier.
    """
    if tier not in GRIDS:
        raise UserError("command line", "--tier", tier, ", ".join(GRIDS))
    return [
        cell(
            workload.with_batch_size(workload.load(name), size, "the grid"), size, budget_s or BUDGETS_S[tier]
        )
        for name, sizes in GRIDS[tier].items()
        for size in sizes
    ]


def cell(item: Workload, batch_size: int, budget_s: float) -> Cell:
    """One workload at one batch size."""

    def measured(_: StoredRun, report: Report) -> list[Measurement]:
        return validate(item, batch_size, budget_s, report, this_machine())

    return Cell(f"{SUITE}/{item.name}/{batch_size}", budget_s, measured)


def mappings(item: Workload) -> list[Mapping]:
    """Every mapping that this machine can run; on-policy, the replay management has nothing to run."""
    rmms = [Target("native")] if item.algorithm.name == "ppo" else managers(item)
    found = []
    for learner in learner_targets():
        for rmm in rmms:
            mapping = Mapping(learner, rmm, CPU)
            try:
                compose.check(item, mapping)
            except UserError:
                continue
            found.append(mapping)
    return found


def validate(
    item: Workload, batch_size: int, budget_s: float, report: Report, platform: Platform
) -> list[Measurement]:
    """Measure the pieces and every mapping, correctness first, and set predictions beside what was achieved.

    Args:
        item, batch_size: the cell.
        budget_s: begin no further round after this time, seconds.
        report: called with the progress.
        platform: the machine at hand, as the strategies see it.
    """
    problem = predicting.problem_of(item, batch_size)
    pieces = all_cases(item, batch_size)
    runs: dict[str, Run] = {}
    trainings = {
        str(mapping): training_case(fitted(item), problem, mapping, runs) for mapping in mappings(item)
    }
    protocol = measure.Protocol(
        rounds=30,
        block_s=20e-3,
        lead_in_calls=1,
        largest_block=1024,
        budget_s=budget_s,
        threads=THREADS,
        caller_core=default_core(),
    )
    timings = measure.measure(
        [*distinct(pieces), *(made.case for made in trainings.values())],
        protocol,
        progress=lambda done, total: report(done, total, "interleaved rounds"),
    )
    profile = [
        made.timing(timings).measurement(
            suite=SUITE,
            workload=item.name,
            primitive=made.primitive,
            backend=made.target.backend,
            device=made.target.device,
            batch_size=batch_size,
            details={"target": str(made.target), "items_per_call": made.batch_size},
        )
        for made in pieces
    ]
    achieved = [
        _achieved(item, batch_size, name, timings, runs.get(name)) for name, made in trainings.items()
    ]
    predicted = [
        _beside(row, achieved) for row in predicting.measurements(item, batch_size, profile, platform)
    ]
    return [*profile, *achieved, *predicted, *_regrets(predicted, achieved), *_portabilities(achieved)]


def _achieved(
    item: Workload, batch_size: int, mapping: str, timings: MappingABC[str, measure.Timing], run: Run | None
) -> Measurement:
    """What a mapping reached, in gradient steps a second, from the times of its calls and of their parts."""
    steps = run.gradient_steps if run else 1
    whole = f"training {mapping}"
    timing = timings[whole]
    terms_s = {
        name.removeprefix(f"{whole}: "): part.median_s / steps
        for name, part in timings.items()
        if name.startswith(f"{whole}: ") and part.median_s is not None
    }
    details = {
        **timing.details,
        "mapping": mapping,
        "gradient_steps_per_call": steps,
        "fusion": str(run.training.fusion) if run else "",
        "terms_s": terms_s,
        "replay_capacity": fitted(item).replay.capacity,
    }
    return Measurement(
        suite=SUITE,
        workload=item.name,
        primitive="training",
        backend="placerl",
        device=mapping,
        batch_size=batch_size,
        quantity="gradient_steps_per_s",
        unit="1/s",
        provenance=Provenance.MEASURED,
        status=timing.status,
        reason=timing.reason,
        value=steps / timing.median_s if timing.median_s else None,
        low=steps / timing.high_s if timing.high_s else None,
        high=steps / timing.low_s if timing.low_s else None,
        samples=tuple(steps / sample for sample in timing.samples_s),
        details=details,
    )


def _beside(predicted: Measurement, achieved: Sequence[Measurement]) -> Measurement:
    """A prediction as a row of this suite, with its errors where its mapping ran."""
    ran = {row.device: row for row in achieved if row.value is not None}
    found = ran.get(predicted.device)
    details = dict(predicted.details)
    if predicted.value is not None and found is not None and found.value is not None:
        details |= {
            "achieved": found.value,
            "error": predicted.value / found.value - 1,
            "term_errors": term_errors(details["terms_s"], found.details["terms_s"]),
        }
    quantity = predicted.quantity if predicted.value is None else f"predicted_{predicted.quantity}"
    return replace(predicted, suite=SUITE, quantity=quantity, details=details)


def term_errors(predicted_s: MappingABC[str, float], achieved_s: MappingABC[str, float]) -> dict[str, float]:
    """Signed error of each term of a prediction that the runtime counts too, predicted / achieved - 1.

    Args:
        predicted_s: seconds a gradient step by the model's terms.
        achieved_s: seconds a gradient step by the runtime's terms (`Progress.terms_s`), and `loop`.
    """
    counted = dict(achieved_s)
    for joint, parts in {
        "actor": ("environment", "infer"),
        "sample and gather": ("sample", "gather"),
    }.items():
        if parts[0] in counted:
            counted[joint] = sum(counted.get(part, 0.0) for part in parts)
    return {
        term: seconds / counted[term] - 1 for term, seconds in predicted_s.items() if counted.get(term, 0) > 0
    }


def _regrets(predicted: Sequence[Measurement], achieved: Sequence[Measurement]) -> list[Measurement]:
    """Of every strategy whose choice ran."""
    reached = {row.device: row.value for row in achieved if row.value is not None}
    best = max(reached, key=lambda name: reached[name], default="")
    return [
        Measurement(
            suite=SUITE,
            workload=row.workload,
            primitive="training",
            backend=row.backend,
            device=row.device,
            batch_size=row.batch_size,
            quantity="regret",
            unit="1",
            provenance=Provenance.MEASURED,
            value=regret(reached[row.device], reached.values()),
            details={"chosen": row.device, "best": best},
        )
        for row in predicted
        if row.details.get("chosen") and row.device in reached
    ]


def _portabilities(achieved: Sequence[Measurement]) -> list[Measurement]:
    """PRL's portability over this machine's mappings, in experiences a second: this project's and the baselines'.

    A baseline lacks some of the mappings, so that its portability is 0 whatever it reaches on the others.
    """
    if not achieved:
        return []
    first, batch_size = achieved[0], achieved[0].batch_size or 0
    eps = [None if row.value is None else experiences_per_s(row.value, batch_size) for row in achieved]
    rows = [("placerl", eps, Provenance.MEASURED)]
    for baseline, learners in BASELINE_LEARNERS.items():
        lacking = [row.device for row in achieved if not row.device.startswith(tuple(learners))]
        if lacking:
            rows.append((baseline, [None], Provenance.MODELLED))
    return [
        Measurement(
            suite=SUITE,
            workload=first.workload,
            primitive="training",
            backend=backend,
            batch_size=batch_size,
            quantity="portability",
            unit="1/s",
            provenance=provenance,
            value=portability(values),
            details={"mappings": [row.device for row in achieved], "over": "mappings"},
        )
        for backend, values, provenance in rows
    ]
