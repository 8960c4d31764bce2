"""How parts slow each other down by displacing each other's data from the caches.

A part (actor, replay, learner) runs slower after a part that displaces its data from the caches: the native replay
after a gradient step in PyTorch, the actor after a sum tree in PyTorch. To predict this without measuring every
mapping, three things are profiled: each learner together with the native replay, each replay together with the
native learner, and each part with the private caches emptied before it. The slowdown of the native parts then shows
how much of the caches a partner displaces (`beside_learner`, `beside_replay`): nothing if they are as fast as with a
native partner, everything if they are as slow as with emptied caches. Every other part is assumed to slow down by
the same fraction of the warm-to-cold difference.
"""

from dataclasses import dataclass

from placerl.harness.mapping.strategies.composed_loop.lookup import HOSTED, JOINT, rounds_of
from placerl.harness.mapping.table import Cell, PerformanceTable
from placerl.harness.mapping.target import CPU, NATIVE, Mapping


@dataclass(frozen=True)
class _Partner:
    """Another part of the loop, and its effect on a native part.

    Attributes:
        beside: the native part when it runs with this partner.
        alone: the native part when it runs with native parts only.
        emptied: the native part with the caches emptied.
    """

    beside: Cell
    alone: Cell
    emptied: Cell

    def added_s(self, table: PerformanceTable) -> float:
        """Return the seconds that the partner adds to the native part."""
        return table.time_s(*self.beside) - table.time_s(*self.alone)

    def taken(self, table: PerformanceTable) -> float:
        """Return the share of the caches that the partner takes, 0 to 1."""
        most_s = table.time_s(*self.emptied) - table.time_s(*self.alone)
        return min(1.0, max(0.0, self.added_s(table) / most_s)) if most_s > 0 else 0.0


@dataclass(frozen=True)
class DisturbedPart:
    """A part that runs with partners that displace its data from the caches.

    Attributes:
        partners: its partners; the one that takes the most counts, because the others cannot displace the same
            data again.
        emptied: the part with the caches emptied; None for a native part, for which the partner's effect was
            measured.
    """

    partners: tuple[_Partner, ...]
    emptied: Cell | None

    def seconds(self, table: PerformanceTable, time_s: float) -> float:
        """Return the predicted seconds of a call that takes `time_s` next to native parts."""
        if self.emptied is None:
            return max(0.0, time_s + max(partner.added_s(table) for partner in self.partners))
        taken = max(partner.taken(table) for partner in self.partners)
        return time_s + taken * max(0.0, table.time_s(*self.emptied) - time_s)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells that the prediction uses."""
        partner_cells = [cell for one in self.partners for cell in (one.beside, one.alone, one.emptied)]
        return (*partner_cells, *([self.emptied] if self.emptied else []))


_SLOWED_BY = {
    "actor": ("beside_replay.collect",),
    "learner": ("beside_replay.learn",),
    "insert": ("beside_learner.insert",),
    JOINT: ("beside_learner.sample",),
    "update": ("beside_learner.update",),
    "loop": ("beside_learner.runtime", "beside_replay.runtime"),
}
"""The native parts that show the learner's effect on the replay and the replay's effect on the learner, by term."""


def disturbed_parts(table: PerformanceTable, mapping: Mapping) -> dict[str, DisturbedPart]:
    """Return the terms of a mapping that run with a part that is not native, unless all were profiled together."""
    parts: dict[str, DisturbedPart] = {}
    if rounds_of(mapping) != HOSTED:
        return parts
    for term, names in _SLOWED_BY.items():
        partners = []
        part = names[0].partition(".")[2]
        for name in names:
            other = mapping.rmm if name.startswith("beside_replay") else mapping.learner
            emptied = (f"cold_round.{part}", CPU if term == "loop" else NATIVE)
            partner = _Partner((name, other), (name, NATIVE), emptied)
            if other != NATIVE and all(cell in table for cell in (partner.beside, partner.alone, emptied)):
                partners.append(partner)
        own = mapping.learner if term in ("actor", "learner") else mapping.rmm
        cold = None if own == NATIVE or term == "loop" else (f"cold_round.{part}", own)
        # A simulated device has no such part; next to it all parts are already cold.
        if partners and (cold is None or cold in table):
            parts[term] = DisturbedPart(tuple(partners), cold)
    return parts
