"""Checks of MAP's throughput over a store's rows: Table V, gains over RLlib, replay beside the learner."""

from dataclasses import replace
from typing import Any

import pandas as pd

from harness import platforms
from harness.compare.registry import RLLIB
from harness.compare.rounds import Part, label
from harness.core.provenance import Provenance
from harness.papers import published
from harness.papers.base import Finding, Outcome
from harness.papers.comparisons import Gain, gains, gains_on_gpu
from harness.papers.devices import REFERENCE
from harness.papers.evidence import NEAR, detail, mapping_of, near, noisy, number, records, select
from harness.papers.number import Number, from_cell, from_text, merge_rows, ratio, shortfall

MODEL = "map-tpds23"  # the strategy that predicts as MAP does
TABLE_5, GAIN_ROW = "map_table_5", "{} mapping: speed-up of the optimal one"
NEEDS_TABLE_5 = "`placerl reproduce --only MAP-T5`"
CARTPOLE, OTHERS = ("cartpole-dqn", "cartpole-ddpg"), ("hopper-ddpg", "pong-dqn")
ALONE = tuple(
    f"compare/{name}/{label(line, Part.LEARNER_AND_REPLAY)}"
    for name in (*CARTPOLE, *OTHERS)
    for line in RLLIB
)
NEEDS_RLLIB_ON_GPU = "the baseline RLlib beside a mapping with a learner on a CUDA device (`placerl compare`)"
NEEDS_ALONE = (
    "gains over RLlib of learner and replay alone (`placerl compare WORKLOAD --alone`) of every workload"
)


def table_5(frame: pd.DataFrame) -> Finding:
    """MAP Table V: its optimal mappings on MAP's platform, on modelled times."""
    cells = records(select(frame, suite="claim", primitive="mapping", quantity="as_printed", backend=MODEL))
    if not cells:
        return Finding(Outcome.NOT_RUN, needs=NEEDS_TABLE_5)
    agree = sum(row.value == 1 for row in cells)
    rows = tuple(int(row.Index) for row in cells)
    source = "Algorithm 3 on times modelled from the published numbers of MAP's platform"
    name = f"optimal mappings as printed, of {len(cells)}"
    ours = (Number(name, agree, "count", Provenance.MODELLED, source, rows=rows),)
    missed = [
        f"{row.workload}, batch size {row.batch_size}: {detail(row, 'ours')} for {detail(row, 'published')}: "
        f"{detail(row, 'reason')}"
        for row in cells
        if row.value != 1
    ]
    if not missed:
        return Finding(Outcome.CONSISTENT, ours, f"All of them come out. {_fitted()}")
    explanation = f"{'; '.join(missed)}."
    if _learner_devices(cells, "ours") == _learner_devices(cells, "published"):
        explanation += " Over the batch size the learner moves between the same devices in the same order."
    return Finding(Outcome.NO_VERDICT, ours, f"{explanation} {NOT_KNOWN} {_fitted()}")


NOT_KNOWN = (
    "The model knows neither the share of its peak that a device reaches nor what replay management costs a learner on "
    "the same GPU beyond its own time, and the lost Fig. 11 to 13 showed both: nothing here refutes the table."
)


def _fitted() -> str:
    """Which number of the model is MAP's own result, so that nothing made of it confirms MAP."""
    platform = platforms.load(MODEL)
    launch, clock = platform.find("gpu").launch_us, platform.find("fpga").clock_mhz
    assert launch is not None and clock is not None, "platform map-tpds23 states both"  # noqa: PT018
    gain = from_text("MAP.prefix_sum_fpga_over_gpu_high")[0]
    return (
        f"The GPU's launch time in the model, {launch.value:g} us, was fitted to MAP's own {gain} (VII-C) at an "
        f"assumed {clock.value:g} MHz of the FPGA."
    )


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
    close = [near(n.value, p.value) for n, p in zip(gains, printed, strict=True)]
    misplaced = [n.quantity for n, row in zip(gains, found, strict=True) if not detail(row, "in_place")]
    lost = [n.quantity for n in gains if n.value <= 1]
    said = (
        f"Modelled at the peaks of Table IV, the optimal mapping is the faster one in {len(gains) - len(lost)} of the "
        f"{len(gains)} printed pairs, and in {sum(close)} by as much as printed within {NEAR:.0%}. "
    )
    if misplaced:
        said += f"Not where they are printed among all mappings: {'; '.join(misplaced)}. "
    said += f"The columns of two pairs are known from the position of the cell alone. {_fitted()}"
    if all(close) and not lost and not misplaced:
        return Finding(Outcome.CONSISTENT, tuple(gains), said)
    return Finding(Outcome.NO_VERDICT, tuple(gains), f"{said} {NOT_KNOWN}")


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


def printed_mappings() -> Number:
    """How many optimal mappings MAP Table V prints."""
    printed = [cell for cell in published.table(TABLE_5).cells if cell.row == "optimal mapping"]
    return Number("optimal mappings", len(printed), "count", Provenance.PUBLISHED, "MAP Table V")


def _learner_devices(cells: list[Any], name: str) -> dict[str, list[str]]:
    """By workload: the learner's devices over the batch size, each change once."""
    found: dict[str, list[str]] = {}
    for row in sorted(cells, key=lambda row: row.batch_size):
        devices = found.setdefault(row.workload, [])
        device = str(detail(row, name))[0]
        if devices[-1:] != [device]:
            devices.append(device)
    return found


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
    return Finding(Outcome.IN_KIND if set(words) == {"faster"} else Outcome.NO_VERDICT, ours, said)


