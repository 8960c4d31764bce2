"""Checks whether the learner hides replay management, and what sharing a GPU costs (MAP VII-D, Fig. 13)."""

from dataclasses import replace
from typing import Any

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Loop
from placerl.harness.mapping.choices import HERE
from placerl.harness.papers import device_times
from placerl.harness.papers.assumptions import both_outcomes
from placerl.harness.papers.base import Claim, Finding, Outcome, decided
from placerl.harness.papers.clocks import LEARNERS, REPLAY, AtBothClocks
from placerl.harness.papers.device_times import (
    CPU,
    FPGA,
    GPU,
    NAMES,
    REFERENCE,
    WITHOUT_LINK,
    fastest,
    learner_times,
    replay_times,
)
from placerl.harness.papers.evidence import agrees, mapping_of, number, records, select
from placerl.harness.papers.map import binary_trees
from placerl.harness.papers.number import Number, from_text, merge_rows, ratio, shortfall

_WORDS = {True: "hidden", False: "not hidden", None: "undecided"}
HIDDEN_AT, EXPOSED_AT = (256, 2048), 16384  # MAP VII-A: the batch sizes of Hopper; VII-D: which are hidden


def _together(one: Number, other: Number) -> Number:
    """Return the seconds of both, one after the other."""
    low = high = None
    if one.low is not None and one.high is not None and other.low is not None and other.high is not None:
        low, high = one.low + other.low, one.high + other.high
    return replace(one, value=one.value + other.value, low=low, high=high, rows=merge_rows((one, other)))


def _learns(rows: pd.DataFrame) -> "pd.Series[bool]":
    return rows["primitive"] == "learner.step"


def _fastest(rows: pd.DataFrame) -> Number | None:
    """Return the time of the fastest row that is not the reference backend's; None if there is none."""
    rows = rows[rows["backend"] != REFERENCE]
    return number(records(rows.nsmallest(1, "value"))[0], "time") if len(rows) else None


