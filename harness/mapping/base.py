"""Defines what all mapping strategies share: targets, mappings, the performance table, predictions.

A mapping says where each part of a training runs. It is written Learner-RMM-Storage (RMM: the replay
management module, MAP II-A3). Each part is a target, a backend with an optional device:
`torch-native-cpu`, `torch:cuda-native-cpu`, `fpga:u200-fpga:u200-fpga:u200`. A learner whose precision is
not float32 names it: `native[dynamic]-native-cpu`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import gcd, inf
from typing import Protocol

from harness.core.errors import UserError
from harness.core.provenance import Provenance, weakest
from primitives.quantization.precision import FLOAT_32
from primitives.quantization.precision import NAMES as PRECISIONS

REFERENCE = "reference"
"""Name of the NumPy backend against which the others are checked; it is profiled, but no mapping uses it."""

WORD_BYTES = 4  # E and traffic are counted in 32-bit words (MAP VI-B step 3)
INDEX_BYTES, WEIGHT_BYTES, PRIORITY_BYTES = 8, 4, 12
"""Bytes that the runtime sends per item: its index, its importance weight, and its index with a TD error (together)."""

# Backends with a device of their own; every other backend runs on the CPU unless its location names a device.
# OpenCL has its own memory even if its device is the CPU: its data is copied to and from it.
_HOME = {"cuda": "cuda", "fpga": "fpga", "opencl": "opencl"}


_TARGET = re.compile(r"(?P<backend>[^:\[\]]+)(\[(?P<precision>[^\[\]]*)\])?(:(?P<location>[^\[\]]+))?")


@dataclass(frozen=True, order=True)
class Target:
    """Says where a part of a training runs: a backend, and the device if the backend has several.

    Attributes:
        backend: name of a backend (`native`, `torch`, ...) or, for storage, of a device (`cpu`).
        location: the device; empty for the backend's only or default device.
        precision: precision of a learner's numbers, one of `PRECISIONS`.
    """

    backend: str
    location: str = ""
    precision: str = FLOAT_32

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Return the target that a text names.

        The text is `BACKEND`, `BACKEND:DEVICE`, `BACKEND[PRECISION]` or `BACKEND[PRECISION]:DEVICE`.

        Raises:
            ValueError: the text has another form.
            UserError: there is no such precision.
        """
        found = _TARGET.fullmatch(text)
        if found is None:
            raise ValueError(
                f"target: found {text!r}; allowed: BACKEND[PRECISION]:DEVICE, the last two optional"
            )
        precision = FLOAT_32 if found["precision"] is None else found["precision"]
        if precision not in PRECISIONS:
            raise UserError(
                "command line", f"precision of {text}", precision or "nothing", ", ".join(PRECISIONS)
            )
        return cls(found["backend"], found["location"] or "", precision)

    @property
    def in_floats(self) -> "Target":
        """Return the same backend and device with precision float32."""
        return replace(self, precision=FLOAT_32)

    @property
    def device(self) -> str:
        """Return the device that the target runs on: `cpu`, `cuda`, `fpga:u200`, ...

        Parts of a training on the same device compete for it, and need no link between them.
        """
        home = _HOME.get(self.backend, "cpu")
        if not self.location:
            return home
        return self.location if home == "cpu" else f"{home}:{self.location}"

    @property
    def kind(self) -> str:
        """Return the backend and the precision without the device: `native`, `native[fixed32]`, ...

        Result rows name a backend like this.
        """
        return self.backend if self.precision == FLOAT_32 else f"{self.backend}[{self.precision}]"

    def __str__(self) -> str:
        return f"{self.kind}:{self.location}" if self.location else self.kind


