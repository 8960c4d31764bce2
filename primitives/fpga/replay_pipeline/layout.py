"""The layout of a tree in hardware: widths of its signals, paths to leaves, and fields of requests and responses."""

import enum as python_enum
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from amaranth import Shape, signed, unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2
from numpy.typing import NDArray


class Operation(enum.Enum, shape=2):  # type: ignore[call-arg]
    """The operation of a request (PRL 4.1.1).

    SAMPLE returns the leaf at prefix sum `value`, GET the priority at `path`. UPDATE writes `value` as priority
    at `path`, or at the path of the last sample with `tag`. INSERT writes `value` as priority of the next leaf in
    turn.
    """

    SAMPLE = 0
    GET = 1
    UPDATE = 2
    INSERT = 3


def is_write(operation: Any) -> Any:
    """Return whether an operation changes the tree, as an Amaranth value."""
    return (operation == Operation.UPDATE) | (operation == Operation.INSERT)


class Form(python_enum.Enum):
    """The way in which a level of the tree reads a node: its K children at once, or one per cycle (MAP IV-C4)."""

    WIDE = "wide"
    NARROW = "narrow"


@dataclass(frozen=True)
class PipelineLayout:
    """The layout of the tree in one replay pipeline, with K children per node and D levels.

    A path names a leaf by the children that lead to it. It has D digits, one per level, for the child taken. Each has
    ceil(log2 K) bits, the root's most significant. If K is a power of two the path is the leaf's index. Nodes of a
    level are numbered without gaps for every K.

    The tree may use fewer than K^D leaves: the first ones. Then each level has the nodes above these leaves alone, and
    a memory of as many words. The tree is the whole one whose other leaves are 0 for ever: a sample never finds one of
    them, a GET reads 0, and an UPDATE changes nothing. A path with a digit of K or more names no leaf of any tree; what
    a request for it does is undefined.

    Attributes:
        fanout: children of a node, K, at least 2.
        levels: D, at least 1; the tree has room for K^D leaves.
        leaf_bits: width of a priority, unsigned. Sums grow by log2 K bits per level towards the root, so that none
            overflows; seen from the root, the width shrinks by log2 K per level (MAP IV-C4).
        tag_bits: width of the tag that a response carries from its request.
        leaves: leaves in use, 1 to K^D; given as 0 it becomes K^D.
    """

    fanout: int
    levels: int
    leaf_bits: int
    tag_bits: int = 8
    leaves: int = 0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("fanout", 2, 256),
            ("levels", 1, 32),
            ("leaf_bits", 1, 48),
            ("tag_bits", 1, 24),
        ):
            if not low <= (found := getattr(self, name)) <= high:
                raise ValueError(f"{name}: found {found}; allowed: {low} to {high}")
        if not 0 <= self.leaves <= self.fanout**self.levels:
            allowed = f"1 to {self.fanout**self.levels}, or 0 for all"
            raise ValueError(f"leaves: found {self.leaves}; allowed: {allowed}")
        object.__setattr__(self, "leaves", self.leaves or self.fanout**self.levels)
        if self.total_bits > 63:
            allowed = "at most 63 bits in the root's sum: fewer leaf_bits or levels"
            raise ValueError(
                f"leaf_bits: found {self.leaf_bits}, {self.total_bits} at the root; allowed: {allowed}"
            )

    @property
    def is_whole(self) -> bool:
        """Whether all K^D leaves are in use."""
        return self.leaves == self.fanout**self.levels

    @property
    def sizes(self) -> dict[str, int]:
        """The arguments that make this layout: the attributes, without `leaves` if all are in use."""
        found = asdict(self)
        if self.is_whole:
            del found["leaves"]
        return found

    @property
    def digit_bits(self) -> int:
        """Number of bits of one digit of a path."""
        return ceil_log2(self.fanout)

    @property
    def path_bits(self) -> int:
        """Number of bits of a path."""
        return self.levels * self.digit_bits

    @property
    def total_bits(self) -> int:
        """Number of bits of the sum of all priorities."""
        return self.sum_bits(0)

    def sum_bits(self, level: int) -> int:
        """Return the number of bits of a node's sum at `level`: 0 is the root, D a leaf."""
        return self.leaf_bits + ceil_log2(min(self._leaves_below(level), self.leaves))

    def nodes(self, level: int) -> int:
        """Return the number of nodes in use at `level`: 1 at level 0, the root, and the leaves at level D."""
        return -(-self.leaves // self._leaves_below(level))

    def node_bits(self, level: int) -> int:
        """Return the number of bits of the number of a node in use at `level`, where 0 is the root.

        It is at least 1, because Verilog has no signals of zero bits.
        """
        return max(1, ceil_log2(self.nodes(level)))

    def _leaves_below(self, level: int) -> int:
        """Return how many leaves a node at `level` has room for."""
        return int(self.fanout ** (self.levels - level))

    def request(self) -> data.StructLayout:
        """Return the fields of a request.

        `operation`: what to do, such as SAMPLE. `tag`: any number, which the response carries too. `path`: the leaf of
        a GET or an UPDATE, in use or not. `remembered`: an UPDATE uses, instead of `path`, the path of the last sample
        with the request's `tag`. `value`: the prefix sum of a SAMPLE, or the new priority.
        """
        return data.StructLayout(
            {
                "operation": Operation,
                "remembered": 1,
                "tag": self.tag_bits,
                "path": self.path_bits,
                "value": self.total_bits,
            }
        )

    def response(self) -> data.StructLayout:
        """Return the fields of a response.

        `operation`, `tag`: copied from the request. `path`: path of the leaf. `value`: the leaf's priority, before the
        write for UPDATE and INSERT. `empty`: 1 for a sample of a tree whose priorities are all 0; the path is then 0.
        """
        return data.StructLayout(
            {
                "operation": Operation,
                "tag": self.tag_bits,
                "path": self.path_bits,
                "value": self.leaf_bits,
                "empty": 1,
            }
        )

    def step(self, level: int) -> data.StructLayout:
        """Return the fields of a request on its way through the tree, when it enters `level`.

        `response`: the unfinished response. `node`: the node that the request has reached. `rest`: for SAMPLE
        the prefix sum inside the node, below the node's sum. `change`: for UPDATE and INSERT the value to add to
        the sums on the path.
        """
        fields: dict[str, Shape | data.Layout | type[Operation]] = {
            "response": self.response(),
            "node": unsigned(self.node_bits(level)),
            "rest": unsigned(self.sum_bits(level)),
            "change": signed(self.leaf_bits + 1),
        }
        return data.StructLayout(fields)

    def path_of(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the paths that lead to leaves, (N,) int64, from the leaves' indices below K^D, (N,) int64."""
        path = np.zeros_like(leaves)
        for level in range(self.levels):
            digit = leaves // self.fanout**level % self.fanout
            path |= digit << (level * self.digit_bits)
        return path

    def leaf_of(self, paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the leaves to which paths lead, (N,) int64: the inverse of `path_of`."""
        leaf = np.zeros_like(paths)
        for level in range(self.levels):
            digit = (paths >> (level * self.digit_bits)) & ((1 << self.digit_bits) - 1)
            leaf += digit * self.fanout**level
        return leaf


@dataclass(frozen=True)
class BankedLayout:
    """The layout of a tree that is divided into sub-trees, the banks.

    Bank b holds the leaves [b * L, (b + 1) * L), with L leaves in use per bank. A path consists of the bank's number,
    in the upper bits, and the path in the bank.

    Attributes:
        banks: S, 2 to 64.
        bank: the tree of one bank.
    """

    banks: int
    bank: PipelineLayout

    def __post_init__(self) -> None:
        if not 2 <= self.banks <= 64:
            raise ValueError(f"banks: found {self.banks}; allowed: 2 to 64")
        if self.total_bits > 63:
            raise ValueError(
                f"banks: found {self.banks}, {self.total_bits} bits at the root; allowed: at most 63"
            )

    @property
    def leaves(self) -> int:
        """Number of leaves in use: S times those of a bank."""
        return self.banks * self.bank.leaves

    @property
    def bank_bits(self) -> int:
        """Number of bits of a bank's number."""
        return ceil_log2(self.banks)

    @property
    def path_bits(self) -> int:
        """Number of bits of a path, which consists of the bank's number and of the path in the bank."""
        return self.bank_bits + self.bank.path_bits

    @property
    def total_bits(self) -> int:
        """Number of bits of the sum of all priorities."""
        return self.bank.total_bits + self.bank_bits

    @property
    def tag_bits(self) -> int:
        """Number of bits of the tag that a response carries from its request."""
        return self.bank.tag_bits

    def request(self, *, remembers: bool = False) -> data.StructLayout:
        """Return the fields of a request.

        `operation`: what to do, such as SAMPLE. `tag`: any number, which the response carries too. `path`: for a GET or
        an UPDATE the leaf, for an INSERT any path in the bank to fill. `value`: the prefix sum of a SAMPLE, or the new
        priority. `remembered`: as of `PipelineLayout.request`, for samples of the same lane.

        Args:
            remembers: whether the pipelines keep the paths of samples; otherwise requests have no `remembered`.
        """
        fields: dict[str, int | type[Operation]] = {"operation": Operation}
        if remembers:
            fields["remembered"] = 1
        fields |= {"tag": self.tag_bits, "path": self.path_bits, "value": self.total_bits}
        return data.StructLayout(fields)

    def response(self) -> data.StructLayout:
        """Return the fields of a response.

        `operation`, `tag`: copied from the request. `path`: path of the leaf in the whole tree. `value`: the leaf's
        priority, before the write for UPDATE and INSERT. `empty`: 1 for a sample of a tree whose priorities are all 0.
        """
        return data.StructLayout(
            {name: field.shape for name, field in self.bank.response()} | {"path": self.path_bits}
        )

    def path_of(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the paths that lead to leaves, (N,) int64, from the leaves' indices, (N,) int64."""
        bank, leaf = np.divmod(leaves, self.bank.leaves)
        return bank << self.bank.path_bits | self.bank.path_of(leaf)

    def leaf_of(self, paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the leaves to which paths lead, (N,) int64: the inverse of `path_of`."""
        bank, path = np.divmod(paths, 1 << self.bank.path_bits)
        return bank * self.bank.leaves + self.bank.leaf_of(path)
