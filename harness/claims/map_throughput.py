"""Checks of MAP's throughput over a store's rows: Table V, gains over RLlib, replay beside the learner."""

from dataclasses import replace
from typing import Any

import pandas as pd

from harness.claims import published
from harness.claims.base import Finding, Outcome
from harness.claims.comparisons import gains, gains_on_gpu
from harness.claims.evidence import detail, mapping_of, noisy, number, records, select
from harness.claims.number import Number, from_cell, from_text, merge_rows, ratio, shortfall
from harness.compare import Part, label
from harness.provenance import Provenance
from harness.starting import RLLIB

MODEL = "map-tpds23"  # the strategy that predicts as MAP does
TABLE_5, GAIN_ROW = "map_table_5", "{} mapping: speed-up of the optimal one"
NEEDS_TABLE_5 = "`placerl reproduce --only MAP-T5`"
CARTPOLE = ("cartpole-dqn", "cartpole-ddpg")
ALONE = tuple(f"compare/{name}/{label(line, Part.LEARNER_AND_REPLAY)}" for name in CARTPOLE for line in RLLIB)
NEEDS_RLLIB_ON_GPU = "the baseline RLlib beside a mapping with a learner on a CUDA device (`placerl compare`)"
NEEDS_ALONE = "CartPole's learner and replay alone beside RLlib's (`placerl compare cartpole-ddpg --alone`)"


def table_5(frame: pd.DataFrame) -> Finding:
    """MAP Table V: its optimal mappings on MAP's platform, modelled, and the gain of the best mapping on this one."""
    cells = records(select(frame, suite="claim", primitive="mapping", quantity="as_printed", backend=MODEL))
    if not cells:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_TABLE_5)
    agree = sum(row.value == 1 for row in cells)
    rows = tuple(int(row.Index) for row in cells)
    source = "Algorithm 3 on times modelled from the published numbers of MAP's platform"
    name = f"optimal mappings as printed, of {len(cells)}"
    ours = [Number(name, agree, "count", Provenance.MODELLED, source, rows=rows)]
    missed = [
        f"{row.workload}, batch size {row.batch_size}: {detail(row, 'ours')} for {detail(row, 'published')}: "
        f"{detail(row, 'reason')}"
        for row in cells
        if row.value != 1
    ]
    ours += _best_over_worst(frame)
    explanation = "; ".join(missed) + "." if missed else "All of them come out."
    if not missed:
        outcome = Outcome.REPRODUCED
    elif _learner_devices(cells, "ours") == _learner_devices(cells, "published"):
        outcome = Outcome.IN_KIND
        explanation += " Over the batch size the learner moves between the same devices in the same order."
    else:
        outcome = Outcome.NOT_REPRODUCED
    explanation += (
        " The paper's gains over other mappings are of its devices, which MAP-T5-gains models; those here are of this "
        "machine's."
    )
    return Finding(outcome, tuple(ours), explanation)


NEAR = 0.2
"""A modelled gain counts as the published one within this share of it."""


def table_5_gains(frame: pd.DataFrame) -> Finding:
    """MAP Table V: gains of its optimal mappings over the second best and the worst, modelled on MAP's platform."""
    found = records(select(frame, suite="claim", primitive="mapping", quantity="gain", backend=MODEL))
    if not found:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_TABLE_5)
    gains = []
    for row in found:
        named = f"{detail(row, 'optimal')} over {detail(row, 'other')}, {detail(row, 'place')}"
        made = number(row, f"{detail(row, 'column')}: {named}")
        gains.append(replace(made, source="MAP Equation 3 on times modelled from the published numbers"))
    printed = [
        from_cell(TABLE_5, GAIN_ROW.format(detail(row, "place")), detail(row, "column")) for row in found
    ]
    near = [abs(n.value / p.value - 1) <= NEAR for n, p in zip(gains, printed, strict=True)]
    misplaced = [n.quantity for n, row in zip(gains, found, strict=True) if not detail(row, "in_place")]
    lost = [n.quantity for n in gains if n.value <= 1]
    said = (
        f"Modelled at the peaks of Table IV, the optimal mapping is the faster one in {len(gains) - len(lost)} of the "
        f"{len(gains)} printed pairs, and in {sum(near)} by as much as printed within {NEAR:.0%}. "
    )
    if misplaced:
        said += f"Not where they are printed among all mappings: {'; '.join(misplaced)}. "
    said += (
        "The model knows neither the share of its peak that a device reaches nor what replay management costs a "
        "learner on the same GPU beyond its own time, and the factors hang on both; the columns of two pairs are known "
        "from the position of the cell alone."
    )
    if lost or misplaced:
        return Finding(Outcome.NOT_REPRODUCED, tuple(gains), said)
    return Finding(Outcome.REPRODUCED if all(near) else Outcome.IN_KIND, tuple(gains), said)


