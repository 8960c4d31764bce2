"""More nodes than there are: discrete-event simulation of both uses of a cluster, from service times measured here.

Two closed queueing networks, in SimPy:

- cells: each machine measures a cell, then waits for the single writer (the process that submits tasks and commits
  rows), which serves one at a time;
- training: each actor collects transitions, hands them to a shard of the replay, and fetches the learner's newest
  weights over the learner's link; the learner samples from all shards together, one call ahead, once each has told the
  sum of its priorities, and updates priorities.

Assumptions: the service times of one machine hold on all (`Service`), spread uniformly by `SPREAD` about their mean;
every role has its machine to itself; a call's items are dealt out evenly to the shards, and what a visit takes beyond
Ray's own share goes by items; a link carries `link_bytes_per_s` and the network between links is free; weights go from
the learner's link to each actor that asks for them, or in a tree from actor to actor; an actor has one insertion under
way; nothing fails.
"""

import random
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import simpy

SPREAD = 0.2  # of a service time, to either side
CYCLES_A_NODE = 6  # simulated, of which the first third is not counted
FEWEST_CYCLES = 600  # of all nodes together, likewise
FEWEST_CALLS = 18  # of the learner, likewise: it may be slow compared with the actors

Event = Generator[Any, Any, None]


@dataclass(frozen=True)
class Service:
    """What one visit takes.

    Attributes:
        cell_s: measuring a cell, on its machine.
        writer_s: of the writer for a cell: submitting, receiving and committing it.
        collect_s: an actor's call, of `collected` transitions.
        collected: transitions of a call.
        insert_s: a shard's, for such a call.
        sample_s, update_s: of one shard that holds everything, for the `batches` of a learner's call.
        call_s: Ray's own share of such a visit, however few items it is of.
        learn_s: a learner's call.
        batches: gradient steps of a learner's call.
        weights_bytes: of one version.
        link_bytes_per_s: of a machine's link.
    """

    cell_s: float
    writer_s: float
    collect_s: float
    collected: float
    insert_s: float
    sample_s: float
    update_s: float
    call_s: float
    learn_s: float
    batches: int
    weights_bytes: float
    link_bytes_per_s: float

    def part_s(self, whole_s: float, shards: int) -> float:
        """A visit to one of so many shards, from what it takes where one holds everything."""
        return self.call_s + max(0.0, whole_s - self.call_s) / shards


@dataclass(frozen=True)
class Simulated:
    """What a number of nodes achieves.

    Attributes:
        nodes: machines that measure cells, or actors.
        rates_per_s: by quantity.
        busy: share of the time that each single or shared part is at work, 0 to 1.
    """

    nodes: int
    rates_per_s: dict[str, float]
    busy: dict[str, float]


class _Server:
    """A part that serves one at a time, and knows for how long it has been busy."""

    def __init__(self, environment: simpy.Environment) -> None:
        self._environment = environment
        self._resource = simpy.Resource(environment)
        self._served_s = 0.0
        self._begin_s: float | None = None  # of the service under way

    @property
    def busy_s(self) -> float:
        """Until now, with the part of a service under way that is over."""
        return self._served_s + (
            0.0 if self._begin_s is None else float(self._environment.now) - self._begin_s
        )

    def serve(self, seconds: float) -> Event:
        """Waits for its turn, then for the service."""
        with self._resource.request() as turn:
            yield turn
            self._begin_s = float(self._environment.now)
            yield self._environment.timeout(seconds)
            self._served_s, self._begin_s = self.busy_s, None