@dataclass(frozen=True, order=True)
class Mapping:
    """Says where each part of a training runs: backend and device of learner, replay management (RMM) and storage.

    Attributes:
        learner: target (backend, device and precision) of the learner.
        rmm: target of the replay management, which samples and keeps the priorities.
        storage: target of the storage, a device.
    """

    learner: Target
    rmm: Target
    storage: Target

    @classmethod
    def parse(cls, text: str) -> "Mapping":
        """Return the mapping that a text such as `torch-native-cpu` names.

        The text is `LEARNER-RMM-STORAGE` (RMM: replay management). Each part is a backend with an optional device,
        such as `torch:cuda`, and the learner may have a precision, such as `native[fixed32]`.

        Raises:
            UserError: `text` has another form, a precision is unknown, or a part other than the learner has
                a precision.
        """
        try:
            learner, rmm, storage = (Target.parse(part) for part in text.split("-"))
        except ValueError:
            raise UserError(
                source="command line",
                field="mapping",
                found=text or repr(text),
                allowed="LEARNER-RMM-STORAGE, each BACKEND or BACKEND:DEVICE, such as torch-native-cpu; "
                "the learner BACKEND[PRECISION] too",
                names=(),
            ) from None
        for target in (rmm, storage):
            if target.precision != FLOAT_32:
                allowed = "of the learner alone, such as native[fixed32]-native-cpu"
                raise UserError("command line", f"precision in mapping {text}", target, allowed, names=())
        return cls(learner, rmm, storage)

    @property
    def devices(self) -> frozenset[str]:
        """Return the devices that learner, replay management and storage run on, each once."""
        return frozenset({self.learner.device, self.rmm.device, self.storage.device})

    def __str__(self) -> str:
        return f"{self.learner}-{self.rmm}-{self.storage}"


class Loop(StrEnum):
    """The order in which the parts of a training are called: strict, fused, overlapped or relaxed.

    Strict: separate calls, one after another. Fused: the same order, but neighbouring parts on one device are one call.
    Overlapped: fused, and the actors run at the same time as the rest (PRL 3.2). Relaxed: overlapped, and the replay
    manager works at the same time as the learner (MAP V-A). A performance model describes one of these orders.
    """

    STRICT = "strict"  # every part is a separate call, one after another (D = 0, MAP II-A2)
    FUSED = "fused"  # as strict, but neighbouring parts on one device are one call: the loop of `placerl run`
    OVERLAPPED = "overlapped"  # fused, and the actors run at the same time as the rest (PRL 3.2)
    RELAXED = "relaxed"  # overlapped, and the replay manager works at the same time as the learner (MAP V-A)


OVERLAPPED_GRADIENT_STEPS = 32
"""Gradient steps of an iteration with concurrent actors: many, so that the hand-over costs little, but few enough to
keep the actors' weights fresh.
"""
SIMULATED_OVERLAPPED_GRADIENT_STEPS = 8
"""Gradient steps of such an iteration in virtual time, where a single step may take a second to simulate."""


RELAXED_AHEAD = 50
"""D, batches sampled ahead in the relaxed loop, so that sampling need not wait for training (50 in MAP VII-B)."""


@dataclass(frozen=True)
class Entry:
    """One entry of the performance table: the time of one call of a primitive on a target.

    Attributes:
        primitive: name of the timed operation: `learner.step`, `sum_tree.sample`, `sum_tree.update`,
            `storage.gather`, ...
        target: backend and device that run it.
        batch_size: items per call.
        time_s: median seconds per call.
        low_s, high_s: bounds of its 95% interval; both equal `time_s` if there is none.
        provenance: origin of the time, such as measured or published.
    """

    primitive: str
    target: Target
    batch_size: int
    time_s: float
    low_s: float
    high_s: float
    provenance: Provenance


