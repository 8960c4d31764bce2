"""What every mapping strategy shares: targets, mappings, the performance table, predictions.

A mapping reads Learner-RMM-Storage (RMM: the replay management module, MAP II-A3), each a target:
`torch-native-cpu`, `torch:cuda-native-cpu`, `fpga:u200-fpga:u200-fpga:u200`. A learner that computes in other numbers
than float32 states its precision: `native[dynamic]-native-cpu`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from enum import StrEnum
from math import gcd, inf
from typing import Protocol

from harness.core.errors import UserError
from harness.core.provenance import Provenance, weakest
from primitives.quantization.precision import FLOAT_32
from primitives.quantization.precision import NAMES as PRECISIONS

REFERENCE = "reference"
"""The backend in NumPy that the others are checked against: profiled, never mapped to."""

WORD_BYTES = 4  # E and traffic are counted in 32-bit words (MAP VI-B step 3)
INDEX_BYTES, WEIGHT_BYTES, PRIORITY_BYTES = 8, 4, 12
"""What the runtime sends for an item: its index, its importance weight, its index with a TD error."""

# Backends that live on a device of their own; every other backend runs on the CPU unless it says where.
# OpenCL's memory is its own even where its device is the CPU: what it computes with is copied to and fro.
_HOME = {"cuda": "cuda", "fpga": "fpga", "opencl": "opencl"}


_TARGET = re.compile(r"(?P<backend>[^:\[\]]+)(\[(?P<precision>[^\[\]]*)\])?(:(?P<location>[^\[\]]+))?")


@dataclass(frozen=True, order=True)
class Target:
    """Where a component runs: a backend, and its device where the backend has more than one.

    Attributes:
        backend: name of a backend (`native`, `torch`, ...) or, for storage, of a device (`cpu`).
        location: the device, empty for the backend's only or default one.
        precision: of a learner's numbers, one of `PRECISIONS`.
    """

    backend: str
    location: str = ""
    precision: str = FLOAT_32

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Return the target that `BACKEND`, `BACKEND:DEVICE`, `BACKEND[PRECISION]` or with both says.

        Raises:
            ValueError: another form.
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
    def device(self) -> str:
        """The device it occupies, for contention and traffic: `cpu`, `cuda`, `fpga:u200`, ..."""
        home = _HOME.get(self.backend, "cpu")
        if not self.location:
            return home
        return self.location if home == "cpu" else f"{home}:{self.location}"

    @property
    def kind(self) -> str:
        """What it is whatever its device, as rows name a backend: `native`, `native[fixed32]`."""
        return self.backend if self.precision == FLOAT_32 else f"{self.backend}[{self.precision}]"

    def __str__(self) -> str:
        return f"{self.kind}:{self.location}" if self.location else self.kind


@dataclass(frozen=True, order=True)
class Mapping:
    """Which target runs the learner, the replay management module and the data storage."""

    learner: Target
    rmm: Target
    storage: Target

    @classmethod
    def parse(cls, text: str) -> "Mapping":
        """A mapping from `LEARNER-RMM-STORAGE`.

        Raises:
            UserError: `text` is not three targets joined by hyphens, a precision is unknown, or is not the learner's.
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
        """The distinct devices it occupies."""
        return frozenset({self.learner.device, self.rmm.device, self.storage.device})

    def __str__(self) -> str:
        return f"{self.learner}-{self.rmm}-{self.storage}"


class Loop(StrEnum):
    """How the parts of a mapping are run; a performance model describes one of them."""

    STRICT = "strict"  # every part is a call of its own, one after the other (D = 0, MAP II-A2)
    FUSED = "fused"  # the same, neighbours on one device being one call: what `placerl run` does
    OVERLAPPED = "overlapped"  # fused, and the actors work beside the rest (PRL 3.2)


OVERLAPPED_GRADIENT_STEPS = 32
"""Of an iteration that actors work beside: so many that handing over is little, so few that weights stay fresh."""
SIMULATED_OVERLAPPED_GRADIENT_STEPS = 8
"""The same in virtual time, where nothing is handed over to a process, and a step may take a second to simulate."""


@dataclass(frozen=True)
class Entry:
    """One cell of the primitive x device table: the time of one call on a batch.

    Attributes:
        primitive: `learner.step`, `sum_tree.sample`, `sum_tree.update`, `storage.gather`, ...
        batch_size: items in the call.
        time_s: median seconds a call.
        low_s, high_s: its 95% interval; both `time_s` when there is none.
        provenance: where the time comes from.
    """

    primitive: str
    target: Target
    batch_size: int
    time_s: float
    low_s: float
    high_s: float
    provenance: Provenance


