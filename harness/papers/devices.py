"""Checks that compare the times of primitives on CPU, GPU and FPGA (MAP Fig. 11, 12; PRL Fig. 6, 7).

A primitive is an operation that is timed on its own: `learner.step`, `sum_tree.sample` or `sum_tree.update`.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from harness.core.provenance import Provenance
from harness.core.suites import Suite
from harness.papers import charts
from harness.papers.base import Finding, Outcome
from harness.papers.charts import Panel
from harness.papers.evidence import agrees, detail, number, records, select
from harness.papers.number import Number, from_text, ratio
from harness.profile import simulated as simulated_profile

CPU, GPU, FPGA, OPENCL = "cpu", "cuda", "fpga", "opencl"
WORDS = {
    CPU: "the same on the CPU",
    GPU: "a CUDA device",
    FPGA: "FPGA primitives (simulated)",
}
LINEAR = 0.1
"""Largest relative difference from proportional growth at which a time counts as linear in the batch size."""
REFERENCE = "reference"
"""The backend whose rows are left out: it defines the correct results and represents no device."""


def commands(workload: str, *batch_sizes: int) -> tuple[str, ...]:
    """Return the commands that profile a workload on this machine's devices and on the simulated FPGA.

    A claim lists such commands if only a large tier of the plan profiles the workload.

    Args:
        workload: name of the workload.
        batch_sizes: batch sizes to profile; two commands for each.
    """
    return tuple(
        f"placerl profile {workload} --batch-size {size}{device}"
        for size in batch_sizes
        for device in ("", " --device fpga:u200")
    )


def reads(workload: str, *, timed: bool = True) -> tuple[str, ...]:
    """Return the keys of the cells (pieces of the plan) that profile a workload's primitives.

    Args:
        workload: name of the workload.
        timed: whether to include the cells that time real devices, next to those that simulate the FPGA.

    Returns:
        Beginnings of keys, such as "profile/hopper-ddpg", as `Claim.reads` takes them.
    """
    simulated = f"{simulated_profile.CELL}/{workload}"
    return (f"profile/{workload}", simulated) if timed else (simulated,)


def times(frame: pd.DataFrame, workload: str, *primitives: str) -> pd.DataFrame:
    """Return the times per call of some primitives of one workload, on real devices and on the simulated FPGA.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.
        primitives: names, such as "sum_tree.sample".

    Returns:
        The rows of `frame` with these times, except those of the reference backend. A column `kind` is added: the
        device's name up to the colon, such as "cpu", "cuda" or "fpga".
    """
    suites = (Suite.PROFILE, simulated_profile.SUITE)
    rows = select(frame, quantity="time_per_call", workload=workload)
    rows = rows[rows["suite"].isin(suites) & rows["primitive"].isin(primitives)]
    rows = rows[rows["backend"] != REFERENCE]
    return rows.assign(kind=rows["device"].str.split(":").str[0])


def fastest(rows: pd.DataFrame) -> dict[str, dict[int, Number]]:
    """Return the time of the fastest backend of each kind of device at each batch size.

    Args:
        rows: stored measurements from `times`, with the column `kind`.

    Returns:
        The times by kind of device ("cpu", "cuda", "fpga"), and then by batch size.
    """
    found: dict[str, dict[int, Number]] = {}
    for _, some in rows.groupby(["kind", "batch_size"]):
        (row,) = records(some.nsmallest(1, "value"))
        name = f"{row.primitive}, {row.backend} on {row.device}, batch size {row.batch_size}"
        found.setdefault(row.kind, {})[int(row.batch_size)] = number(row, name)
    return found


def lacking(found: dict[str, dict[int, Number]], *kinds: str) -> str:
    """Return a text that names the devices whose times a check needs and does not have; empty if none is missing.

    Args:
        found: times from `fastest`, by kind of device.
        kinds: the kinds of devices that the check needs: "cpu", "cuda" or "fpga".
    """
    return " and ".join(WORDS[kind] for kind in kinds if kind in WORDS and kind not in found)


def learner_times(frame: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Return the times of a workload's gradient step, on real devices and on the simulated FPGA.

    On the FPGA these are the times of two learners: the one on the systolic core, and MAP's pipeline.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.

    Returns:
        The rows of `frame` with these times, with a column `kind`: "cpu", "cuda" or "fpga".
    """
    return times(frame, workload, "learner.step", simulated_profile.PIPELINE)


