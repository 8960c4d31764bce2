"""Draws a block from its Verilog: the parts of its modules, and the data that goes from one to another."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

MOST_PARTS = 24
"""Most kinds of parts that a drawn module has: more cannot be read."""
_NAME = r"(?:\\\S+|[A-Za-z_][\w$]*)"
_MODULE = re.compile(rf"^module ({_NAME})(.*?)^endmodule$", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(rf"(?<![\w$'\\]){_NAME}")
_PART = re.compile(rf"^  ({_NAME}) +({_NAME}) +\(\n(.*?)^  \);", re.MULTILINE | re.DOTALL)
_CONNECTION = re.compile(rf"^    \.({_NAME}) ?\((.*)\),?$", re.MULTILINE)
_SET = re.compile(r"^ *(?:assign )?([^=\n(]+?) <?= (.+);$", re.MULTILINE)
_DIGITS = re.compile(r"[\d,]+")
_DECLARED = re.compile(rf"^  (input|output|wire|reg) (?:signed )?\[(\d+):0\] ({_NAME})", re.MULTILINE)

OUTSIDE = "outside"
Ends = Mapping[str, Iterable[str]]
"""Names of signals of a module, by the part that gives or takes them."""


def diagrams(text: str, top: str) -> Iterator[tuple[str, str]]:
    """Yield a Mermaid flowchart of a block, and of each of its parts that has a few parts, with their names.

    An arrow is data of two bits or more, on its way through wires, logic and registers of the module that is drawn,
    and has the number of bits that its source gives. Single bits, such as those of handshakes, are left out. Parts with
    the same content are one box.

    Args:
        text: the block's Verilog, as `verilog.export` returns it.
        top: the name of its module.
    """
    bodies, whole = dict(_MODULE.findall(text)), top
    while len(parts := _parts(bodies, whole)) == 1:  # AXI's names are a module around the block
        (whole,) = parts.values()
    # Parts that differ only in their sizes, such as the levels of a tree, are drawn once.
    drawn = {"": (top, _diagram(bodies, whole, lambda port: port.partition("__")[0]))}
    for name, part in parts.items():
        if 1 < len(set(_parts(bodies, part).values())) <= MOST_PARTS:
            diagram = _diagram(bodies, part, lambda _: OUTSIDE)
            drawn.setdefault(_DIGITS.sub("", diagram), (name, diagram))
    yield from drawn.values()


def _parts(bodies: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the module of each part of a module, by the part's name; memories are none."""
    return {part.removeprefix("\\"): kind for kind, part, _ in _PART.findall(bodies.get(name, ""))}


def _widths(body: str, *kinds: str) -> dict[str, int]:
    """Return the bits of a module's signals of two bits or more, of some kinds of declarations."""
    declared = ((kind, int(last) + 1, name) for kind, last, name in _DECLARED.findall(body))
    return {name: bits for kind, bits, name in declared if bits > 1 and kind in kinds}


def _diagram(bodies: Mapping[str, str], name: str, box_of: Callable[[str], str]) -> str:
    """Return the flowchart of a module, whose ports are in the boxes that `box_of` names."""
    body = bodies[name]
    widths = _widths(body, "input", "output", "wire", "reg")
    follows: dict[str, set[str]] = defaultdict(set)
    for target, value in _SET.findall(body):
        for signal in _NAMES.findall(value):
            follows[signal].update(given for given in _NAMES.findall(target) if given in widths)
    gives: dict[str, set[str]] = defaultdict(set)
    takes: dict[str, set[str]] = defaultdict(set)
    for port in _widths(body, "input"):
        gives[box_of(port)].add(port)
    for port in _widths(body, "output"):
        takes[box_of(port)].add(port)
    parts: dict[str, list[str]] = defaultdict(list)
    for kind, part, connections in _PART.findall(body):
        parts[kind].append(part.removeprefix("\\"))
        outputs = _widths(bodies.get(kind, ""), "output")
        for port, value in _CONNECTION.findall(connections):
            (gives if port in outputs else takes)[kind].update(set(_NAMES.findall(value)) & widths.keys())
    boxes = {box: f"n{number}" for number, box in enumerate(dict.fromkeys([*gives, *parts, *takes]))}
    lines = ["flowchart LR"]
    for box, key in boxes.items():
        lines.append(f'  {key}["{_named(parts[box])}"]' if box in parts else f'  {key}(["{box}"])')
    for source, signals in gives.items():
        for target, bits in _reached(signals, follows, takes, widths).items():
            if source != target:
                lines.append(f"  {boxes[source]} -->|{bits:,}| {boxes[target]}")
    return "\n".join(lines)


def _named(parts: list[str]) -> str:
    """Return what a box of equal parts says: the part's name, or how many there are with the first's name."""
    return parts[0] if len(parts) == 1 else f"{len(parts)} × {parts[0].rstrip('_0123456789')}"


def _reached(signals: Iterable[str], follows: Ends, takes: Ends, widths: Mapping[str, int]) -> Counter[str]:
    """Return the parts that signals reach, with the bits of those that do."""
    bits = Counter[str]()
    for signal in signals:
        reached, waiting = {signal}, [signal]
        while waiting:
            new = set(follows.get(waiting.pop(), ())) - reached
            reached |= new
            waiting += new
        bits.update({part: widths[signal] for part, taken in takes.items() if reached & set(taken)})
    return bits