class PerformanceTable:
    """The performance table (MAP VI-A3): seconds per call of each primitive on each backend and device.

    All times are for one batch size. A pair of a primitive and a target (backend and device) is `in` the table if it
    was timed.

    Args:
        entries: the times.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {(entry.primitive, entry.target): entry for entry in entries}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def targets(self, primitive: str) -> list[Target]:
        """Return the targets (backends and devices) on which a primitive was timed, sorted by name."""
        return sorted(target for name, target in self._entries if name == primitive)

    def entry(self, primitive: str, target: Target) -> Entry:
        """Return the entry of one primitive on one target (backend and device).

        Raises:
            KeyError: the primitive was not timed there.
        """
        return self._entries[primitive, target]

    def __contains__(self, cell: object) -> bool:
        return cell in self._entries

    def time_s(self, primitive: str, target: Target) -> float:
        """Return the median seconds per call of a primitive on a target.

        Args:
            primitive: name of the primitive, such as "sum_tree.sample".
            target: backend and device.

        Raises:
            KeyError: the primitive was not timed there.
        """
        return self.entry(primitive, target).time_s


@dataclass(frozen=True)
class Problem:
    """The properties of a workload that a strategy needs.

    Attributes:
        batch_size: B, items per gradient step.
        item_words: E, 32-bit words of one stored transition (MAP VI-B step 3).
        actors: number of actors, each on the CPU.
        update_interval: environment steps between gradient steps.
        trajectory_length: T, vector steps of an on-policy iteration; 0 for off-policy training.
        epochs: K, passes over the samples of an on-policy iteration.
        acting_words: 32-bit words of the parameters that actors need.
        stored_bytes: bytes of a transition as the runtime stores it; 0: E words.
        ahead: D, the number of batches sampled ahead in the relaxed loop, where sampling runs in parallel with the
            learner: `RELAXED_AHEAD`, or fewer if the replay does not hold so many.
    """

    batch_size: int
    item_words: int
    actors: int = 1
    update_interval: int = 1
    trajectory_length: int = 0
    epochs: int = 1
    acting_words: int = 0
    stored_bytes: int = 0
    ahead: int = RELAXED_AHEAD
    learner_threads: int = 1
    overlapped_gradient_steps: int = OVERLAPPED_GRADIENT_STEPS
    actor_processes: int = 0

    @property
    def item_bytes(self) -> int:
        """Return the bytes of a transition that is sent over a link."""
        return self.stored_bytes or self.item_words * WORD_BYTES

    @property
    def on_policy(self) -> bool:
        """Return whether the workload trains only on its own latest samples (PPO 2.1)."""
        return self.trajectory_length > 0

    @property
    def round_gradient_steps(self) -> int:
        """Return the number of gradient steps per round.

        A round is the smallest unit with whole gradient steps and whole vector steps (steps of all actors together).
        """
        return self.actors // gcd(self.actors, self.update_interval)

    @property
    def round_vector_steps(self) -> int:
        """Return the number of vector steps (steps of all actors together) per round.

        A round is the smallest unit with whole gradient steps and whole vector steps.
        """
        return self.update_interval // gcd(self.actors, self.update_interval)

    @property
    def iteration_gradient_steps(self) -> int:
        """Return the number of gradient steps in an on-policy iteration."""
        return self.epochs * (self.trajectory_length * self.actors // self.batch_size)

    def overlapped_rounds(self, simulated: bool = False) -> int:
        """Return how many rounds the actors step at a time if they run in parallel with the learner.

        A round is the smallest unit with whole gradient steps and whole vector steps.

        Args:
            simulated: whether a part is simulated, so that time is virtual.
        """
        steps = SIMULATED_OVERLAPPED_GRADIENT_STEPS if simulated else self.overlapped_gradient_steps
        return -(-steps // self.round_gradient_steps)


class Platform(Protocol):
    """The properties of a machine that a strategy needs in addition to the performance table: its cores and links."""

    name: str

    @property
    def cpu_cores(self) -> int:
        """Return the number of the host's cores; raises UserError if the platform does not state it."""
        ...

    def bytes_per_s(self, source: str, target: str) -> float:
        """Return the bandwidth of transfers between two devices, bytes/s.

        Args:
            source, target: the devices' names, such as "cpu" and "cuda"; the same name twice for transfers within a
                device.

        Raises:
            UserError: the bandwidth is unknown.
        """
        ...

    def latency_s(self, source: str, target: str) -> float:
        """Return the latency of a transfer between two devices, in seconds; 0 if the platform states none.

        Args:
            source, target: the devices' names, such as "cpu" and "cuda".
        """
        ...


def transfer_s(platform: Platform, source: str, target: str, sent_bytes: float) -> float:
    """Return the seconds of a transfer between two devices: the latency, and the bytes divided by the bandwidth.

    Args:
        platform: states latencies and bandwidths.
        source, target: the devices' names, such as "cpu" and "cuda".
        sent_bytes: bytes to transfer; 0 bytes take no time.
    """
    if not sent_bytes:
        return 0.0
    return platform.latency_s(source, target) + sent_bytes / platform.bytes_per_s(source, target)


Cell = tuple[str, Target]
"""A primitive and the target (backend and device) that runs it: the key of an entry of the performance table."""


