"""Defines what all mapping strategies share: the order of calls that a model describes, platforms and predictions."""

from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from typing import Protocol

from placerl.harness.core.provenance import Provenance
from placerl.harness.loop.schedule import Loop
from placerl.harness.mapping.problem import Problem
from placerl.harness.mapping.table import Cell, PerformanceTable
from placerl.harness.mapping.target import Mapping


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
        """Return the latency of a transfer between two devices, in seconds; 0 if the platform states none."""
        ...


def transfer_s(platform: Platform, source: str, target: str, sent_bytes: float) -> float:
    """Return the seconds of a transfer between two devices: the latency, and the bytes divided by the bandwidth.

    Args:
        sent_bytes: bytes to transfer; 0 bytes take no time.
    """
    if not sent_bytes:
        return 0.0
    return platform.latency_s(source, target) + sent_bytes / platform.bytes_per_s(source, target)


@dataclass(frozen=True)
class Prediction:
    """The throughput that a performance model predicts for a mapping.

    Attributes:
        mapping: backend and device of learner, replay management and storage.
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
        loop: the order of calls that it describes; its predictions are compared with runs in this order.
    """

    name: str
    loop: Loop

    def predict(
        self, table: PerformanceTable, problem: Problem, platform: Platform, mapping: Mapping
    ) -> Prediction:
        """Return the throughput that the model predicts for a mapping.

        Raises:
            KeyError: the table lacks a time that the prediction needs.
        """
        ...


class Strategy(Model, Protocol):
    """A mapping strategy: chooses where the parts of a training run, and has a performance model."""

    def choose(self, table: PerformanceTable, problem: Problem, platform: Platform) -> Prediction:
        """Choose a mapping, and return the prediction for it.

        Raises:
            ValueError: the table lacks times for every mapping.
        """
        ...
