"""Describes a design's ports to simulators, and converts their values between NumPy arrays and 32-bit words.

Values of a port, for N items:

| shape | array |
|---|---|
| unsigned or signed, up to 64 bits | (N,) integers |
| unsigned, wider | (N, ceil(width / 32)) uint32, least significant word first |
| ArrayLayout of L elements | (N, L) integers |
| StructLayout | dict from field to its array; a field that is a struct is a dict again |
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth import Shape
from amaranth.lib import data, stream, wiring
from numpy.typing import NDArray

Values = Any  # an array, or a dict from field to Values


@dataclass(frozen=True)
class Port:
    """One input or output of a design; a stream also has `valid` and `ready`.

    Attributes:
        name: name in the signature; nested names are joined by `__`.
        shape: Amaranth shape of the port or of the stream's payload.
        is_input: whether the design reads it.
        is_stream: whether it is a `stream.Signature`.
    """

    name: str
    shape: Any
    is_input: bool
    is_stream: bool

    @property
    def width(self) -> int:
        """Number of bits of the port, or of the stream's payload."""
        return Shape.cast(self.shape).width

    @property
    def word_count(self) -> int:
        """Number of 32-bit words that hold the port's value, or the stream's payload."""
        return max(1, -(-self.width // 32))


def ports_of(design: wiring.Component) -> dict[str, Port]:
    """Return the ports of a component's signature by name; nested names are joined by `__`."""
    return {port.name: port for port in _ports(design.signature, "", False)}


def _ports(signature: wiring.Signature, prefix: str, flipped: bool) -> Iterator[Port]:
    for name, member in signature.members.items():
        if member.dimensions:
            raise ValueError(f"ports: found {prefix}{name} of dimensions {member.dimensions}; allowed: none")
        is_input = (member.flow == wiring.In) != flipped
        if member.is_port:
            yield Port(prefix + name, member.shape, is_input, False)
        elif isinstance(_unflipped(member.signature), stream.Signature):
            yield Port(prefix + name, _unflipped(member.signature).members["payload"].shape, is_input, True)
        else:
            yield from _ports(_unflipped(member.signature), f"{prefix}{name}__", is_input)


def _unflipped(signature: Any) -> Any:
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def _fields(shape: Any, offset: int = 0) -> Iterator[tuple[tuple[Any, ...], int, int, bool]]:
    """Yield path, bit offset, width and sign of each integer in `shape`."""
    if isinstance(shape, data.StructLayout | data.ArrayLayout):
        for key, field in shape:
            for path, at, width, signed in _fields(field.shape, offset + field.offset):
                yield (key, *path), at, width, signed
    else:
        plain = Shape.cast(shape)
        yield (), offset, plain.width, plain.signed


def pack(shape: Any, values: Values) -> NDArray[np.uint32]:
    """Turn values of an Amaranth shape into words, (N, words) uint32, for a simulator.

    Bits beyond a field's width are cut off. `unpack` is the inverse.

    Args:
        shape: the shape of a port or of a stream's payload.
        values: N values, in arrays as the table of this module describes.
    """
    width = Shape.cast(shape).width
    words: NDArray[np.uint32] | None = None
    for path, offset, bits, _ in _fields(shape):
        field = np.asarray(_at(values, path))
        if words is None:
            words = np.zeros((len(field), max(1, -(-width // 32))), np.uint32)
        if bits > 64:
            _insert_wide(words, field, offset, bits)
        else:
            _insert(words, field.astype(np.uint64), offset, bits)
    if words is None:
        raise ValueError("shape: found one without fields; allowed: at least one")
    return words


def unpack(shape: Any, words: NDArray[np.uint32]) -> Values:
    """Turn words made by `pack`, (N, words) uint32, back into values of an Amaranth shape.

    Integers become int64, or uint64 if unsigned with 64 bits; integers of more than 64 bits stay words.
    """
    if isinstance(shape, data.StructLayout):
        return {key: unpack(field.shape, _slice(words, field.offset, field.width)) for key, field in shape}
    if isinstance(shape, data.ArrayLayout):
        return np.stack([unpack(f.shape, _slice(words, f.offset, f.width)) for _, f in shape], axis=1)
    plain = Shape.cast(shape)
    if plain.width > 64:
        return words
    value = words[:, 0].astype(np.uint64)
    if plain.width > 32:
        value |= words[:, 1].astype(np.uint64) << np.uint64(32)
    if plain.signed:
        shift = np.int64(64 - plain.width)
        return (value.astype(np.int64) << shift) >> shift
    return value if plain.width == 64 else value.astype(np.int64)


def columns(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Turn a list of dicts of integers into one dict of arrays, which `pack` takes for a struct.

    Args:
        items: at least one; all have the same keys. A value may be a dict again.
    """
    return {
        name: columns([item[name] for item in items])
        if isinstance(value, Mapping)
        else np.array([int(item[name]) for item in items])
        for name, value in items[0].items()
    }


def _at(values: Values, path: tuple[Any, ...]) -> Any:
    for key in path:
        values = values[key] if isinstance(values, Mapping) else np.asarray(values)[:, key]
    return values


def _insert(words: NDArray[np.uint32], field: NDArray[np.uint64], offset: int, bits: int) -> None:
    field = field & np.uint64((1 << bits) - 1)
    while bits > 0:
        word, shift = divmod(offset, 32)
        step = min(bits, 32 - shift)
        words[:, word] |= ((field & np.uint64((1 << step) - 1)) << np.uint64(shift)).astype(np.uint32)
        field = field >> np.uint64(step)
        offset, bits = offset + step, bits - step


def _insert_wide(words: NDArray[np.uint32], field: NDArray[Any], offset: int, bits: int) -> None:
    for index in range(-(-bits // 32)):
        step = min(32, bits - 32 * index)
        _insert(words, field[:, index].astype(np.uint64), offset + 32 * index, step)


def _slice(words: NDArray[np.uint32], offset: int, width: int) -> NDArray[np.uint32]:
    """Return bits [offset, offset + width) of each item as words."""
    cut = np.zeros((len(words), max(1, -(-width // 32))), np.uint32)
    for index in range(-(-width // 32)):
        word, shift = divmod(offset + 32 * index, 32)
        value = words[:, word].astype(np.uint64) >> np.uint64(shift)
        if shift and word + 1 < words.shape[1]:
            value |= words[:, word + 1].astype(np.uint64) << np.uint64(32 - shift)
        step = min(32, width - 32 * index)
        cut[:, index] = (value & np.uint64((1 << step) - 1)).astype(np.uint32)
    return cut