@dataclass(frozen=True)
class Prediction:
    """The throughput that a performance model predicts for a mapping.

    Attributes:
        mapping: backend and device of learner, replay management and storage.
        model: name of the performance model.
        gps: gradient steps per second.
        terms_s: seconds per gradient step of each term, such as "learner"; the model defines how the terms combine.
        cells: (primitive, target) of each entry of the performance table that the prediction uses.
        inputs: the weakest provenance of these entries.
        provenance: always `modelled`.
        settings: further choices of the strategy, such as the cores of the actors; empty if there are none.
    """

    mapping: Mapping
    model: str
    gps: float
    terms_s: MappingABC[str, float]
    cells: tuple[Cell, ...]
    inputs: Provenance
    provenance: Provenance = Provenance.MODELLED
    settings: MappingABC[str, int] = field(default_factory=dict)


class Model(Protocol):
    """A performance model: predicts the throughput of any mapping.

    Attributes:
        name: name in tables and rows.
        loop: the order of calls that it describes; its predictions are compared with runs in this order.
    """

    name: str
    loop: Loop

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the throughput that the model predicts for a mapping.

        Args:
            table: times of the primitives.
            problem: properties of the workload.
            platform: links and cores of the machine.
            mapping: where learner, replay management and storage run.

        Raises:
            KeyError: the table lacks a time that the prediction needs.
        """
        ...


class Strategy(Model, Protocol):
    """A mapping strategy: chooses where the parts of a training run, and has a performance model."""

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Choose a mapping, and return the prediction for it.

        Args:
            table: times of the primitives.
            problem: properties of the workload.
            platform: links and cores of the machine.

        Raises:
            ValueError: the table lacks times for every mapping.
        """
        ...


def inputs_provenance(table: PerformanceTable, cells: Iterable[Cell]) -> Provenance:
    """Return the weakest provenance among some entries of the performance table; "measured" is the strongest.

    Args:
        table: the performance table.
        cells: the entries, each given by its primitive and its target (backend and device).
    """
    return weakest(*(table.entry(primitive, target).provenance for primitive, target in cells))


def candidates(table: PerformanceTable) -> list[Mapping]:
    """Return every mapping of learners and replay managements that were timed in the table.

    The storage is on the CPU or on a device of the learner or the replay management, if that device can hold it.
    """
    return [
        Mapping(learner, rmm, storage_on(device))
        for learner in table.targets("learner.step")
        for rmm in rmm_targets(table)
        for device in sorted({"cpu", learner.device, rmm.device})
        if can_store(table, device)
    ]


def can_store(table: PerformanceTable, device: str) -> bool:
    """Return whether a device can hold the storage of the transitions.

    It can if the primitive `storage.gather` was timed on it. If `storage.gather` was not timed at all, every device
    can.
    """
    places = {target.device for target in table.targets("storage.gather")}
    return not places or device in places


def rmm_targets(table: PerformanceTable) -> list[Target]:
    """Return the backends and devices that can manage the replay: both sampling and updating were timed on them.

    The reference backend is left out.
    """
    updates = set(table.targets("sum_tree.update"))
    both = [target for target in table.targets("sum_tree.sample") if target in updates]
    return [target for target in both if target.backend != REFERENCE]


def least_traffic(
    table: PerformanceTable,
    costs: Iterable[tuple[str, float]],
    traffic_of: Callable[[str, str, float], float],
) -> Target:
    """Return the device for the storage that causes the least traffic, as a `Target`.

    MAP Algorithm 3 lines 9-16, PRL Algorithm 2 lines 6-13.

    Args:
        table: says which devices can hold a storage.
        costs: for each component that reads or writes the storage, its device and its amount of data. Among equal
            places, the first in this order is chosen.
        traffic_of: function of the storage's device, the component's device and the amount of data, which returns the
            traffic.

    Returns:
        One of the components' devices, or the CPU if none of them can hold the storage.
    """
    components = list(costs)
    best, least = "cpu", inf
    for place, _ in components:
        traffic = sum(traffic_of(place, other, cost) for other, cost in components)
        if can_store(table, place) and traffic < least:
            best, least = place, traffic
    return storage_on(best)


def storage_on(device: str) -> Target:
    """Return the `Target` of a storage, which only names its device: `cpu`, `cuda`, `fpga:u200`, ..."""
    return Target.parse(device)