def replay_times(frame: pd.DataFrame, workload: str, call: str) -> pd.DataFrame:
    """Return the times of a replay operation, on real devices and on the simulated FPGA.

    On the FPGA these are the times of two replay managers: with one sub-tree (S = 1), and with as many as MAP's
    exploration chooses (VI-A2), where a tier simulates it.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.
        call: "sum_tree.sample" or "sum_tree.update".

    Returns:
        The rows of `frame` with these times, with a column `kind`: "cpu", "cuda" or "fpga".
    """
    return times(frame, workload, call, simulated_profile.BANKED[call])


def first_at(found: dict[str, dict[int, Number]], size: int) -> str | None:
    """Return the kind of device that is fastest at a batch size; None if the intervals of two kinds overlap.

    A simulated time has no interval, because its cycles are exact. If a measured time has no interval, the result is
    None.

    Args:
        found: times from `fastest`, by kind of device and batch size.
        size: the batch size.
    """
    at = {kind: sizes[size] for kind, sizes in found.items() if size in sizes}
    best = min(at, key=lambda kind: at[kind].value)
    bounds = {kind: _bounds(time) for kind, time in at.items()}
    mine = bounds.pop(best)
    if mine is None or any(other is None or mine[1] >= other[0] for other in bounds.values()):
        return None
    return best


def _exact(time: Number) -> Number:
    """Return a cycle-based time with itself as interval."""
    bounds = _bounds(time)
    return time if bounds is None else replace(time, low=bounds[0], high=bounds[1])


def _bounds(time: Number) -> tuple[float, float] | None:
    if time.low is not None and time.high is not None:
        return time.low, time.high
    return None if time.provenance is Provenance.MEASURED else (time.value, time.value)


def _ordered(frame: pd.DataFrame, found: dict[str, dict[int, Number]], expected: dict[int, str]) -> Finding:
    """Return whether the expected kind of device is fastest at each batch size, with its whole interval."""
    ours = _listed(found)
    first = {size: first_at(found, size) for size in _shared(found)}
    who = _who(first)
    return Finding(_outcome([(first[size], kind) for size, kind in expected.items()]), ours, who)


def _outcome(judged: Sequence[tuple[str | None, str]]) -> Outcome:
    """Return the outcome of comparisons, each the kind of device that is first, None if intervals overlap, and the kind
    that should be.
    """
    if any(one is not None and one != kind for one, kind in judged):
        return Outcome.NOT_REPRODUCED
    return Outcome.IN_KIND if all(one for one, _ in judged) else Outcome.NO_VERDICT


def _listed(found: dict[str, dict[int, Number]]) -> tuple[Number, ...]:
    return tuple(found[kind][size] for kind in sorted(found) for size in sorted(found[kind]))


def crossover(frame: pd.DataFrame, workload: str, fpga_below: str, gpu_above: str) -> Finding:
    """Check whether a gradient step is fastest on the FPGA at small batches and on the GPU at large ones.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload.
        fpga_below: name of the batch size in the paper's text below which the FPGA is fastest, such as
            "MAP.fpga_training_best_below_hopper" (`published.text`).
        gpu_above: name of the batch size in the paper's text above which the GPU is fastest.
    """
    found = fastest(learner_times(frame, workload))
    ours = _listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    small, large = (n.value for n in from_text(fpga_below, gpu_above))
    below = {size: FPGA for size in _shared(found) if size < small}
    above = {size: GPU for size in _shared(found) if size > large}
    if not below or not above:
        return Finding(Outcome.NOT_RUN, ours, needs=f"batch sizes below {small:g} and above {large:g}")
    return _ordered(frame, found, below | above)


