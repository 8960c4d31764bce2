"""Chooses what takes part in each round of a validation, so that its time goes into what is judged.

A mapping says where learner, replay management and storage run; a strategy is a performance model that chooses one. The
mappings of a training loop are a race (`harness.measure.elimination`): those that are clearly slower than the fastest
need no further rounds. Every strategy's choice does, however slow it is, until it has shared enough rounds with the
fastest for its regret to have an interval. If the time is enough for that many rounds of everything, nothing is left
out before them.

Strategies choose again after each round, from the times so far. A mapping that a strategy chooses only at the end, from
the last round's times, may have been dropped before; its regret then has no verdict.
"""

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from statistics import median

from placerl.harness.core.errors import UserError
from placerl.harness.mapping import Entry, Loop, Mapping, PerformanceTable, Platform, Problem, Strategy
from placerl.harness.mapping.choices import HERE, WITH_SIMULATED
from placerl.harness.measure.elimination import Elimination, Rates, log_ratios
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.profile.cases import PrimitiveCase
from placerl.harness.profile.cases.training import TimedTraining, case_name
from placerl.harness.profile.cases.validation_rounds import FPGA, provenance_of

Costs = MappingABC[str, float]
"""The seconds that each case adds to a round, by its name."""
Dropped = MappingABC[tuple[Loop, str], Collection[Mapping]]
"""The mappings that a race dropped, by its loop and its set of devices (`HERE`, `WITH_SIMULATED`)."""