def rllib_cartpole(frame: pd.DataFrame) -> Finding:
    """MAP VII-E: of the gains over RLlib CartPole's is the largest; learner and replay alone on this machine's CPU."""
    found: dict[str, list[Gain]] = {}
    for gain in gains(frame, *(label(line, Part.LEARNER_AND_REPLAY) for line in RLLIB)):
        found.setdefault(str(frame.at[gain.ratio.rows[0], "workload"]), []).append(gain)
    mine = [gain for name in CARTPOLE for gain in found.get(name, [])]
    others = [gain for name in OTHERS for gain in found.get(name, [])]
    ours = tuple(gain.ratio for gain in (*mine, *others))
    lacking = [name for name in OTHERS if name not in found]
    if not mine or lacking:
        missing = [] if mine else ["CartPole's"]
        missing += [f"that of {name}" for name in lacking]
        return Finding(Outcome.NOT_RUN, ours, needs=f"{NEEDS_ALONE}; missing: {', '.join(missing)}")
    published = from_text("MAP.rllib_speedup_high")[0].value
    best = max((gain.ratio for gain in mine), key=lambda ratio: ratio.value)
    rival = max((gain.ratio for gain in others), key=lambda ratio: ratio.value)
    said = (
        f"The largest gain of CartPole's is {best}, of the others' {rival}. Gradient steps with prioritised replay, "
        "without environment steps on either side; both on one core, where MAP's best mapping has an FPGA."
    )
    if any(gain.verdict != "faster" for gain in mine):
        said += " Not faster, beyond the noise, in every comparison of CartPole's."
    if best.high is None or best.low is None or rival.high is None or rival.low is None:
        return Finding(Outcome.NO_VERDICT, ours, said)
    if best.high < rival.low or any(gain.verdict == "slower" for gain in mine):
        return Finding(Outcome.NOT_REPRODUCED, ours, said)
    if best.low <= rival.high or any(gain.verdict != "faster" for gain in mine):
        return Finding(Outcome.NO_VERDICT, ours, said)
    return Finding(Outcome.REPRODUCED if near(best.value, published) else Outcome.IN_KIND, ours, said)


HIDDEN_AT, EXPOSED_AT = (256, 2048), 16384  # MAP VII-A: the batch sizes of Hopper; VII-D: which are hidden
NEEDS_HIDDEN = (
    "Hopper's learner on a CUDA device and its sum tree on the CPU, both profiled at batch sizes "
    f"{', '.join(map(str, HIDDEN_AT))} and {EXPOSED_AT}"
)


def replay_hidden(frame: pd.DataFrame) -> Finding:
    """MAP VII-D: behind Hopper's learner on the GPU a replay manager on the CPU hides, until the batch is 16384."""
    rows = select(frame, suite="profile", quantity="time_per_call", workload="hopper-ddpg")
    shares: dict[int, Number] = {}
    elsewhere: list[Number] = []
    for size in (*HIDDEN_AT, EXPOSED_AT):
        at_size = rows[rows["batch_size"] == size]
        on_gpu = at_size["device"].str.startswith("cuda")
        replay = [
            _fastest(at_size[(at_size["device"] == "cpu") & (at_size["primitive"] == operation)])
            for operation in ("sum_tree.sample", "sum_tree.update")
        ]
        for name, learner in (
            ("CUDA", _fastest(at_size[on_gpu & _learns(at_size)])),
            ("CPU", _fastest(at_size[(at_size["device"] == "cpu") & _learns(at_size)])),
        ):
            if learner is None or None in replay:
                continue
            title = f"batch size {size}: sampling and updating over the learner's step on the {name}"
            share = ratio(title, _together(*(n for n in replay if n)), learner)
            if name == "CUDA":
                shares[size] = share
            else:
                elsewhere.append(share)
    ours = (*shares.values(), *elsewhere)
    if len(shares) < 1 + len(HIDDEN_AT):
        said = "A learner on the CPU takes longer than MAP's GPU, and so hides more: it shows no crossover."
        return Finding(Outcome.NOT_RUN, ours, said if elsewhere else "", needs=NEEDS_HIDDEN)
    said = (
        f"Hidden where the share is below 1: published at {' and '.join(map(str, HIDDEN_AT))}, and no longer at "
        f"{EXPOSED_AT}."
    )
    if noisy(frame.loc[list(merge_rows(shares.values()))]):
        return Finding(Outcome.NO_VERDICT, ours, f"{said} Some rows are too noisy.")
    holds = [shares[size].below(1) for size in HIDDEN_AT] + [shares[EXPOSED_AT].above(1)]
    refuted = any(shares[size].above(1) for size in HIDDEN_AT) or shares[EXPOSED_AT].below(1)
    outcome = Outcome.IN_KIND if all(holds) else Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT
    return Finding(outcome, ours, said)


def _together(one: Number, other: Number) -> Number:
    """Seconds of both, one after the other."""
    low = high = None
    if one.low is not None and one.high is not None and other.low is not None and other.high is not None:
        low, high = one.low + other.low, one.high + other.high
    return replace(one, value=one.value + other.value, low=low, high=high, rows=merge_rows((one, other)))


def _learns(rows: pd.DataFrame) -> "pd.Series[bool]":
    return rows["primitive"] == "learner.step"


def _fastest(rows: pd.DataFrame) -> Number | None:
    """The time of the fastest row that is no reference; None where there is none."""
    rows = rows[rows["backend"] != REFERENCE]
    return number(records(rows.nsmallest(1, "value"))[0], "time") if len(rows) else None


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
        published = from_text("MAP.shared_gpu_loss")[0].value
        as_published = all(near(n.value, published) for n in losses)
        return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(losses), said)
    return Finding(Outcome.NOT_REPRODUCED if free else Outcome.NO_VERDICT, tuple(losses), said)