def smallest_network(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 11, CartPole: the FPGA trains fastest at every batch size.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    found = fastest(learner_times(frame, "cartpole-ddpg"))
    ours = _listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    if not _shared(found):
        return Finding(Outcome.NOT_RUN, ours, needs="one batch size on every device")
    return _ordered(frame, found, dict.fromkeys(_shared(found), FPGA))


def gpu_over_cpu(frame: pd.DataFrame, workload: str = "cartpole-dqn") -> Finding:
    """Check PRL Fig. 7: a gradient step is faster on the GPU than on the CPU, and on the FPGA if it is small.

    The FPGA has to be fastest at the smallest batch size, and the GPU at the largest. PRL's learner on the FPGA is
    copies of a pipeline with units for every layer (4.2.1), as MAP's is; of the simulated learners the faster one
    counts (`learner_times`).

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload whose gradient step is compared.
    """
    rows = learner_times(frame, workload)
    found = fastest(rows)
    ours = _listed(found)
    if needs := lacking(found, CPU, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    sizes = _shared(found)
    if len(sizes) < 2:
        return Finding(Outcome.NOT_RUN, ours, needs="two batch sizes on every device")
    first = {size: first_at(found, size) for size in sizes}
    two = {kind: found[kind] for kind in (CPU, GPU)}
    over_cpu = [first_at(two, size) for size in sizes]
    judged = [(first[sizes[0]], FPGA), (first[sizes[-1]], GPU), *((one, GPU) for one in over_cpu)]
    said = (
        f"The GPU is faster than the CPU at {over_cpu.count(GPU)} of {len(sizes)} batch sizes. {_who(first)}"
    )
    return Finding(_outcome(judged), ours, said)


def growth(frame: pd.DataFrame, workload: str = "cartpole-dqn") -> Finding:
    """Check PRL Fig. 6: on GPU and FPGA, the time of replay operations grows less with the batch than on the CPU.

    The growth is the time at the largest batch size that all three devices have, divided by that at the smallest.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        workload: name of the workload whose replay operations are compared.
    """
    rows = times(frame, workload, "sum_tree.sample", "sum_tree.update")
    grown: dict[str, list[Number]] = {}
    for primitive, some in rows.groupby("primitive"):
        found = fastest(some)
        sizes = _shared(found)
        if len(sizes) < 2:
            continue
        low, high = sizes[0], sizes[-1]
        for kind in (each for each in (CPU, GPU, FPGA) if each in found):
            name = f"{primitive} on {kind}: batch size {high} over {low}"
            made = ratio(name, _exact(found[kind][high]), _exact(found[kind][low]))
            grown.setdefault(kind, []).append(made)
    ours = tuple(n for numbers in grown.values() for n in numbers)
    if needs := lacking({kind: {} for kind in rows["kind"]}, CPU, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    if not grown:
        return Finding(Outcome.NOT_RUN, ours, needs="two batch sizes on every device")
    worst = {kind: max(numbers, key=lambda n: n.value) for kind, numbers in grown.items()}
    least = [first_at({kind: {0: worst[kind]}, CPU: {0: worst[CPU]}}, 0) for kind in (GPU, FPGA)]
    said = "; ".join(f"{kind} up to {n.value:.3g} times as long" for kind, n in sorted(worst.items()))
    return Finding(
        _outcome(list(zip(least, (GPU, FPGA), strict=True))),
        ours,
        f"From the smallest batch to the largest: {said}.",
    )


def fpga_over_gpu(frame: pd.DataFrame, primitive: str, low_key: str, high_key: str) -> Finding:
    """Check MAP Fig. 12: the speedup of a replay operation on the FPGA over the GPU.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
        primitive: the operation, such as "sum_tree.update".
        low_key, high_key: names of the ends of the published range, such as "MAP.prefix_sum_fpga_over_gpu_high"
            (`published.text`). A low key that ends in "gpu_over_fpga_high" gives the GPU's speedup over the FPGA, the
            inverse: then the FPGA has to be faster at the smallest batch size and the GPU at the largest.
    """
    rows = replay_times(frame, "hopper-ddpg", primitive)
    found = fastest(rows)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, _listed(found), needs=needs)
    gains = [
        ratio(f"batch size {size}: FPGA over GPU", found[GPU][size], _exact(found[FPGA][size]))
        for size in sorted(set(found[GPU]) & set(found[FPGA]))
    ]
    if not gains:
        return Finding(Outcome.NOT_RUN, _listed(found), needs="one batch size on GPU and FPGA")
    low, high = (n.value for n in from_text(low_key, high_key))
    crosses = low_key.endswith("gpu_over_fpga_high")
    low = 1 / low if crosses else low
    values = [gain.value for gain in gains]
    said = f"From {min(values):.3g} to {max(values):.3g} times as fast over {len(values)} batch sizes."
    if crosses:  # the FPGA is faster at the smallest batch, the GPU at the largest
        if len(gains) < 2:
            return Finding(Outcome.NOT_RUN, tuple(gains), needs="two batch sizes on GPU and FPGA")
        holds = [gains[0].above(1), gains[-1].below(1)]
        refuted = gains[0].below(1) or gains[-1].above(1)
    else:
        holds = [gain.above(1) for gain in gains]
        refuted = any(gain.below(1) for gain in gains)
    if not all(holds):
        return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, tuple(gains), said)
    least, most = (pick(gains, key=lambda gain: gain.value) for pick in (min, max))
    as_published = agrees(least, low) and agrees(most, high)
    return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(gains), said)


