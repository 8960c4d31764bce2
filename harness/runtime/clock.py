"""The clock of a training, from its mapping and its parts: real time, or virtual time if a part is simulated."""

from collections.abc import Callable, Collection
from collections.abc import Mapping as MappingABC
from typing import Any

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.loop.clock import HOST, LEARNER, RMM, STORAGE
from placerl.harness.loop.real_time import RealTime
from placerl.harness.loop.virtual_time import ALL_AT_ONCE, Device, VirtualTime
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.base import Platform
from placerl.harness.runtime import simulated_parts
from placerl.primitives.learner import Learner

_SENT = (
    (HOST, RMM),  # priorities of new items, and the items if the storage is there too
    (HOST, STORAGE),  # new items, if the storage is on a device without the replay management
    (HOST, LEARNER),  # on-policy samples
    (RMM, STORAGE),  # sampled indices
    (RMM, LEARNER),  # importance weights
    (STORAGE, LEARNER),  # sampled items
    (LEARNER, RMM),  # TD errors
    (LEARNER, HOST),  # the actors' weights
)
"""The units that send data to each other: (sender, receiver)."""


def time_of(
    mapping: Mapping,
    learner: Any,
    replay: Any,
    platform: Callable[[], Platform],
    beside: Collection[str] = (),
    streams: MappingABC[str, int] = ALL_AT_ONCE,
) -> RealTime:
    """Return the clock of a training: virtual time if one of its parts is simulated, otherwise real time.

    Args:
        mapping: gives the devices.
        learner, replay: the parts of the training that may run on simulated devices.
        platform: returns the platform that states the links; called only if a part is simulated.
        beside: units on the host, such as the replay management, that work in parallel with the host's other work.
        streams: parts in which a simulated unit's inputs arrive (`VirtualTime`).

    Raises:
        UserError: the platform lacks a link that the mapping needs.
    """
    targets = {LEARNER: (learner, mapping.learner.device), RMM: (replay, mapping.rmm.device)}
    devices = {
        unit: Device(told, device)
        for unit, (part, device) in targets.items()
        if (told := simulated_s(part)) is not None
    }
    if not devices:
        return RealTime()
    places = {unit: device.name for unit, device in devices.items()}
    stored: dict[str, Callable[[], float]] = {}
    if mapping.storage.backend == "fpga":
        places[STORAGE] = mapping.storage.device
        stored["stored_s"] = lambda: replay.storage.gather_s + replay.storage.write_s
    links = platform()
    ends = {
        (source, unit): (places.get(source, "cpu"), places.get(unit, "cpu"))
        for source, unit in _SENT
        if source in places or unit in places
    }
    return VirtualTime(
        devices,
        {pair: links.bytes_per_s(*between) for pair, between in ends.items()},
        weakest(
            Provenance.MODELLED if streams else Provenance.SIMULATED, simulated_parts.of_mapping(mapping)
        ),
        {pair: links.latency_s(*between) for pair, between in ends.items()},
        beside,
        streams=streams,
        **stored,
    )


def weights_bytes(time: RealTime, learner: Learner) -> int:
    """Return the bytes of the weights that a simulated learner sends to actors on the host; 0 if not simulated.

    Args:
        time: the training's clock, which knows whether the learner is simulated.
        learner: the learner.
    """
    return sum(value.nbytes for value in learner.parameters().values()) if time.is_simulated(LEARNER) else 0


def simulated_s(part: Any) -> Callable[[], float] | None:
    """Return a function that gives the seconds that a part's simulated device has worked so far; None if it has none.

    The device's time is the attribute `simulated_s`, or `cycles` divided by `clock_hz`. It is looked for on the part
    itself, on a replay's `tree` and on a learner's `executable`.
    """
    for owner in (part, getattr(part, "tree", None), getattr(part, "executable", None)):
        if hasattr(owner, "simulated_s"):
            return lambda owner=owner: float(owner.simulated_s)  # type: ignore[misc]
        if hasattr(owner, "cycles") and hasattr(owner, "clock_hz"):
            return lambda owner=owner: owner.cycles / owner.clock_hz  # type: ignore[misc]
    return None