class ReplayOnCpuIsHidden(Claim):
    """Checks MAP VII-D: Hopper's learner on the GPU hides replay management on the CPU, except at a batch of 16384.

    Replay management is hidden if sampling and updating priorities together take less time than the gradient step.
    The tree has MAP's K. MAP does not state with how many threads its replay samples; they shorten sampling and not
    the update (VII-C). So both readings are judged: with one thread, as timed here, and with many, with which replay
    management takes as long as the update at least, and as long as with one thread at most.
    """

    key, place, position = "MAP-F13-hidden", "VII-D", 18
    statement = (
        "A replay manager on the CPU hides behind Hopper's learner on the GPU from batch size 256 on, not at "
        "16384"
    )
    published = from_text("MAP.hopper_learner_on_gpu_above", "MAP.hopper_replay_on_fpga_at")
    needs = (
        f"Hopper's learner on a CUDA device and {binary_trees.TREES} on the CPU, both at batch sizes "
        f"{', '.join(map(str, HIDDEN_AT))} and {EXPOSED_AT}"
    )
    measured_by = (binary_trees.cells,)
    reads = ("profile/hopper-ddpg",)
    commands = ("placerl gpu-claims", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = select(frame, suite=Suite.PROFILE, quantity="time_per_call", workload="hopper-ddpg")
        sampling, updating = (
            fastest(binary_trees.times(frame, call)).get(CPU, {}) for call in binary_trees.CALLS
        )
        shares: dict[int, Number] = {}
        updates: dict[int, Number] = {}
        elsewhere: list[Number] = []
        for size in (*HIDDEN_AT, EXPOSED_AT):
            if size not in sampling or size not in updating:
                continue
            steps = rows[(rows["batch_size"] == size) & _learns(rows)]
            on_gpu = steps["device"].str.startswith("cuda")
            for name, learner in (
                ("CUDA", _fastest(steps[on_gpu])),
                ("CPU", _fastest(steps[steps["device"] == "cpu"])),
            ):
                if learner is None:
                    continue
                over = f"over the learner's step on the {name}"
                share = ratio(
                    f"batch size {size}: sampling and updating {over}",
                    _together(sampling[size], updating[size]),
                    learner,
                )
                if name == "CUDA":
                    shares[size] = share
                    updates[size] = ratio(f"batch size {size}: updating {over}", updating[size], learner)
                else:
                    elsewhere.append(share)
        ours = (*shares.values(), *updates.values(), *elsewhere)
        if len(shares) < 1 + len(HIDDEN_AT):
            said = (
                "A learner on the CPU takes longer than MAP's GPU, and so hides more: it shows no crossover."
            )
            return Finding(Outcome.NOT_RUN, ours, said if elsewhere else "", needs=self.needs)
        one_thread, many = _crossover(shares, shares), _crossover(updates, shares)
        said = (
            f"Hidden where the share is below 1: published at {' and '.join(map(str, HIDDEN_AT))}, and no longer at "
            f"{EXPOSED_AT}. With one thread {one_thread}; with many, which shorten sampling alone, {many}."
        )
        return Finding(both_outcomes(one_thread, many), ours, said)


def _crossover(least: dict[int, Number], most: dict[int, Number]) -> Outcome:
    """Return whether replay management hides at the sizes that MAP states, and not at the largest.

    Args:
        least, most: bounds of its share of the learner's step, by batch size; equal if the share is known.
    """
    holds = [most[size].below(1) for size in HIDDEN_AT] + [least[EXPOSED_AT].above(1)]
    refuted = any(least[size].above(1) for size in HIDDEN_AT) or most[EXPOSED_AT].below(1)
    return decided(all(holds), refuted)


def _hides(shares: list[Number]) -> bool | None:
    """Return whether operations take less time together than the learner; None where noise leaves it open."""
    sums = [
        sum(share.value if bound is None else bound for share, bound in zip(shares, bounds, strict=True))
        for bounds in ([share.low for share in shares], [share.high for share in shares])
    ]
    below = {one < 1 for one in sums}
    return below.pop() if len(below) == 1 else None


def _turns_at(hides: dict[int, bool | None], size: float) -> bool | None:
    """Return whether replay is hidden above a batch size and not at or below it; None if measurements leave it open."""
    if any(hidden is not None and hidden is not (at > size) for at, hidden in hides.items()):
        return False
    sides = {at > size for at, hidden in hides.items() if hidden is not None}
    return True if len(sides) == 2 and None not in hides.values() else None


class CartPoleReplayIsHidden(AtBothClocks):
    """Checks MAP VII-D: CartPole's learner on the FPGA hides replay above a batch size, and not below.

    Replay is hidden if sampling and updating priorities together take less time than the learner's gradient step. MAP
    says that above the size it can be hidden "using either GPU or FPGA", and not where it is not hidden below: replay
    management on the GPU and that on the FPGA are two readings, and the transition has to show under one. Above the
    size replay on the FPGA has to be hidden under both. That replay on the GPU, whose calls copy, is not hidden above
    the size refutes nothing. Only sizes whose shares are simulated or measured can show or refute it: modelled ones
    can agree.
    """

    key, place, position = "MAP-F13-CartPole", "VII-D", 19
    statement = (
        "Above a batch size CartPole's learner on the FPGA hides replay on GPU or FPGA, below it does not"
    )
    published = from_text("MAP.cartpole_replay_hidden_above")
    needs = "CartPole's learner and sum tree on the FPGA above that batch size (simulated)"
    reads = device_times.reads("cartpole-ddpg")
    blocks = (*REPLAY, *LEARNERS)
    commands = ("placerl profile cartpole-ddpg --batch-size 16384 --device fpga:u200", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        above = self.published[0].value
        learner = fastest(learner_times(frame, "cartpole-ddpg")).get(FPGA, {})
        replay = [
            fastest(replay_times(frame, "cartpole-ddpg", part))
            for part in ("sum_tree.sample", "sum_tree.update")
        ]
        shares = {
            kind: {
                size: [
                    ratio(
                        f"{each[kind][size].quantity}: over the learner's step",
                        each[kind][size],
                        learner[size],
                    )
                    for each in replay
                ]
                for size in sorted(set(learner).intersection(*(each.get(kind, {}) for each in replay)))
            }
            for kind in (FPGA, GPU)
        }
        hides = {
            kind: {size: _hides(some) for size, some in by_size.items()} for kind, by_size in shares.items()
        }
        judged = [size for size in shares[FPGA] if size > above]
        every = tuple(share for by_size in shares.values() for some in by_size.values() for share in some)
        if not judged:
            needs = f"CartPole's learner and sum tree on the FPGA above batch size {above:g} (simulated)"
            return Finding(Outcome.NOT_RUN, every, needs=needs)
        said = "Sampling and updating against the step of the faster of the FPGA's learners, by batch size."
        for kind, by_size in hides.items():
            words = ", ".join(f"{size}: {_WORDS[hidden]}" for size, hidden in by_size.items())
            said += f" Replay on the {NAMES[kind]}: {words or 'not measured'}."
        known = [share.provenance in (Provenance.SIMULATED, Provenance.MEASURED) for share in every]
        shown = [
            size
            for size in judged
            if all(share.provenance is Provenance.SIMULATED for share in shares[FPGA][size])
        ]
        if len(shown) < len(judged):
            modelled = ", ".join(str(size) for size in judged if size not in shown)
            said += f" The learner's cycles are modelled, and so are the shares at: {modelled}."
        if any(hides[FPGA][size] is False for size in shown):
            return Finding(Outcome.NOT_REPRODUCED, every, said)
        told = {size: (hidden or None) if size > above else hidden for size, hidden in hides[GPU].items()}
        turns = [_turns_at(by_size, above) for by_size in (hides[FPGA], told)]
        if all(hides[FPGA][size] for size in judged) and True in turns:
            in_kind = shown and turns[0]  # a transition on the GPU alone may be that of its copies
            return Finding(Outcome.IN_KIND if in_kind else Outcome.CONSISTENT, every, said)
        if turns == [False, False] and all(known):
            return Finding(Outcome.NOT_REPRODUCED, every, said)
        on = f"a CUDA device at batch size {above:g} and above"
        if told != hides[GPU]:
            said += f" {WITHOUT_LINK} That the GPU's do not hide above {above:g} refutes nothing."
            on = "a CUDA device, in times without copies from and to the host"
        decides = f"CartPole's sum tree on {on}, next to the learner on the FPGA (simulated)"
        return Finding(Outcome.NO_VERDICT, every, said, decides=decides if turns[1] is None else "")


def _replay_hides(run: Any) -> bool:
    """Return whether replay management was shorter than the learner next to it, in a training of MAP's loop."""
    terms_s = run.terms_s or {}
    replay_s = sum(terms_s.get(term, 0.0) for term in ("sample", "gather", "update", "insert"))
    return bool(run.loop == Loop.RELAXED and 0 < replay_s < terms_s.get("learner", 0.0))


class SharedGpuCostsThroughput(Claim):
    """Checks MAP VII-D: training is slower with replay management on the learner's GPU than on the CPU.

    Both are measured rates, each of the loop in which it is highest; those with a simulated replay are left out. A
    mapping that was dropped as clearly slower than another one of this machine has few rounds, and the highest of such
    rates may be luck: it counts only where its placement has no other. A gain by sharing contradicts MAP only where
    replay management on the CPU hides behind the learner: elsewhere it is what limits that mapping, as MAP says of its
    own at a batch of 16384.
    """

    key, place, position = "MAP-F13-sharing", "VII-D", 20
    statement = "A replay manager on the learner's GPU costs throughput"
    published = from_text("MAP.shared_gpu_loss")
    needs = "a CUDA device"
    reads = ("validation",)
    commands = ("placerl validate --tier quick", "placerl report")
    decides = (
        "more rounds of mappings with the replay manager on and off the learner's GPU (`placerl validate`)"
    )

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = select(frame, suite=Suite.VALIDATION, quantity="gradient_steps_per_s")
        by_place: dict[tuple[str, int], dict[bool, tuple[bool, Number, Any]]] = {}
        for row in records(rows):
            learner, rmm, _ = mapping_of(row).split("-")
            if learner == "torch:cuda" and row.provenance == Provenance.MEASURED:
                place, shared = (row.workload, int(row.batch_size)), "cuda" in rmm
                mine, in_race = (
                    by_place.setdefault(place, {}),
                    HERE not in (row.clearly_slower_among or ()),
                )
                reached = number(row, mapping_of(row))
                if shared not in mine or (in_race, reached.value) > (mine[shared][0], mine[shared][1].value):
                    mine[shared] = in_race, reached, row
        both = sorted(place for place, placements in by_place.items() if len(placements) == 2)
        if not both:
            return Finding(Outcome.NOT_RUN, needs="a CUDA device, its mappings run (`placerl validate`)")
        losses: list[Number] = []
        free = refuted = 0
        for workload, size in both:
            name = f"{workload}, batch size {size}: loss with the replay manager on the learner's GPU"
            (_, shared_rate, _), (_, apart_rate, apart) = (
                by_place[workload, size][shared] for shared in (True, False)
            )
            losses.append(shortfall(name, shared_rate, apart_rate))
            gains = losses[-1].below(0)
            free += gains
            refuted += gains and _replay_hides(apart)
        costs = sum(loss.above(0) for loss in losses)
        said = f"It costs throughput in {costs} of {len(losses)} cells and brings some in {free}, beyond the noise."
        if costs == len(losses):
            published = self.published[0].value
            as_published = all(agrees(n, published) for n in losses)
            return Finding(Outcome.REPRODUCED if as_published else Outcome.IN_KIND, tuple(losses), said)
        if free:
            said += (
                f" Of these, {refuted} with a replay manager on the CPU that hides behind the learner, in MAP's loop; "
                "one that does not may be what limits its mapping."
            )
        return Finding(Outcome.NOT_REPRODUCED if refuted else Outcome.NO_VERDICT, tuple(losses), said)
