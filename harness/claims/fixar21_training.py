"""Checks of FIX VI-C: the reward of fixed-point training (Fig. 7), and inferences a second (Fig. 8 to 10)."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from harness import fixed_point_throughput as throughput
from harness import fixed_point_training as training
from harness import simulated_array
from harness.claims.base import Finding, Outcome
from harness.claims.evidence import detail, noisy, number, records, select
from harness.claims.fixar_array import simulated_rates
from harness.claims.number import Number, from_text
from harness.claims.relaxed_reward import share_of_gain
from harness.comparison import FEWEST_SAMPLES
from harness.fixed_point_training import DYNAMIC, FIXED_16, FIXED_32, FLOAT
from harness.provenance import Provenance

ACCELERATOR = "the fixed-point accelerator (simulated)"
NEEDS_CURVES = "training runs in floats and in fixed point (claim/FIX-F7)"
NEEDS_STEPS = "training steps over batch sizes (claim/FIX-F8)"
NEEDS_GPU_STEPS = "a CUDA device, and the same steps in floats on it: claim/FIX-F8 times the processor alone"
NEEDS_SWEEP = "training runs with other delays and formats (claim/FIX-F7-sweep)"
CURVES = (FLOAT, FIXED_32, FIXED_16, DYNAMIC)
TRAINS = 0.8
"""A curve trains when the whole interval of what it gains is at least this share of what floats gain."""
FAILS = 0.5
"""It fails to when its whole interval is below this share."""
PUBLISHED_WORKLOAD, PUBLISHED_STEPS = "halfcheetah-ddpg", 1_000_000
PAPERS_WORKLOADS = ("halfcheetah-ddpg", "hopper-ddpg-400-300", "swimmer-ddpg")
"""FIX VI-B's environments; that 16 bits are enough for an easier one does not contradict the paper."""

Runs = dict[str, dict[int, Any]]
"""Rows of one workload by curve and seed."""


def _runs(frame: pd.DataFrame) -> dict[str, Runs]:
    """Workloads whose four curves were all trained; the seeds that all four have."""
    found: dict[str, Runs] = defaultdict(lambda: defaultdict(dict))
    for row in records(select(frame, suite="claim", quantity="evaluation_return")):
        if detail(row, "experiment") == training.EXPERIMENT:
            found[row.workload][row.backend][int(detail(row, "seed"))] = row
    complete: dict[str, Runs] = {}
    for name, curves in found.items():
        seeds = set.intersection(*(set(curves.get(curve, {})) for curve in CURVES))
        if seeds:
            complete[name] = {
                curve: {seed: rows[seed] for seed in sorted(seeds) if seed in rows}
                for curve, rows in curves.items()
            }
    return complete


