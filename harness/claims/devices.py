"""Checks of one kind of device beside another, primitive by primitive (MAP Fig. 11, 12; PRL Fig. 6, 7)."""

import pandas as pd

from harness import simulated_profile
from harness.claims.base import Finding, Outcome
from harness.claims.evidence import noisy, number, records, select
from harness.claims.number import Number, from_text, ratio

CPU, GPU, FPGA = "cpu", "cuda", "fpga"
WORDS = {
    GPU: "a CUDA device",
    FPGA: "FPGA primitives (simulated)",
}
REFERENCE = "reference"
"""Kept out: it defines what is right, and stands for no device."""


def commands(workload: str, *batch_sizes: int) -> tuple[str, ...]:
    """What makes a workload's rows where no small tier does: on the devices that are here, and simulated."""
    return tuple(
        f"placerl profile {workload} --batch-size {size}{device}"
        for size in batch_sizes
        for device in ("", " --device fpga:u200")
    )


def reads(workload: str, *, timed: bool = True) -> tuple[str, ...]:
    """The cells of a workload's primitive table, as `Claim.reads` takes them.

    Args:
        workload: its name.
        timed: those of the devices that are here, too.
    """
    simulated = f"{simulated_profile.CELL}/{workload}"
    return (f"profile/{workload}", simulated) if timed else (simulated,)


def times(frame: pd.DataFrame, workload: str, *primitives: str) -> pd.DataFrame:
    """Timed and simulated rows of the primitives of one workload, with the `kind` of their device."""
    suites = ("profile", simulated_profile.SUITE)
    rows = select(frame, quantity="time_per_call", workload=workload)
    rows = rows[rows["suite"].isin(suites) & rows["primitive"].isin(primitives)]
    rows = rows[rows["backend"] != REFERENCE]
    return rows.assign(kind=rows["device"].str.split(":").str[0])


def fastest(rows: pd.DataFrame) -> dict[str, dict[int, Number]]:
    """The fastest backend of each kind of device at each batch size; its time."""
    found: dict[str, dict[int, Number]] = {}
    for _, some in rows.groupby(["kind", "batch_size"]):
        (row,) = records(some.nsmallest(1, "value"))
        name = f"{row.primitive}, {row.backend} on {row.device}, batch size {row.batch_size}"
        found.setdefault(row.kind, {})[int(row.batch_size)] = number(row, name)
    return found


def lacking(found: dict[str, dict[int, Number]], *kinds: str) -> str:
    """What a check of these kinds of device lacks; empty where it has them all."""
    return " and ".join(WORDS[kind] for kind in kinds if kind in WORDS and kind not in found)


def _listed(found: dict[str, dict[int, Number]]) -> tuple[Number, ...]:
    return tuple(found[kind][size] for kind in sorted(found) for size in sorted(found[kind]))


def crossover(frame: pd.DataFrame, workload: str, fpga_below: str, gpu_above: str) -> Finding:
    """Whether a gradient step is fastest on the FPGA at small batches and on the GPU at large ones.

    Args:
        frame: rows of a run.
        workload: its name.
        fpga_below, gpu_above: keys of the text's batch sizes.
    """
    rows = times(frame, workload, "learner.step")
    found = fastest(rows)
    ours = _listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    small, large = (n.value for n in from_text(fpga_below, gpu_above))
    first = {size: min(found, key=lambda kind: _at(found, kind, size)) for size in _shared(found)}
    below, above = (
        [kind for size, kind in first.items() if test(size)]
        for test in (lambda size: size < small, lambda size: size > large)
    )
    if not below or not above:
        return Finding(Outcome.NOT_RUN, ours, needs=f"batch sizes below {small:g} and above {large:g}")
    if noisy(rows):
        return Finding(Outcome.NO_VERDICT, ours, "Some rows are too noisy.")
    holds = set(below) == {FPGA} and set(above) == {GPU}
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, ours, _who(first))