class PerformanceTable:
    """The primitive-platform performance table (MAP VI-A3) at one batch size, in seconds a call."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {(entry.primitive, entry.target): entry for entry in entries}

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def targets(self, primitive: str) -> list[Target]:
        """The targets that `primitive` was profiled on, sorted by name."""
        return sorted(target for name, target in self._entries if name == primitive)

    def entry(self, primitive: str, target: Target) -> Entry:
        """The cell of one primitive on one target.

        Raises:
            KeyError: it was not profiled.
        """
        return self._entries[primitive, target]

    def __contains__(self, cell: object) -> bool:
        return cell in self._entries

    def time_s(self, primitive: str, target: Target) -> float:
        """Median seconds a call of one primitive on one target."""
        return self.entry(primitive, target).time_s


@dataclass(frozen=True)
class Problem:
    """What a strategy must know of the workload.

    Attributes:
        batch_size: B, items a gradient step.
        item_words: E, 32-bit words of one stored transition (MAP VI-B step 3).
        actors: number of actors, each on the CPU.
        update_interval: environment steps between gradient steps.
        trajectory_length: T, vector steps of an on-policy iteration; 0 where training is off-policy.
        epochs: K, passes over the samples of an on-policy iteration.
        acting_words: 32-bit words of the parameters that actors need.
        stored_bytes: of a transition as the runtime stores it; 0: E words.
    """

    batch_size: int
    item_words: int
    actors: int = 1
    update_interval: int = 1
    trajectory_length: int = 0
    epochs: int = 1
    acting_words: int = 0
    stored_bytes: int = 0

    @property
    def item_bytes(self) -> int:
        """Of a transition on its way over a link."""
        return self.stored_bytes or self.item_words * WORD_BYTES

    @property
    def on_policy(self) -> bool:
        """Whether it trains on its own latest samples alone (PPO 2.1)."""
        return self.trajectory_length > 0

    @property
    def round_gradient_steps(self) -> int:
        """Gradient steps of a round: the least time that holds whole gradient steps and whole vector steps."""
        return self.actors // gcd(self.actors, self.update_interval)

    @property
    def round_vector_steps(self) -> int:
        """Steps of all actors together in a round."""
        return self.update_interval // gcd(self.actors, self.update_interval)

    def overlapped_rounds(self, simulated: bool = False) -> int:
        """Rounds of an iteration that actors work beside: in virtual time, where a part is simulated."""
        steps = SIMULATED_OVERLAPPED_GRADIENT_STEPS if simulated else OVERLAPPED_GRADIENT_STEPS
        return -(-steps // self.round_gradient_steps)


class Platform(Protocol):
    """What a strategy must know of the machine, beside the table."""

    name: str

    @property
    def cpu_cores(self) -> int:
        """Cores of the host; UserError where the platform does not say."""
        ...

    def bytes_per_s(self, source: str, target: str) -> float:
        """Between two devices as `Target.device` names them, or within one; UserError where it is not known."""
        ...


Cell = tuple[str, Target]
"""A primitive and the target that runs it."""


@dataclass(frozen=True)
class Prediction:
    """What a performance model expects of a mapping.

    Attributes:
        mapping: the mapping.
        model: name of the performance model.
        gps: gradient steps per second.
        terms_s: seconds a gradient step spends in each term; how they combine is the model's.
        cells: the cells of the table that it was made from.
        inputs: the weakest provenance among them.
        provenance: always `modelled`.
        settings: what the strategy chose beside the mapping, such as cores of the actors; empty where nothing.
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
    """A performance model: the predicted throughput of any one mapping.

    Attributes:
        name: in tables and rows.
        loop: what it describes, and is judged by.
    """

    name: str
    loop: Loop

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Raises KeyError where the table lacks a term of the mapping."""
        ...


class Strategy(Model, Protocol):
    """A mapping strategy: the mapping it would choose, and its performance model."""

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Its own prediction of the mapping that it chooses; ValueError where the table holds none."""
        ...


def inputs_provenance(table: PerformanceTable, cells: Iterable[Cell]) -> Provenance:
    """The weakest provenance among the table's cells that a prediction used."""
    return weakest(*(table.entry(primitive, target).provenance for primitive, target in cells))


def candidates(table: PerformanceTable) -> list[Mapping]:
    """Every mapping of the table's targets, the storage on any device that one of them occupies and that has one."""
    return [
        Mapping(learner, rmm, storage_on(device))
        for learner in table.targets("learner.step")
        for rmm in rmm_targets(table)
        for device in sorted({"cpu", learner.device, rmm.device})
        if can_store(table, device)
    ]


def can_store(table: PerformanceTable, device: str) -> bool:
    """Whether a device can hold the storage: where `storage.gather` was profiled, or anywhere when it was not."""
    places = {target.device for target in table.targets("storage.gather")}
    return not places or device in places


def rmm_targets(table: PerformanceTable) -> list[Target]:
    """Targets on which both replay operations, sample and update, were profiled; not the definition of right."""
    updates = set(table.targets("sum_tree.update"))
    both = [target for target in table.targets("sum_tree.sample") if target in updates]
    return [target for target in both if target.backend != REFERENCE]


def least_traffic(
    table: PerformanceTable, costs: Iterable[tuple[str, float]], distance: Callable[[str, str], float]
) -> Target:
    """Where the storage causes the least traffic (MAP Algorithm 3 lines 9-16, PRL Algorithm 2 lines 6-13).

    Args:
        table: says which devices can hold a storage.
        costs: by component, in the order in which ties are broken: its device, and its traffic with the storage.
        distance: from two devices to the factor that their traffic is multiplied by.

    Returns:
        The storage's target on one of the components' devices, or on the CPU when none of them can hold it.
    """
    components = list(costs)
    best, least = "cpu", inf
    for place, _ in components:
        traffic = sum(cost * distance(place, other) for other, cost in components)
        if can_store(table, place) and traffic < least:
            best, least = place, traffic
    return storage_on(best)


def storage_on(device: str) -> Target:
    """The storage target of a device: `cpu`, `cuda`, `fpga:u200`."""
    return Target.parse(device)