class _Model:
    """What both networks share: the clock, the spread, counters, and the measuring after a start.

    Attributes:
        done: by what is counted, how often it has ended so far.
        last_s: by what is counted, when it ended last.
        parts: servers, by the kind that they are told as.
    """

    def __init__(self, seed: int) -> None:
        self.environment = simpy.Environment()
        self.done: defaultdict[str, int] = defaultdict(int)
        self.last_s: dict[str, float] = {}
        self.parts: dict[str, list[_Server]] = {}
        self._draw = random.Random(seed)

    def servers(self, kind: str, number: int = 1) -> list[_Server]:
        self.parts[kind] = [_Server(self.environment) for _ in range(number)]
        return self.parts[kind]

    def spread(self, seconds: float) -> float:
        return seconds * self._draw.uniform(1 - SPREAD, 1 + SPREAD)

    def pause(self, seconds: float) -> Any:
        return self.environment.timeout(self.spread(seconds))

    def count(self, name: str) -> None:
        """Counts what ends now."""
        self.done[name] += 1
        self.last_s[name] = self.environment.now

    def run(self, nodes: int, a_cycle: str, at_once: Mapping[str, float]) -> Simulated:
        """Runs until the nodes have gone round often enough; the first third is not counted.

        A rate is taken from one end of what it counts to another, and not over the whole window: a dozen calls in a
        window that begins within a call would be up to a twelfth too many.

        Args:
            nodes: how many there are.
            a_cycle: what a node's cycle is counted as.
            at_once: by what is counted, how much of it comes at once.
        """
        cycles = max(FEWEST_CYCLES, CYCLES_A_NODE * nodes)
        self._more(a_cycle, cycles // 3, FEWEST_CALLS // 3)
        begin_s, begun, first_s = self.environment.now, dict(self.done), dict(self.last_s)
        busy = {kind: [server.busy_s for server in servers] for kind, servers in self.parts.items()}
        self._more(a_cycle, cycles - cycles // 3, FEWEST_CALLS - FEWEST_CALLS // 3)
        elapsed_s = self.environment.now - begin_s
        return Simulated(
            nodes,
            {
                name: (self.done[name] - begun[name]) * size / (self.last_s[name] - first_s[name])
                for name, size in at_once.items()
            },
            {
                kind: sum(s.busy_s - before for s, before in zip(servers, busy[kind], strict=True))
                / len(servers)
                / elapsed_s
                for kind, servers in self.parts.items()
            },
        )

    def _more(self, a_cycle: str, cycles: int, calls: int) -> None:
        """Goes on until so many more cycles have ended, and calls where there is a learner."""
        cycles += self.done[a_cycle]
        calls = self.done["calls"] + calls if "learner" in self.parts else 0
        while self.done[a_cycle] < cycles or self.done["calls"] < calls:
            self.environment.step()


def simulate_cells(service: Service, machines: int, *, seed: int = 0) -> Simulated:
    """Machines that measure cells, and the one writer.

    Args:
        service: service times.
        machines: at least 1.
        seed: of the spread.

    Returns:
        `cells` a second, and how busy the writer is.
    """
    model = _Model(seed)
    (writer,) = model.servers("writer")

    def machine(number: int) -> Event:
        yield model.environment.timeout(service.cell_s * number / machines)  # not all at once
        while True:
            yield model.pause(service.cell_s)
            yield from writer.serve(model.spread(service.writer_s))
            model.count("cells")

    for number in range(machines):
        model.environment.process(machine(number))
    return model.run(machines, "cells", {"cells": 1})


def simulate_training(
    service: Service, actors: int, shards: int, *, tree: bool = False, seed: int = 0
) -> Simulated:
    """Actors, shards of a replay and one learner, each going on as fast as it can.

    Args:
        service: service times.
        actors, shards: at least 1 each.
        tree: actors pass the weights on to one another, so that the learner's link carries each version twice; else
            every actor asks the learner's machine.
        seed: of the spread.

    Returns:
        `environment_steps` and `gradient_steps` a second; how busy `shards` (their mean), `learner` and its `link` are.
    """
    model = _Model(seed)
    held = model.servers("shards", shards)
    (learner,), (link,) = model.servers("learner"), model.servers("link")
    environment = model.environment
    copy_s = service.weights_bytes / service.link_bytes_per_s
    levels = max(1, (actors - 1).bit_length())

    def actor(number: int) -> Event:
        yield environment.timeout(service.collect_s * number / actors)  # not all at once
        turn, seen = number, 0
        while True:
            yield model.pause(service.collect_s)
            yield from held[turn % shards].serve(model.spread(service.insert_s))
            turn += 1
            if model.done["calls"] != seen:
                seen = model.done["calls"]
                if tree:
                    yield environment.timeout(copy_s * levels)
                else:
                    yield from link.serve(copy_s)
            model.count("collections")

    sample_s, update_s = (service.part_s(whole_s, shards) for whole_s in (service.sample_s, service.update_s))

    def visit_all(seconds: float) -> Any:
        return environment.all_of([environment.process(one.serve(model.spread(seconds))) for one in held])

    def sampling(ready: simpy.Store) -> Event:
        while True:
            yield visit_all(service.call_s)  # their totals
            yield visit_all(sample_s)
            yield ready.put(True)

    def learning(ready: simpy.Store) -> Event:
        while True:
            yield ready.get()
            yield from learner.serve(model.spread(service.learn_s))
            model.count("calls")
            visit_all(update_s)
            if tree:
                yield from link.serve(2 * copy_s)

    ready = simpy.Store(environment, capacity=1)
    for number in range(actors):
        environment.process(actor(number))
    environment.process(sampling(ready))
    environment.process(learning(ready))
    sizes = {"collections": service.collected, "calls": service.batches}
    found = model.run(actors, "collections", sizes)
    rates = {
        "environment_steps": found.rates_per_s["collections"],
        "gradient_steps": found.rates_per_s["calls"],
    }
    return Simulated(actors, rates, found.busy)


def saturation(service: Service, shards: int) -> dict[str, float]:
    """Nodes at which a part that serves one at a time has no time left, by the asymptotes of a closed network.

    A node goes round in Z seconds of its own and S at the part: from (Z + S) / S nodes on the part is always at work
    (Denning and Buzen 1978, "The operational analysis of queueing network models"). Modelled, from the service times.

    Returns:
        By part: `writer` (machines), `shards` and `link` (actors). The shards have the learner's visits taken off.
    """
    copy_s = service.weights_bytes / service.link_bytes_per_s
    own_s = service.collect_s
    sample_s = service.call_s + service.part_s(service.sample_s, shards)
    update_s = service.part_s(service.update_s, shards)
    a_call_s = max(service.learn_s, sample_s + update_s)
    left = shards * (1 - (sample_s + update_s) / a_call_s)
    return {
        "writer": (service.cell_s + service.writer_s) / service.writer_s,
        "shards": left * (own_s + service.insert_s + copy_s) / service.insert_s,
        # An actor asks once a cycle, and once a version.
        "link": max(own_s + service.insert_s + copy_s, a_call_s) / copy_s,
    }