@dataclass
class Race:
    """The mappings that the choices for one training loop are compared with, and these choices.

    Attributes:
        loop: the order of calls in which the mappings run.
        platform: the devices among which the strategies choose, and their links.
        simulated: whether the simulated FPGA is one of these devices.
        names: the names of the timed cases, by mapping.
        chosen: cases of the mappings that any strategy has chosen so far.
    """

    loop: Loop
    platform: Platform
    simulated: bool
    names: MappingABC[Mapping, str]
    chosen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with all mappings."""
        self._elimination = Elimination(self.names.values())

    def run(self, rates: Rates) -> None:
        """Drop the mappings that are clearly slower than the fastest one.

        Args:
            rates: gradient steps per second by case and round.
        """
        self._elimination.drop(rates)

    def dropped(self) -> frozenset[Mapping]:
        """Return the mappings that were dropped, because they are clearly slower than the fastest one."""
        return frozenset(one for one, name in self.names.items() if name not in self._elimination.left)

    def judged(self, rates: Rates) -> dict[str, int]:
        """Return the fastest case and the choices that are not judged yet, each with the rounds that it still needs."""
        leader = self._elimination.leader(rates)
        if leader is None:
            return {}
        lacking = {leader: max(0, FEWEST_SAMPLES - len(rates[leader]))}
        for name in self.chosen:
            lacks = max(0, FEWEST_SAMPLES - log_ratios(rates[leader], rates.get(name, {})).size)
            if name in rates and (lacks or name in self._elimination.left):
                lacking[name] = lacks
        return lacking

    def behind(self, rates: Rates) -> dict[str, float]:
        """Return by what factor the fastest case beats each one that may still be the fastest."""
        leader = self._elimination.leader(rates)
        if leader is None:
            return {}
        best = median(rates[leader].values())
        return {
            name: best / median(rates[name].values()) for name in self._elimination.left if rates.get(name)
        }


def races(
    trainings: Collection[tuple[Mapping, Loop]],
    strategies: Iterable[Strategy],
    platforms: Iterable[tuple[Platform, bool]],
) -> list[Race]:
    """Return the races of a validation: one for each loop that a strategy predicts, and each set of devices.

    A mapping that has no strict loop of its own, because nothing of it is fused, takes part with its fused one.

    Args:
        trainings: the mappings that run, with their loops.
        platforms: the sets of devices, and whether the simulated FPGA is one of them.
    """
    mappings = dict.fromkeys(mapping for mapping, _ in trainings)
    every_race = []
    for loop in dict.fromkeys(strategy.loop for strategy in strategies):
        for platform, simulated in platforms:
            names = {
                mapping: case_name(mapping, ran)
                for mapping in mappings
                for ran in [loop if loop is not Loop.STRICT or (mapping, loop) in trainings else Loop.FUSED]
                if (mapping, ran) in trainings and (simulated or FPGA not in (mapping.learner, mapping.rmm))
            }
            if names:
                every_race.append(Race(loop, platform, simulated, names))
    return every_race


def dropped(run: Iterable[Race]) -> Dropped:
    """Return the mappings that each race dropped.

    Args:
        run: the races, after the last round.
    """
    return {(race.loop, WITH_SIMULATED if race.simulated else HERE): race.dropped() for race in run}


def slower_among(slower: Dropped, mapping: Mapping, loop: Loop) -> list[str]:
    """Return with which sets of devices (`HERE`, `WITH_SIMULATED`) a mapping is clearly slower than the fastest one."""
    return [devices for (raced, devices), those in slower.items() if raced is loop and mapping in those]


class Narrowing:
    """Chooses the cases of each round of a validation, as `harness.measure.protocol.measure` asks for (`narrow`).

    Args:
        runs: the timed trainings, by the name of their case, which give the gradient steps per call.
        pieces: the calls from which throughput is predicted.
        board: times of calls on the simulated FPGA that are the same in every round.
    """

    def __init__(
        self,
        races: Sequence[Race],
        runs: MappingABC[str, TimedTraining],
        pieces: Iterable[PrimitiveCase],
        board: Iterable[Entry],
        strategies: Iterable[Strategy],
        problem: Problem,
    ) -> None:
        self._races, self._runs, self._problem = list(races), runs, problem
        self._pieces = {(one.primitive, one.target): one for one in pieces}
        self._board, self._strategies = list(board), list(strategies)

    def __call__(
        self, seconds: MappingABC[str, MappingABC[int, float]], cost_s: Costs, left_s: float
    ) -> set[str]:
        """Return the names of the cases of the next round; empty if there is no time for what is judged.

        Args:
            seconds: seconds per call so far, by the name of a case, or `<case>: <part>`, and by round.
            cost_s: seconds that each case adds to a round.
        """
        rates = {
            name: {number: run.gradient_steps / s for number, s in seconds[name].items()}
            for name, run in self._runs.items()
            if name in cost_s
        }
        inputs = self._choose(seconds)
        for race in self._races:
            race.run(rates)
        done = max(map(len, seconds.values()), default=0)
        if done < FEWEST_SAMPLES and (FEWEST_SAMPLES - done) * sum(cost_s.values()) <= left_s:
            return set(cost_s)
        judged: dict[str, int] = {}
        for race in self._races:
            for name, lacks in race.judged(rates).items():
                judged[name] = max(lacks, judged.get(name, 0))
        return self._fitting(judged, self._undecided(rates), inputs, cost_s, left_s)

    def _choose(self, seconds: MappingABC[str, MappingABC[int, float]]) -> dict[str, set[str]]:
        """Let each strategy choose in each race; return the cases from which each training's rate is predicted."""
        entries = []
        for (primitive, target), one in self._pieces.items():
            if by := seconds.get(f"{one.case.name}: {one.part}" if one.part else one.case.name):
                time_s = median(by.values())
                entries.append(
                    Entry(
                        primitive,
                        target,
                        self._problem.batch_size,
                        time_s,
                        time_s,
                        time_s,
                        provenance_of(one),
                    )
                )
        tables = {
            False: PerformanceTable(one for one in entries if one.target.backend != FPGA.backend),
            True: PerformanceTable([*entries, *self._board]),
        }
        inputs: dict[str, set[str]] = {}
        for race in self._races:
            table = tables[race.simulated]
            for strategy in (one for one in self._strategies if one.loop is race.loop):
                try:
                    chosen = strategy.choose(table, self._problem, race.platform).mapping
                except (ValueError, KeyError, UserError):
                    continue  # it lacks a time or a link; the row of its final prediction says which
                if chosen in race.names:
                    race.chosen.add(race.names[chosen])
                for mapping, name in race.names.items():
                    try:
                        cells = strategy.predict(table, self._problem, race.platform, mapping).cells
                    except (KeyError, UserError):  # a term of this mapping, or a link, was not timed
                        continue
                    used = {self._pieces[cell].case.name for cell in cells if cell in self._pieces}
                    inputs.setdefault(name, set()).update(used)
        return inputs

    def _undecided(self, rates: Rates) -> list[str]:
        """Return the cases that may still be the fastest of a race, those first that are closest to its fastest."""
        behind: dict[str, float] = {}
        for race in self._races:
            for name, factor in race.behind(rates).items():
                behind[name] = min(factor, behind.get(name, factor))
        return sorted(behind, key=lambda name: behind[name])

    @staticmethod
    def _fitting(
        judged: MappingABC[str, int],
        undecided: Sequence[str],
        inputs: MappingABC[str, set[str]],
        cost_s: Costs,
        left_s: float,
    ) -> set[str]:
        """Return what is judged, and of the rest what leaves enough time for the rounds that the judged still need.

        The rest is the calls from which the judged rates are predicted, and then the undecided, each with its calls.
        """

        def round_s(names: Iterable[str]) -> float:
            return sum(cost_s.get(name, 0.0) for name in names)

        taking = set(judged) & set(cost_s)
        if not taking or round_s(taking) > left_s:
            return set()
        later_s = sum(max(0, lacks - 1) * cost_s.get(name, 0.0) for name, lacks in judged.items())
        for name in [*judged, *undecided]:
            more = taking | {name} | inputs.get(name, set())
            if round_s(more) + later_s <= left_s:
                taking = more
        return taking & set(cost_s)
