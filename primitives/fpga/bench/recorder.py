"""Records every port of a block in every cycle of a simulation, for a bench that replays the record."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from placerl.primitives.fpga.bench.stimuli import Stimuli
from placerl.primitives.fpga.host.axi_names import NamedPort, axi_ports
from placerl.primitives.fpga.host.register_map import RegisterMap
from placerl.primitives.fpga.simulation.ports import Values, pack

CLOCK_PERIOD_S = 1e-9  # any value: results are in cycles
UNCHANGED = "."
OFFERED, ACCEPTED = (
    0.7,
    0.8,
)  # the share of cycles in which an idle source offers an item, and a sink is ready


@dataclass
class _Source:
    """A stream that the recorder offers items to."""

    port: Any
    items: list[int] | None  # None: random ones
    start: int
    offering: bool = False


def record(design: wiring.Component, stimuli: Stimuli, *, seed: int = 0) -> str:
    """Return the record of a simulation as JSON, for `cocotb_bench`.

    Streams stall at random in both directions.

    Args:
        design: a component that has not been elaborated.
        stimuli: what it is given.
        seed: of the stalls, and of inputs without stimuli.

    Returns:
        An object with `inputs` and `outputs`, which have for each port the hexadecimal values by cycle, as a text in
        which "." stands for the value of the cycle before; for outputs that count only while another port is 1, the
        name of that port (`valid`); and the `registers` of the design, if it has any.

    Raises:
        ValueError: a stimulus names no input.
    """
    ports = list(_named_ports(design))
    recorder = _Recorder(design, ports, stimuli, np.random.default_rng(seed))
    if stimuli.cycles:
        whole, unused = Module(), Signal()
        whole.submodules.design = design
        whole.d.sync += unused.eq(1)  # so that a block without registers has a clock here, too
        simulator = Simulator(whole)
        simulator.add_clock(CLOCK_PERIOD_S)
        simulator.add_testbench(recorder.run)
        simulator.run()
    values = recorder.values
    return json.dumps(
        {
            "cycles": stimuli.cycles,
            "inputs": {port.name: _compact(values[port.name]) for port in ports if port.is_input},
            "outputs": {
                port.name: {"valid": port.valid, "values": _compact(values[port.name])}
                for port in ports
                if not port.is_input
            },
            "registers": _registers(getattr(design, "register_map", None)),
        },
        indent=1,
    )


class _Recorder:
    def __init__(
        self, design: Any, ports: list[NamedPort], stimuli: Stimuli, rng: np.random.Generator
    ) -> None:
        self.values: dict[str, list[int]] = {port.name: [] for port in ports}
        self._ports, self._stimuli, self._rng = ports, stimuli, rng
        streams = {name: (port, is_input, shape) for name, port, is_input, shape in _streams(design)}
        self._sources = [
            _Source(
                port,
                _integers(shape, stimuli.streams[name]) if name in stimuli.streams else None,
                stimuli.starts.get(name, 0),
            )
            for name, (port, is_input, shape) in streams.items()
            if is_input
        ]
        self._sinks = [port for port, is_input, _ in streams.values() if not is_input]
        of_streams = {id(part) for port, _, _ in streams.values() for part in (port.valid, port.ready)}
        of_streams |= {id(Value.cast(port.payload)) for port, _, _ in streams.values()}
        self._plain = [p for p in ports if p.is_input and not p.valid and id(p.value) not in of_streams]
        for given, allowed in (
            (
                {**stimuli.streams, **stimuli.starts},
                [name for name, (_, is_input, _) in streams.items() if is_input],
            ),
            (stimuli.plain, [port.name for port in self._plain]),
        ):
            if unknown := set(given) - set(allowed):
                raise ValueError(f"stimuli: found {unknown.pop()!r}; allowed: {', '.join(allowed) or 'none'}")

    async def run(self, context: Any) -> None:
        for cycle in range(self._stimuli.cycles):
            for source in self._sources:
                idle = not source.offering and cycle >= source.start and source.items != []
                if idle and self._rng.random() < OFFERED:
                    payload = Value.cast(source.port.payload)
                    item = self._random(len(payload)) if source.items is None else source.items.pop(0)
                    context.set(payload, item)
                    source.offering = True
                context.set(source.port.valid, source.offering)
            for port in self._sinks:
                context.set(port.ready, self._rng.random() < ACCEPTED)
            for plain in self._plain:
                given = self._stimuli.plain.get(plain.name)
                width = len(plain.value)
                value = given[min(cycle, len(given) - 1)] if given else self._random(width)
                context.set(Value.cast(plain.value), value & ((1 << width) - 1))
            for named in self._ports:
                value = context.get(Value.cast(named.value))
                self.values[named.name].append(value & ((1 << len(named.value)) - 1))
            for source in self._sources:
                source.offering = source.offering and not context.get(source.port.ready)
            await context.tick()

    def _random(self, width: int) -> int:
        return int.from_bytes(self._rng.bytes(-(-width // 8)), "little") & ((1 << width) - 1)


def _streams(
    design: Any, signature: Any = None, prefix: str = "", flipped: bool = False
) -> Iterator[tuple[str, Any, bool, Any]]:
    """Yield name, interface, direction and payload shape of each stream; nested names are joined by `__`."""
    for name, member in (signature or design.signature).members.items():
        if member.is_port or member.dimensions:
            continue
        port, is_input = getattr(design, name), (member.flow == In) != flipped
        plain = member.signature
        plain = plain.flip() if isinstance(plain, wiring.FlippedSignature) else plain
        if isinstance(plain, stream.Signature):
            yield f"{prefix}{name}", port, is_input, plain.members["payload"].shape
        else:
            yield from _streams(port, plain, f"{prefix}{name}__", is_input)


def _named_ports(design: wiring.Component) -> Iterator[NamedPort]:
    """Yield the ports of a design as its export names them."""
    axi = {
        name: list(axi_ports(name, member, getattr(design, name)))
        for name, member in design.signature.members.items()
    }
    streams = {name for name, _, _, _ in _streams(design)}
    for ports in axi.values():
        yield from ports
    for path, member, value in design.signature.flatten(design):
        if axi[path[0]]:
            continue
        *parents, last = map(str, path)
        parent = "__".join(parents)
        valid = f"{parent}__valid" if last == "payload" and parent in streams else ""
        yield NamedPort("__".join(map(str, path)), Value.cast(value), member.flow == In, valid)


def _integers(shape: Any, values: Values) -> list[int]:
    """Return items of a shape as integers, as their bits stand in a port."""
    return [sum(int(word) << 32 * place for place, word in enumerate(item)) for item in pack(shape, values)]


def _compact(values: list[int]) -> str:
    before = [None, *values]
    texts = (UNCHANGED if new == old else f"{new:x}" for new, old in zip(values, before, strict=False))
    return " ".join(texts)


def _registers(register_map: RegisterMap | None) -> list[dict[str, Any]]:
    return [
        {"name": r.name, "address": r.address, "access": r.access, "width": r.width, "reset": r.reset}
        for r in (register_map.registers if register_map else ())
    ]