def smallest_network(frame: pd.DataFrame) -> Finding:
    """MAP Fig. 11, CartPole: the FPGA trains fastest, and by what factor."""
    rows = times(frame, "cartpole-ddpg", "learner.step")
    found = fastest(rows)
    ours = _listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    first = {size: min(found, key=lambda kind: _at(found, kind, size)) for size in _shared(found)}
    wins = sum(kind == FPGA for kind in first.values())
    if not first:
        return Finding(Outcome.NOT_RUN, ours, needs="one batch size on every device")
    if noisy(rows):
        return Finding(Outcome.NO_VERDICT, ours, "Some rows are too noisy.")
    return Finding(Outcome.IN_KIND if wins == len(first) else Outcome.NOT_REPRODUCED, ours, _who(first))


def gpu_over_cpu(frame: pd.DataFrame, workload: str = "cartpole-dqn") -> Finding:
    """PRL Fig. 7: a gradient step is faster on the GPU than on the CPU, and on the FPGA where it is small."""
    rows = times(frame, workload, "learner.step")
    found = fastest(rows)
    ours = _listed(found)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    sizes = _shared(found)
    if len(sizes) < 2:
        return Finding(Outcome.NOT_RUN, ours, needs="two batch sizes on every device")
    if noisy(rows):
        return Finding(Outcome.NO_VERDICT, ours, "Some rows are too noisy.")
    first = {size: min(found, key=lambda kind: _at(found, kind, size)) for size in sizes}
    over_cpu = all(_at(found, GPU, size) < _at(found, CPU, size) for size in sizes)
    holds = over_cpu and first[sizes[0]] == FPGA and first[sizes[-1]] == GPU
    said = f"The GPU is {'' if over_cpu else 'not '}faster than the CPU at every batch size. {_who(first)}"
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, ours, said)


def growth(frame: pd.DataFrame, workload: str = "cartpole-dqn") -> Finding:
    """PRL Fig. 6: how much longer replay operations take at the largest batch than at the smallest."""
    rows = times(frame, workload, "sum_tree.sample", "sum_tree.update")
    grown: dict[str, list[Number]] = {}
    for primitive, some in rows.groupby("primitive"):
        for kind, sizes in fastest(some).items():
            low, high = min(sizes), max(sizes)
            if low < high:
                name = f"{primitive} on {kind}: batch size {high} over {low}"
                grown.setdefault(kind, []).append(ratio(name, sizes[high], sizes[low]))
    ours = tuple(n for numbers in grown.values() for n in numbers)
    if needs := " and ".join(WORDS[kind] for kind in (GPU, FPGA) if kind not in grown):
        return Finding(Outcome.NOT_RUN, ours, needs=needs)
    if noisy(rows):
        return Finding(Outcome.NO_VERDICT, ours, "Some rows are too noisy.")
    worst = {kind: max(n.value for n in numbers) for kind, numbers in grown.items()}
    holds = max(worst[GPU], worst[FPGA]) < worst.get(CPU, 0.0)
    said = "; ".join(f"{kind} up to {value:.3g} times as long" for kind, value in sorted(worst.items()))
    return Finding(
        Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED,
        ours,
        f"From the smallest batch to the largest: {said}.",
    )


def fpga_over_gpu(frame: pd.DataFrame, primitive: str, low_key: str, high_key: str) -> Finding:
    """MAP Fig. 12: how many times as fast an operation of the replay is on the FPGA as on the GPU.

    Args:
        frame: rows of a run.
        primitive: which.
        low_key, high_key: keys of the ends of the text's range; of a low end below 1 the text gives the inverse.
    """
    rows = times(frame, "hopper-ddpg", primitive)
    found = fastest(rows)
    if needs := lacking(found, GPU, FPGA):
        return Finding(Outcome.NOT_RUN, _listed(found), needs=needs)
    gains = [
        ratio(f"batch size {size}: FPGA over GPU", found[GPU][size], found[FPGA][size])
        for size in sorted(set(found[GPU]) & set(found[FPGA]))
    ]
    if not gains:
        return Finding(Outcome.NOT_RUN, _listed(found), needs="one batch size on GPU and FPGA")
    if noisy(rows[rows["kind"] == GPU]):
        return Finding(Outcome.NO_VERDICT, tuple(gains), "Some rows are too noisy.")
    low, high = (n.value for n in from_text(low_key, high_key))
    crosses = low_key.endswith(
        "gpu_over_fpga_high"
    )  # faster at the low end of the batches, slower at the high
    low = 1 / low if crosses else low
    values = [gain.value for gain in gains]
    in_kind = values[0] > 1 > values[-1] if crosses else min(values) > 1
    as_published = in_kind and low <= min(values) and max(values) <= high
    said = f"From {min(values):.3g} to {max(values):.3g} times as fast over {len(values)} batch sizes."
    if in_kind:
        return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(gains), said)
    return Finding(Outcome.NOT_REPRODUCED, tuple(gains), said)