def printed_gains() -> tuple[Number, ...]:
    """The gains of MAP Table V that its text gives."""
    cells = [cell for cell in published.table(TABLE_5).cells if cell.value is not None]
    return tuple(
        replace(
            from_cell(TABLE_5, cell.row, cell.column),
            quantity=f"{cell.column}: over the {cell.row.partition(' mapping')[0]}",
        )
        for cell in cells
    )


def _learner_devices(cells: list[Any], name: str) -> dict[str, list[str]]:
    """By workload: the learner's devices over the batch size, each change once."""
    found: dict[str, list[str]] = {}
    for row in sorted(cells, key=lambda row: row.batch_size):
        devices = found.setdefault(row.workload, [])
        device = str(detail(row, name))[0]
        if devices[-1:] != [device]:
            devices.append(device)
    return found


def _best_over_worst(frame: pd.DataFrame) -> list[Number]:
    """The largest gain of the best mapping over the worst in a validation, without and with the simulated FPGA."""
    ran = select(frame, suite="validation", quantity="gradient_steps_per_s")
    ran = ran[[detail(row, "loop") == "fused" for row in records(ran)]] if len(ran) else ran
    found = []
    for what, some in (("", ran[ran["provenance"] == "measured"]), (", FPGA simulated", ran)):
        gains = []
        for (workload, size), cell in some.groupby(["workload", "batch_size"]):
            best, worst = records(cell.nlargest(1, "value"))[0], records(cell.nsmallest(1, "value"))[0]
            name = f"{workload}, batch size {size:g}: {best.device} over {worst.device}{what}"
            gains.append(ratio(name, number(best, "best"), number(worst, "worst")))
        if gains:
            found.append(max(gains, key=lambda gain: gain.value))
    return found if len({gain.rows for gain in found}) == len(found) else found[:1]


def rllib(frame: pd.DataFrame) -> Finding:
    """MAP Fig. 14: gain over RLlib where both have a GPU; the FPGA, which is simulated, is in no comparison."""
    found = gains_on_gpu(frame, *RLLIB)
    if not found:
        ours = tuple(gain.ratio for gain in gains(frame, *RLLIB))
        return Finding(Outcome.NOT_RUN, ours, needs=NEEDS_RLLIB_ON_GPU)
    ours, words = tuple(gain.ratio for gain in found), [gain.verdict for gain in found]
    said = (
        f"On a CUDA device faster in {words.count('faster')} of {len(found)} comparisons, slower in "
        f"{words.count('slower')}; MAP's gains are those of its mappings to GPU and FPGA."
    )
    if "slower" in words:
        return Finding(Outcome.NOT_REPRODUCED, ours, said)
    return Finding(Outcome.NO_VERDICT if "no verdict" in words else Outcome.IN_KIND, ours, said)


def rllib_cartpole(frame: pd.DataFrame) -> Finding:
    """MAP VII-E: the largest gain over RLlib, CartPole's, from learner and replay alone on this machine's CPU."""
    # Of the two lines, 2.6.3 alone has MAP's algorithm for CartPole, DDPG.
    cartpole = frame[frame["workload"].isin(CARTPOLE)]
    found = gains(cartpole, *(label(line, Part.LEARNER_AND_REPLAY) for line in RLLIB))
    if not found:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_ALONE)
    ours = tuple(gain.ratio for gain in found)
    published = from_text("MAP.rllib_speedup_high")[0].value
    words = [gain.verdict for gain in found]
    said = (
        f"Faster in {words.count('faster')} of {len(found)} comparisons of gradient steps with prioritised replay, "
        "without environment steps on either side; both on one core, where MAP's best mapping has an FPGA."
    )
    reached = any((n.value if n.low is None else n.low) >= published for n in ours)
    if "slower" in words:
        return Finding(Outcome.NOT_REPRODUCED, ours, said)
    if "no verdict" in words:
        return Finding(Outcome.NO_VERDICT, ours, said)
    return Finding(Outcome.REPRODUCED if reached else Outcome.IN_KIND, ours, said)


