"""Defines the rows of a report about primitives, the operations that are timed on their own: times and rooflines."""

from dataclasses import dataclass

from placerl.harness.papers.number import Number


@dataclass(frozen=True)
class PrimitiveTime:
    """The time of one call of a primitive, such as `sum_tree.sample`, on one backend and device.

    Attributes:
        backend: the implementation, such as "native" or "torch".
        device: the device, such as "cpu" or "cuda:0".
        time: None if it failed or was not run.
        status: "ok", "too_noisy", "failed" or "not_run"; `reason` says why it is not "ok".
    """

    workload: str
    primitive: str
    backend: str
    device: str
    batch_size: int | None
    time: Number | None
    status: str
    reason: str


PEAK = "peak"
"""Beginning of the name of a roof that limits arithmetic (`DeviceRoof.name`)."""


@dataclass(frozen=True)
class DeviceRoof:
    """An upper limit of a device's rate: its peak arithmetic, or the bandwidth of a memory.

    Attributes:
        device: name of the device, such as "cpu" or "cuda:0".
        workloads: workloads to which the limit applies; empty for all.
        primitives: timed operations to which it applies, by the beginning of their names; empty for all.
        name: "peak", "peak in bfloat16", or the memory in which the copy was made.
        footprint_bytes: largest data that this memory holds, bytes; None for the peak and for the only memory.
        rate: operations or bytes per second.
        status: "ok" or "too_noisy".
        precision: precision of a peak's operations; empty for float32.
    """

    device: str
    workloads: tuple[str, ...]
    primitives: str
    name: str
    footprint_bytes: int | None
    rate: Number
    status: str
    precision: str = ""

    @property
    def is_peak(self) -> bool:
        """Return whether this is a limit of arithmetic; otherwise it is the limit of a memory."""
        return self.name.startswith(PEAK)


@dataclass(frozen=True)
class RooflinePoint:
    """The rate that a primitive, such as `learner.step`, achieves, and its device's upper limit that applies to it.

    Attributes:
        flops, traffic: operations and bytes of one call, counted from shapes.
        intensity: operations per byte; None if the primitive only moves data.
        achieved: operations per second, or bytes per second if it only moves data.
        roof: highest rate that its intensity and the size of its data allow, in the unit of `achieved`; None if the
            device's limits were not measured.
        bound: name of the limit that gives `roof`.
        share: achieved divided by roof, percent.
        status: "ok", or "too_noisy" if the time or the roof is.
    """

    workload: str
    primitive: str
    backend: str
    device: str
    batch_size: int | None
    time: Number
    flops: Number
    traffic: Number
    intensity: Number | None
    achieved: Number
    roof: Number | None
    bound: str
    share: Number | None
    status: str