def gpu_constant(frame: pd.DataFrame) -> Finding:
    """MAP Fig. 12: on the GPU the prefix sum index takes as long for a large batch, the update longer in proportion."""
    grown, unsure = {}, False
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        rows = times(frame, "hopper-ddpg", primitive)
        unsure |= noisy(rows[rows["kind"] == GPU])
        found = fastest(rows).get(GPU, {})
        if len(found) < 2:
            return Finding(Outcome.NOT_RUN, needs=f"{WORDS[GPU]}, two batch sizes of Hopper's sum tree")
        low, high = min(found), max(found)
        grown[primitive] = ratio(f"{primitive}: batch size {high} over {low}", found[high], found[low])
    sample, update = grown.values()
    if unsure:
        return Finding(Outcome.NO_VERDICT, (sample, update), "Some rows are too noisy.")
    said = "The prefix sum index should take about as long at every batch size, the update longer in proportion to it."
    holds = sample.value < 2 and update.value > 2 * sample.value
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, (sample, update), said)


def fpga_linear(frame: pd.DataFrame) -> Finding:
    """MAP VII-C: above a batch size the FPGA's replay operations take time in proportion to the batch."""
    above = from_text("MAP.fpga_replay_linear_above")[0].value
    ours = []
    for primitive in ("sum_tree.sample", "sum_tree.update"):
        found = fastest(times(frame, "hopper-ddpg", primitive)).get(FPGA, {})
        sizes = sorted(size for size in found if size > above)
        if len(sizes) < 2:
            return Finding(Outcome.NOT_RUN, needs=f"{WORDS[FPGA]}, two batch sizes above {above:g}")
        low, high = sizes[0], sizes[-1]
        grown = ratio("grown", found[high], found[low])
        share = grown.value / (high / low)
        name = f"{primitive}: time grown from batch size {low} to {high}, over the batch's growth"
        ours.append(Number(name, share, "1", grown.provenance, grown.source, rows=grown.rows))
    holds = all(abs(n.value - 1) <= 0.1 for n in ours)
    said = "1 is growth in proportion; within 10% of it counts as linear."
    return Finding(Outcome.REPRODUCED if holds else Outcome.NOT_REPRODUCED, tuple(ours), said)


def _at(found: dict[str, dict[int, Number]], kind: str, size: int) -> float:
    return found[kind][size].value if size in found[kind] else float("inf")


def _shared(found: dict[str, dict[int, Number]]) -> list[int]:
    """The batch sizes that every device that was asked about has, rising."""
    kinds = [kind for kind in (CPU, GPU, FPGA) if kind in found]
    return sorted(set.intersection(*(set(found[kind]) for kind in kinds)))


def _who(first: dict[int, str]) -> str:
    words = {GPU: "GPU", CPU: "CPU", FPGA: "FPGA"}
    return f"Fastest by batch size: {', '.join(f'{s} {words.get(k, k)}' for s, k in sorted(first.items()))}."


def replay_behind_learner(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: above a batch size CartPole's replay hides behind the learner, where both are on the FPGA."""
    above = from_text("MAP.cartpole_replay_hidden_above")[0].value
    parts = ("learner.step", "sum_tree.sample", "sum_tree.update")
    found = {part: fastest(times(frame, "cartpole-ddpg", part)).get(FPGA, {}) for part in parts}
    learner, *replay = found.values()
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
    said = f"Sampling and updating together against the learner's step, by batch size: {words}."
    holds = all(hidden[size] for size in judged)
    return Finding(Outcome.IN_KIND if holds else Outcome.NOT_REPRODUCED, ours, said)