def gpu_constant(frame: pd.DataFrame) -> Finding:
    """Check MAP Fig. 12: on the GPU, the prefix sum index takes constant time, and the update grows with the batch.

    From the smallest batch size to the largest, the index may take less than twice as long, and the update has to
    grow by more than twice as much as the index.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    grown = {}
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        found = fastest(times(frame, "hopper-ddpg", primitive)).get(GPU, {})
        if len(found) < 2:
            return Finding(Outcome.NOT_RUN, needs=f"{WORDS[GPU]}, two batch sizes of Hopper's sum tree")
        low, high = min(found), max(found)
        grown[primitive] = ratio(f"{primitive}: batch size {high} over {low}", found[high], found[low])
    sample, update = grown.values()
    said = (
        "The prefix sum index should take about as long at every batch size, less than twice, and the update longer in "
        "proportion to it, more than twice as much longer as the index."
    )
    over = ratio("the update's growth over the index's", update, sample)
    if sample.below(2) and over.above(2):
        return Finding(Outcome.IN_KIND, (sample, update, over), said)
    refuted = sample.above(2) or over.below(2)
    return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, (sample, update, over), said)


def _over_one_thread(rows: pd.DataFrame, kind: str) -> dict[int, Number]:
    """Return the time on a kind of device over that of one CPU thread, by ascending batch size."""
    there = fastest(rows[rows["kind"] == kind]).get(kind, {})
    here = fastest(rows[rows["backend"] == ONE_THREAD]).get(CPU, {})
    on = "the OpenCL device" if kind == OPENCL else f"the {NAMES[kind]}"
    return {
        size: ratio(f"batch size {size}: time on {on} over one CPU thread", there[size], here[size])
        for size in sorted(there.keys() & here.keys())
    }


ONE_THREAD = "native"
"""The backend of the sum tree whose calls use one thread of the CPU."""
NEEDS_SMALL_ON_GPU = (
    "Hopper's sum tree on a CUDA device and natively on one thread, profiled at one batch size"
)


def gpu_slower_at_small_batches(frame: pd.DataFrame) -> Finding:
    """Check MAP IV-C3: at the smallest batch the GPU finds prefix sums more slowly than one thread of the CPU.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    rows = times(frame, "hopper-ddpg", "sum_tree.sample")
    found = _over_one_thread(rows, GPU)
    if not found:
        stand_in = tuple(_over_one_thread(rows, OPENCL).values())
        said = (
            "An OpenCL device, which may be this CPU, stands in: it shows what the calls of a device's runtime cost at "
            "small batches, and decides nothing about a GPU."
        )
        return Finding(Outcome.NOT_RUN, stand_in, said if stand_in else "", needs=NEEDS_SMALL_ON_GPU)
    ours, least = tuple(found.values()), min(found)
    said = f"Judged at the smallest batch size, {least}; the paper does not say how small."
    if ours[0].above(1):
        return Finding(Outcome.REPRODUCED, ours, said)
    return Finding(Outcome.NOT_REPRODUCED if ours[0].below(1) else Outcome.NO_VERDICT, ours, said)