def reward(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 7: what fixed point, and the change to 16 bits, do to the reward."""
    workloads = _runs(frame)
    if not workloads:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_CURVES)
    ours: list[Number] = []
    words: list[str] = []
    outcomes = [_judged(name, runs, ours, words) for name, runs in workloads.items()]
    # One workload against the claim is enough; one that cannot tell leaves it open.
    for outcome in (Outcome.NOT_REPRODUCED, Outcome.NO_VERDICT, Outcome.IN_KIND):
        if outcome in outcomes:
            return Finding(outcome, tuple(ours), " ".join(words))
    return Finding(Outcome.REPRODUCED, tuple(ours), " ".join(words))


def _judged(name: str, runs: Runs, ours: list[Number], words: list[str]) -> Outcome:
    start = float(np.mean([row.samples[0] for row in runs[FLOAT].values()]))
    finals = {}
    for curve, rows in runs.items():
        finals[curve] = float(np.mean([row.value for row in rows.values()]))
        ours.append(_mean(f"{name}, {curve}: final return", finals[curve], rows))
    some = next(iter(runs[FLOAT].values()))
    steps, seeds = int(detail(some, "steps")), len(runs[FLOAT])
    words.append(f"{name}, {steps:,} steps, {seeds} seeds:")
    share = _shares(name, runs)
    if seeds < FEWEST_SAMPLES:
        gain = finals[FLOAT] - start
        gained = {curve: (final - start) / gain for curve, final in finals.items() if gain > 0}
        words += [f"of what floats gain, {_listed(gained)};"] if gained else []
        words.append(f"no interval, and no verdict, of fewer than {FEWEST_SAMPLES} seeds (tier full).")
        words.append(_change(runs[DYNAMIC]))
        return Outcome.NO_VERDICT
    if not share:
        words.append("floats themselves gain too little over the untrained network to tell.")
        return Outcome.NO_VERDICT
    ours += share.values()
    words.append(f"of what floats gain, {_listed({curve: each.value for curve, each in share.items()})}.")
    words.append(_change(runs[DYNAMIC]))
    low = {curve: each.low or 0.0 for curve, each in share.items()}
    high = {curve: each.high or 0.0 for curve, each in share.items()}
    if high[FIXED_16] >= FAILS:
        words.append("That 16 bits from the start fail is not seen.")
    if min(low[FIXED_32], low[DYNAMIC]) >= TRAINS and high[FIXED_16] < FAILS:
        published = name == PUBLISHED_WORKLOAD and steps >= PUBLISHED_STEPS
        return Outcome.REPRODUCED if published else Outcome.IN_KIND
    contradicts = low[FIXED_16] >= TRAINS and name in PAPERS_WORKLOADS
    fails = min(high[FIXED_32], high[DYNAMIC]) < FAILS
    return Outcome.NOT_REPRODUCED if fails or contradicts else Outcome.NO_VERDICT


def _listed(shares: dict[str, float]) -> str:
    return ", ".join(f"{curve} {share:.0%}" for curve, share in shares.items() if curve != FLOAT)


def _shares(name: str, runs: Runs) -> dict[str, Number]:
    """Of each curve, what it gains of what floats gain, bootstrapped over seeds; none where floats may not gain."""
    if len(runs[FLOAT]) < FEWEST_SAMPLES:
        return {}
    first = np.array([row.samples[0] for row in runs[FLOAT].values()])
    scores = {curve: np.array([row.value for row in rows.values()]) for curve, rows in runs.items()}
    made = {}
    for curve, rows in runs.items():
        if curve == FLOAT or len(rows) < FEWEST_SAMPLES:
            continue
        found = share_of_gain(scores[curve], scores[FLOAT], first)
        if found is None:
            return {}
        words = f"{name}, {curve}: share of the reward gained in floats"
        source = f"interquartile means of {len(rows)} seeds, bootstrap over seeds"
        labels = sorted(int(row.Index) for row in (*rows.values(), *runs[FLOAT].values()))
        made[curve] = Number(words, found[0], "ratio", Provenance.MEASURED, source, *found[1:], tuple(labels))
    return made


def _change(rows: dict[int, Any]) -> str:
    """What the reward does when activations become 16 bits wide: the dip, and the recovery."""
    before, after, later = [], [], []
    for row in rows.values():
        at = int(detail(row, "delay")) // int(detail(row, "evaluation_interval"))
        before.append(row.samples[at])
        after.append(row.samples[min(at + 1, len(row.samples) - 1)])
        later.append(row.value)
    was, dipped, became = (float(np.mean(x)) for x in (before, after, later))
    text = f"At the change the return goes from {was:.4g} to {dipped:.4g} and ends at {became:.4g}:"
    # Evaluations differ between neighbours without any change, by this much.
    wiggle = np.mean([np.std(np.diff(row.samples[len(row.samples) // 4 :])) for row in rows.values()])
    if was - dipped <= wiggle:
        return f"{text} a dip beyond the {wiggle:.3g} between any two evaluations is not seen."
    return f"{text} a dip, {'made good' if became >= dipped + (was - dipped) / 2 else 'not made good'}."


def sweep(frame: pd.DataFrame) -> Finding:
    """FIX IV, Algorithm 1: what the delay, and the formats that the paper leaves open, do to the reward."""
    task = training.SWEPT
    tried: dict[str, Any] = {}
    for row in records(select(frame, suite="claim", quantity="evaluation_return", workload=task.workload)):
        of_sweep = detail(row, "experiment") == training.SWEEP
        alike = detail(row, "seed") == training.SWEPT_SEED and detail(row, "steps") == task.steps
        if alike and (of_sweep or row.backend == FIXED_32):
            tried[row.backend] = row
    base = tried.pop(FIXED_32, None)
    delays = [name for name in tried if name.startswith(DYNAMIC)]
    if base is None or not delays:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_SWEEP)
    ours = tuple(
        number(row, f"{name}: final return") for name, row in sorted({FIXED_32: base, **tried}.items())
    )
    start = base.samples[0]
    gain = base.value - start
    words = f"{task.workload}, {task.steps:,} steps, one seed:"
    if gain < 2 * np.std(np.diff(base.samples[len(base.samples) // 2 :])):
        explanation = f"{words} {FIXED_32} itself gains too little over the untrained network to tell."
        return Finding(Outcome.NO_VERDICT, ours, explanation)
    share = {name: (row.value - start) / gain for name, row in tried.items()}
    shares = ", ".join(f"{name.removeprefix(f'{FIXED_32}, ')} {share[name]:.0%}" for name in tried)
    explanation = f"{words} of what {FIXED_32} gains, {shares}. A seed alone moves a return by some percent."
    worst = min(share[name] for name in delays)
    if worst >= TRAINS:
        return Finding(Outcome.IN_KIND, ours, explanation)
    return Finding(Outcome.NOT_REPRODUCED if worst < FAILS else Outcome.NO_VERDICT, ours, explanation)


def _mean(quantity: str, value: float, rows: dict[int, Any]) -> Number:
    labels = tuple(sorted(int(row.Index) for row in rows.values()))
    return Number(quantity, value, "1", Provenance.MEASURED, f"mean of {len(rows)} seeds", rows=labels)


def _steps(frame: pd.DataFrame, quantity: str) -> dict[str, dict[int, Any]]:
    """Rows of the throughput experiment by side and batch size."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in records(select(frame, suite="claim", quantity=quantity)):
        if detail(row, "experiment") == throughput.EXPERIMENT:
            found[row.backend][int(row.batch_size)] = row
    return found


def _rates(frame: pd.DataFrame, quantity: str, words: str) -> tuple[Number, ...]:
    return tuple(
        number(row, f"{side}, batch size {size}: {words}")
        for side, sizes in _steps(frame, quantity).items()
        for size, row in sorted(sizes.items())
    )


def platform(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 8: inferences a second of a whole step; this machine's processor stands where the accelerator would."""
    ours = _rates(frame, "inferences_per_s", "whole step on this processor")
    if not ours:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS_STEPS}, {NEEDS_GPU_STEPS}")
    return Finding(Outcome.NOT_RUN, (*ours, *_joined(frame).values()), needs=NEEDS_GPU_STEPS)


def _joined(frame: pd.DataFrame) -> dict[int, Number]:
    """Samples a second by batch size of this host with FIX's array: host's terms measured, the step simulated."""
    host = {term: _steps(frame, f"{term}_time").get(DYNAMIC, {}) for term in ("environment", "transfer")}
    array = simulated_rates(frame)[simulated_array.BACKENDS[32]]
    joined = {}
    for size in sorted(set(array).intersection(*host.values())):
        host_s = sum(float(rows[size].value) for rows in host.values())
        rows = (array[size], *(some[size] for some in host.values()))
        joined[size] = Number(
            f"this host with FIX's array, batch size {size}",
            size / (host_s + size / float(array[size].value)),
            "IPS",
            Provenance.SIMULATED,
            "batch over environment and transfer, measured, and the array's step, simulated",
            rows=tuple(sorted(int(row.Index) for row in rows)),
        )
    return joined


def joined_platform(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 8: the platform's throughput grows with the batch, and the accelerator becomes the bottleneck."""
    joined = _joined(frame)
    if len(joined) < 2:
        return Finding(Outcome.NOT_RUN, needs=f"{NEEDS_STEPS}, {ACCELERATOR} (claim/FIX-F10)")
    used = [row for number in joined.values() for row in number.rows]
    if noisy(frame.loc[used]):
        return Finding(Outcome.NO_VERDICT, tuple(joined.values()), "Some rows are too noisy.")
    rates = [number.value for number in joined.values()]
    array = simulated_rates(frame)[simulated_array.BACKENDS[32]]
    shares = [rate / float(array[size].value) for size, rate in zip(joined, rates, strict=True)]
    (published,) = from_text("FIX.platform_ips")
    explanation = (
        f"The array takes {shares[0]:.0%} of a step at batch size {min(joined)} and {shares[-1]:.0%} at {max(joined)}. "
        f"The paper's {published} holds for its host, whose environment alone takes about 2 ms a step and whose "
        "run-time library adds to each transfer; neither is in these numbers."
    )
    grows = all(a < b for a, b in pairwise(rates))
    outcome = Outcome.IN_KIND if grows and shares[-1] > 0.5 else Outcome.NOT_REPRODUCED
    return Finding(outcome, tuple(joined.values()), explanation)


def accelerator(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 10: inferences a second of the gradient step alone, and per watt."""
    ours = _rates(frame, "learner_inferences_per_s", "gradient step alone on this processor")
    simulated = [
        number(row, f"{name}, batch size {size}")
        for name, rows in simulated_rates(frame).items()
        for size, row in sorted(rows.items())
    ]
    lacking = [NEEDS_GPU_STEPS, "power counters of both (a simulated array has none)"]
    if not simulated:
        lacking.insert(0, ACCELERATOR)
    return Finding(Outcome.NOT_RUN, (*ours, *simulated), needs=", ".join(lacking))


def breakdown(frame: pd.DataFrame) -> Finding:
    """FIX Fig. 9: where a step's time goes as the batch grows."""
    terms = {term: _steps(frame, f"{term}_time").get(DYNAMIC, {}) for term in throughput.TERMS}
    sizes = sorted(set.intersection(*(set(rows) for rows in terms.values())))
    if len(sizes) < 2:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_STEPS)
    ours = tuple(
        number(terms[term][size], f"{DYNAMIC}, batch size {size}: {term}") for size in sizes for term in terms
    )
    smallest, largest = sizes[0], sizes[-1]
    environment = [terms["environment"][size].value for size in (smallest, largest)]
    learner = [terms["learner"][size].value for size in sizes]
    constant = max(environment) < 1.5 * min(environment)
    grows = all(a < b for a, b in pairwise(learner))
    bottleneck = {size: max(terms, key=lambda term: terms[term][size].value) for size in sizes}
    explanation = (
        f"From batch size {smallest} to {largest} the environment's time changes by "
        f"{environment[1] / environment[0]:.2f}x, the learner's by {learner[-1] / learner[0]:.1f}x. The largest part: "
        + ", ".join(f"{part} at {size}" for size, part in bottleneck.items())
        + ". The learner is this processor's, where FIX has its accelerator."
    )
    if noisy(
        frame.loc[[int(terms[term][size].Index) for size in sizes for term in ("environment", "learner")]]
    ):
        return Finding(Outcome.NO_VERDICT, ours, f"{explanation} Some rows are too noisy.")
    if constant and grows and bottleneck[largest] == "learner":
        return Finding(Outcome.IN_KIND, ours, explanation)
    return Finding(Outcome.NOT_REPRODUCED, ours, explanation)