def replay_hidden(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: above batch size 256 Hopper's learner takes longer than the replay manager on the CPU."""
    rows = select(frame, suite="profile", quantity="time_per_call", workload="hopper-ddpg")
    # The claim is about a replay manager on the CPU, whatever the learner is on.
    rows = rows[(rows["device"] == "cpu") | (rows["primitive"] == "learner.step")]
    low, high = (
        from_text(f"MAP.{key}")[0].value
        for key in ("hopper_learner_on_gpu_above", "hopper_replay_on_fpga_at")
    )
    rows = rows[(rows["batch_size"] > low) & (rows["batch_size"] < high)]
    shares = []
    for size in sorted(rows["batch_size"].unique()):
        fastest = {
            primitive: records(some.nsmallest(1, "value"))[0]
            for primitive, some in rows[rows["batch_size"] == size].groupby("primitive")
        }
        if {"learner.step", "sum_tree.sample", "sum_tree.update"} <= set(fastest):
            learner = number(fastest["learner.step"], "learner")
            for operation in ("sum_tree.sample", "sum_tree.update"):
                name = f"batch size {size}: {operation} over the learner's step"
                shares.append(ratio(name, number(fastest[operation], operation), learner))
    if not shares:
        needs = f"Hopper's learner and sum tree profiled at a batch size between {low:g} and {high:g}"
        return Finding(Outcome.NOT_RUN, needs=needs)
    explanation = (
        "Hidden behind the learner when sampling and updating together take less time than its step. The learner "
        "here is this machine's fastest, not the paper's GPU, which hides less."
    )
    pairs = list(zip(shares[::2], shares[1::2], strict=True))
    if noisy(frame.loc[list(merge_rows(shares))]):
        return Finding(Outcome.NO_VERDICT, tuple(shares), explanation + " Some rows are too noisy.")
    hidden = [sum(share.value if share.high is None else share.high for share in pair) < 1 for pair in pairs]
    shown = [sum(share.value if share.low is None else share.low for share in pair) > 1 for pair in pairs]
    outcome = Outcome.IN_KIND if all(hidden) else Outcome.NOT_REPRODUCED if any(shown) else Outcome.NO_VERDICT
    return Finding(outcome, tuple(shares), explanation)


def shared_gpu(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: what a replay manager on the learner's GPU costs, beside one on the CPU."""
    rows = select(frame, suite="validation", quantity="gradient_steps_per_s", backend="placerl")
    found: dict[tuple[str, int], dict[bool, Number]] = {}
    for row in records(rows):
        learner, rmm, _ = mapping_of(row).split("-")
        if learner == "torch:cuda":
            mine = found.setdefault((row.workload, int(row.batch_size)), {})
            reached, shared = number(row, mapping_of(row)), "cuda" in rmm
            if shared not in mine or reached.value > mine[shared].value:
                mine[shared] = reached
    losses = []
    for (workload, size), mine in sorted(found.items()):
        if len(mine) == 2:
            name = f"{workload}, batch size {size}: loss with the replay manager on the learner's GPU"
            losses.append(shortfall(name, mine[True], mine[False]))
    if not losses:
        return Finding(Outcome.NOT_RUN, needs="a CUDA device, its mappings run (`placerl validate`)")
    if noisy(frame.loc[list(merge_rows(losses))]):
        return Finding(Outcome.NO_VERDICT, tuple(losses), "Some rows are too noisy.")
    costs, free = (sum(holds) for holds in zip(*((n.above(0), n.below(0)) for n in losses), strict=True))
    said = (
        f"It costs throughput in {costs} of {len(losses)} cells and brings some in {free}, beyond the noise."
    )
    if costs == len(losses):
        return Finding(Outcome.IN_KIND, tuple(losses), said)
    return Finding(Outcome.NOT_REPRODUCED if free else Outcome.NO_VERDICT, tuple(losses), said)
