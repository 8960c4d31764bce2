"""Judges trainings in other libraries with this project's replay plugged in (PAL VI-F, Fig. 11).

`placerl bench adapters` measures them.
"""

import pandas as pd

from placerl.harness.compare import adapters
from placerl.harness.papers.base import Claim, Finding, Outcome, decided
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import from_text

NEEDS_ADAPTERS = "`placerl bench adapters`: training in other libraries with this replay and with their own"
LIBRARIES = ("tianshou", "pfrl")
"""The libraries into which PAL plugs its replay (VI-F), without rlpyt, which no longer installs."""
UNIFORM = "sb3"
"""The library without a prioritised replay of its own; its gain does not count."""
LEAST_GAIN = "tianshou"  # its replay is compiled (PAL VI-F)
COMPILED = (LEAST_GAIN, "torchrl")
"""The libraries whose replay is compiled: PAL does not order these among themselves."""


class ReplaySpeedsUpLibraries(Claim):
    """Checks PAL Fig. 11: other libraries train faster with this project's replay than with their own.

    One training that is slower refutes the statement. It holds only if every training that is planned and counts was
    measured, and each of PAL's libraries that still install among them; without the third, rlpyt, in kind at best.
    """

    key, place, position = "PAL-F11", "VI-F, Fig. 11", 9
    statement = "The replay buffer plugged into other libraries speeds them up"
    published = from_text("PAL.plugin_speedup_low", "PAL.plugin_speedup_high")
    needs = NEEDS_ADAPTERS
    reads = (adapters.SUITE,)
    commands = ("placerl bench adapters", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = records(select(frame, suite=adapters.SUITE, quantity=adapters.GAIN))
        last = {row.workload: row for row in rows}
        ours = [number(row, f"{name}: gain over its own replay") for name, row in last.items()]
        counted = {name: row for name, row in last.items() if row.own_is_prioritised}
        missing = [pair.name for pair in adapters.PAIRS if pair.name not in last and not pair.missing]
        if not counted:
            lacking = f" ({', '.join(missing)})" if last else ""
            return Finding(Outcome.NOT_RUN, tuple(ours), needs=f"{NEEDS_ADAPTERS}{lacking}")
        uncounted = [name for name in missing if name.partition(" ")[0] != UNIFORM]
        absent = [each for each in LIBRARIES if each not in {name.partition(" ")[0] for name in counted}]
        verdicts = [row.verdict for row in counted.values()]
        faster, slower = verdicts.count("faster"), verdicts.count("slower")
        explanation = (
            f"Of {len(counted)} trainings with a prioritised replay of the library's own, {faster} are faster with "
            f"this project's and {slower} slower, all of acting and learning included: {', '.join(counted)}."
        )
        if len(last) > len(counted):
            explanation += (
                " Stable-Baselines3 has a uniform replay alone, which does less: its gain does not count."
            )
        if missing:
            explanation += f" Not measured: {', '.join(missing)}."
        if absent:
            explanation += f" Without a training here, of the libraries that PAL names: {', '.join(absent)}."
        if faster == len(counted) and not uncounted and not absent:
            return Finding(Outcome.IN_KIND, tuple(ours), explanation)
        if slower:
            return Finding(Outcome.NOT_REPRODUCED, tuple(ours), explanation)
        lacking = ", ".join((*uncounted, *absent))
        decides = (
            f"`placerl bench adapters` with {lacking}"
            if lacking
            else "more rounds of `placerl bench adapters`"
        )
        return Finding(Outcome.NO_VERDICT, tuple(ours), explanation, decides=decides)


class GainsFallWithComputation(Claim):
    """Checks PAL VI-F: the gain of this project's replay is smaller if the algorithm computes more.

    Of the gains with discrete actions, all of DQN, that in tianshou also has to be smaller than in libraries whose
    replay is not compiled.
    """

    key, place, position = "PAL-F11-order", "VI-F", 10
    statement = "The gain falls as the algorithm computes more, and is the least in tianshou, whose replay is compiled"
    needs = NEEDS_ADAPTERS
    reads = (adapters.SUITE,)
    commands = ("placerl bench adapters", "placerl report")

    def judge(self, frame: pd.DataFrame) -> Finding:
        rows = records(select(frame, suite=adapters.SUITE, quantity=adapters.GAIN))
        last = {row.workload: row for row in rows if row.own_is_prioritised}
        discrete, continuous = (
            {
                pair.library: last[pair.name]
                for pair in adapters.PAIRS
                if pair.name in last and pair.continuous is kind
            }
            for kind in (False, True)
        )
        # (larger gain, smaller gain): continuous actions need a second network.
        wanted = [(row, continuous[library]) for library, row in discrete.items() if library in continuous]
        if LEAST_GAIN in discrete:
            wanted += [
                (row, discrete[LEAST_GAIN]) for library, row in discrete.items() if library not in COMPILED
            ]
        if not wanted:
            return Finding(Outcome.NOT_RUN, needs=f"{NEEDS_ADAPTERS} (two algorithms, or two libraries)")
        shown = sum(more.low > less.high for more, less in wanted)
        refuted = sum(more.high < less.low for more, less in wanted)
        ours = tuple(number(row, f"{name}: gain over its own replay") for name, row in last.items())
        said = f"Of {len(wanted)} pairs of gains {shown} are in the stated order, {refuted} in the other."
        return Finding(decided(shown == len(wanted), refuted), ours, said)