def fpga_linear(frame: pd.DataFrame) -> Finding:
    """Check MAP VII-C: the time of the FPGA's replay operations is proportional to large batch sizes.

    Below a batch size that MAP states, the time has to grow less than in proportion.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    limit = from_text("MAP.fpga_replay_linear_above")[0].value
    ours: list[Number] = []
    used: set[int] = set()
    linear: list[float] = []
    less: list[float] = []
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        found = fastest(replay_times(frame, "hopper-ddpg", primitive)).get(FPGA, {})
        used |= {label for each in found.values() for label in each.rows}
        below, above = ([size for size in sorted(found) if (size > limit) is big] for big in (False, True))
        if len(below) < 2 or len(above) < 2:
            return Finding(
                Outcome.NOT_RUN, needs=f"{WORDS[FPGA]}, two batch sizes below {limit:g} and two above"
            )
        for sizes, kept in ((below, less), (above, linear)):
            share = _share_of_growth(primitive, found, sizes[0], sizes[-1])
            ours.append(share)
            kept.append(share.value)
    said = (
        f"1 is growth in proportion; within {LINEAR:.0%} of it counts as linear. Ours has S = {_banks(frame, used)} at "
        "every batch size and grows less at small ones because the pipelines fill; MAP's adds banks up to S = 32."
    )
    if all(abs(share - 1) <= LINEAR for share in linear) and all(share < 1 - LINEAR for share in less):
        return Finding(Outcome.IN_KIND, tuple(ours), said)
    return Finding(Outcome.NOT_REPRODUCED, tuple(ours), said)


def _banks(frame: pd.DataFrame, labels: set[int]) -> str:
    """Return the numbers of sub-trees (S) of replay rows, as text."""
    found = {int(detail(row, "banks") or 1) for row in records(frame.loc[sorted(labels)])}
    return " and ".join(map(str, sorted(found)))


def _share_of_growth(primitive: str, found: dict[int, Number], low: int, high: int) -> Number:
    """Return the ratio of times at two batch sizes divided by the ratio of the batch sizes."""
    grown = ratio("grown", found[high], found[low])
    name = f"{primitive}: time grown from batch size {low} to {high}, over the batch's growth"
    return Number(name, grown.value / (high / low), "1", grown.provenance, grown.source, rows=grown.rows)


def _shared(found: dict[str, dict[int, Number]]) -> list[int]:
    """Return the batch sizes that all requested devices have, ascending."""
    kinds = [kind for kind in (CPU, GPU, FPGA) if kind in found]
    return sorted(set.intersection(*(set(found[kind]) for kind in kinds))) if kinds else []


def _who(first: dict[int, str | None]) -> str:
    said = ", ".join(
        f"{size} {NAMES.get(kind, kind) if kind else 'not told apart'}"
        for size, kind in sorted(first.items())
    )
    return f"Fastest by batch size: {said}."


def replay_behind_learner(frame: pd.DataFrame) -> Finding:
    """Check MAP VII-D: with both on the FPGA, CartPole's learner hides replay at large batch sizes.

    Replay is hidden if sampling and updating priorities together take less time than the learner's gradient step.
    This is judged above the batch size that MAP states.

    Args:
        frame: the stored measurements of a run, one per row, as `Store.frame()` returns them.
    """
    above = from_text("MAP.cartpole_replay_hidden_above")[0].value
    learner = fastest(learner_times(frame, "cartpole-ddpg")).get(FPGA, {})
    replay = [
        fastest(replay_times(frame, "cartpole-ddpg", part)).get(FPGA, {})
        for part in ("sum_tree.sample", "sum_tree.update")
    ]
    shares = {
        size: [
            ratio(f"{each[size].quantity}: over the learner's step", each[size], learner[size])
            for each in replay
        ]
        for size in sorted(set(learner).intersection(*replay))
    }
    ours = tuple(share for some in shares.values() for share in some)
    hidden = {size: sum(share.value for share in some) < 1 for size, some in shares.items()}
    judged = [size for size in hidden if size > above]
    if not judged:
        needs = f"CartPole's learner and sum tree on the FPGA above batch size {above:g} (simulated)"
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    words = ", ".join(f"{size}: {'hidden' if hides else 'not hidden'}" for size, hides in hidden.items())
    said = f"Sampling and updating against the step of the faster of the FPGA's learners, by batch size: {words}."
    holds = all(hidden[size] for size in judged)
    if not any(share.provenance is Provenance.SIMULATED for share in ours):
        said += " The learner's cycles are modelled, and so are these shares."
        return Finding(Outcome.CONSISTENT if holds else Outcome.NO_VERDICT, ours, said)
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, ours, said)


NAMES = {CPU: "CPU", OPENCL: "OpenCL", GPU: "GPU", FPGA: "FPGA"}
"""Names of the kinds of devices, as readers see them."""


def panel(rows: pd.DataFrame, title: str, published_x: Sequence[tuple[str, float]] = ()) -> Panel:
    """Return the axes of a chart with the time over the batch size, one line per kind of device.

    The line of a kind of device, such as the GPU, shows its fastest backend.

    Args:
        rows: stored measurements from `times`, with the column `kind`.
        title: title of the panel.
        published_x: batch sizes that the paper names, each as (label, batch size).
    """
    found = fastest(rows)
    return Panel(
        "batch size",
        "time per call (s)",
        [charts.line(NAMES[kind], sorted(found[kind].items())) for kind in NAMES if kind in found],
        title,
        log_x=True,
        log_y=True,
        published_x=published_x,
    )
