"""Simulates clusters with more nodes than are available, by discrete events with service times measured here.

A cluster has two uses, and both are closed queueing networks, simulated with SimPy:

- Measuring a plan: each machine measures a cell (a piece of the plan), then waits for the single writer (the
  process that submits tasks and commits rows), which serves one machine at a time.
- Training: each actor collects transitions, sends them to a shard of the replay, and fetches the learner's newest
  weights over the learner's link. Each shard sends the sum of its priorities. Then the learner samples from all
  shards, one call ahead of its gradient steps, and afterwards updates priorities.

Assumptions:

- The service times measured on one machine (`Service`) hold for all, with a uniform random spread of `SPREAD`
  about their mean.
- Each actor, shard and learner has its own machine.
- The items of a call are distributed evenly over the shards. A call to a shard takes a fixed time, Ray's own, and
  a time that is proportional to the number of items.
- A machine's link carries `link_bytes_per_s`, and the network between the links is not a limit.
- Weights go from the learner's link to each actor that requests them, or in a tree from actor to actor.
- An actor waits for the insertion of its transitions before it continues. Nothing fails.
"""

import random
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import simpy

SPREAD = 0.2  # of a service time, in both directions
CYCLES_A_NODE = 6  # simulated cycles per node, of which the first third is not counted
FEWEST_CYCLES = 600  # simulated cycles of all nodes together, likewise
FEWEST_CALLS = 18  # simulated calls of the learner, likewise: it may be slow compared with the actors

Event = Generator[Any, Any, None]


@dataclass(frozen=True)
class Service:
    """The durations of the steps of a cluster's work, which the simulations take as input.

    Attributes:
        cell_s: seconds that a machine takes to measure a cell (a piece of a plan).
        writer_s: seconds per cell of the writer, the process that submits cells, and receives and stores their rows.
        collect_s: seconds of an actor's call, which collects `collected` transitions.
        collected: transitions per call.
        insert_s: seconds of a shard to insert the transitions of one call.
        sample_s, update_s: seconds to sample, and to update the priorities of, the `batches` of one learner's call, if
            a single shard holds all items.
        call_s: the seconds of `sample_s` and of `update_s` that Ray takes, whatever the number of items.
        learn_s: seconds of a learner's call.
        batches: gradient steps per learner's call.
        weights_bytes: bytes of one version of the weights.
        link_bytes_per_s: bandwidth of a machine's link.
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
        """Return the seconds of a call to one of several shards, each of which handles an equal part of the items.

        Args:
            whole_s: seconds of the same call to a single shard that handles all items.
        """
        return self.call_s + max(0.0, whole_s - self.call_s) / shards


@dataclass(frozen=True)
class Simulated:
    """The simulated throughput of a cluster.

    Attributes:
        nodes: number of machines that measure cells, or of actors.
        rates_per_s: events per second by name: "cells" (measured pieces of a plan), or "environment_steps"
            and "gradient_steps".
        busy: fraction of the time, 0 to 1, in which each part that nodes share is busy, by name ("writer", or
            "shards", "learner" and "link").
    """

    nodes: int
    rates_per_s: dict[str, float]
    busy: dict[str, float]


class _Server:
    """A part that serves one visitor at a time and counts its busy time."""

    def __init__(self, environment: simpy.Environment) -> None:
        self._environment = environment
        self._resource = simpy.Resource(environment)
        self._served_s = 0.0
        self._begin_s: float | None = None  # start of the current service

    @property
    def busy_s(self) -> float:
        """Return the busy seconds so far, including the elapsed part of the current service."""
        return self._served_s + (
            0.0 if self._begin_s is None else float(self._environment.now) - self._begin_s
        )

    def serve(self, seconds: float) -> Event:
        """Wait for a free server, then for the service."""
        with self._resource.request() as turn:
            yield turn
            self._begin_s = float(self._environment.now)
            yield self._environment.timeout(seconds)
            self._served_s, self._begin_s = self.busy_s, None


class _Model:
    """What both networks share: the clock, the spread, the counters, and the measurement after a warm-up.

    Attributes:
        done: number of ends so far, by what is counted.
        last_s: time of the last end, by what is counted.
        parts: servers, by the kind under which they are reported.
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
        """Count an end at the current time."""
        self.done[name] += 1
        self.last_s[name] = self.environment.now

    def run(self, nodes: int, a_cycle: str, at_once: Mapping[str, float]) -> Simulated:
        """Simulate until the nodes have completed enough cycles; the first third is not counted.

        A rate is measured from one counted end to another and not over the whole window: with a dozen calls in a
        window that begins during a call, the count would be up to a twelfth too high.
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
        """Continue until this many more cycles have ended, and this many calls if there is a learner."""
        cycles += self.done[a_cycle]
        calls = self.done["calls"] + calls if "learner" in self.parts else 0
        while self.done[a_cycle] < cycles or self.done["calls"] < calls:
            self.environment.step()


def simulate_cells(service: Service, machines: int, *, seed: int = 0) -> Simulated:
    """Simulate machines that measure cells (units of work of a run), and the one process that stores the results.

    Returns:
        `cells` measured per second, and the fraction of the time in which the `writer`, that process, is busy.
    """
    model = _Model(seed)
    (writer,) = model.servers("writer")

    def machine(number: int) -> Event:
        yield model.environment.timeout(service.cell_s * number / machines)  # starts are spread out
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
    """Simulate actors, shards of a replay and one learner, each working as fast as it can.

    Args:
        tree: how actors get new weights. True: the learner sends them to two actors, and actors pass them on, in a
            binary tree. False: every actor fetches them over the learner's link.

    Returns:
        `environment_steps` and `gradient_steps` per second, and the fractions of the time in which the `shards` (their
        mean), the `learner` and its `link` are busy.
    """
    model = _Model(seed)
    held = model.servers("shards", shards)
    (learner,), (link,) = model.servers("learner"), model.servers("link")
    environment = model.environment
    copy_s = service.weights_bytes / service.link_bytes_per_s
    levels = max(1, (actors - 1).bit_length())

    def actor(number: int) -> Event:
        yield environment.timeout(service.collect_s * number / actors)  # starts are spread out
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
            yield visit_all(service.call_s)  # the sums of their priorities
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
    outcome = model.run(actors, "collections", sizes)
    rates = {
        "environment_steps": outcome.rates_per_s["collections"],
        "gradient_steps": outcome.rates_per_s["calls"],
    }
    return Simulated(actors, rates, outcome.busy)


def saturation(service: Service, shards: int) -> dict[str, float]:
    """Return how many nodes are enough to keep each part that the nodes share, such as the writer, always busy.

    A node needs Z seconds for itself and S seconds of the shared part in each cycle, so that (Z + S) / S nodes keep
    the part busy: the asymptote of a closed queueing network (Denning and Buzen 1978, "The operational analysis of
    queueing network models"). This is a formula of the service times, not a simulation.

    Returns:
        Number of nodes by the name of the part: machines for `writer`; actors for `shards` and `link`. Of the
        shards' time, only what the learner leaves is counted.
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
        # An actor fetches weights once per cycle and once per version.
        "link": max(own_s + service.insert_s + copy_s, a_call_s) / copy_s,
    }
