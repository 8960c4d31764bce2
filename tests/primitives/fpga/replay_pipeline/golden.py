"""The golden model of the replay pipeline: a simple tree that processes one request after another."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from placerl.primitives.fpga.replay_pipeline.layout import BankedLayout, Operation, PipelineLayout


@dataclass(frozen=True)
class Request:
    """A request to a golden tree, which names its leaf by its index.

    Attributes:
        operation: what to do, such as `Operation.SAMPLE`.
        leaf: index of the leaf, which need not be in use on a single pipeline; SAMPLE and INSERT ignore it, except that
            INSERT in a tree with banks fills this leaf's bank.
        value: the prefix sum of a SAMPLE, or the priority that UPDATE and INSERT write.
    """

    operation: Operation
    leaf: int = 0
    value: int = 0


@dataclass(frozen=True)
class Response:
    """The answer to a `Request`.

    Attributes:
        leaf: index of the leaf that was sampled, read or written.
        value: its priority before the request.
        empty: whether a SAMPLE found no positive priority.
    """

    leaf: int
    value: int
    empty: bool


class GoldenTree:
    """A golden model of a replay pipeline: priorities as Python integers, whose sums are computed for each request.

    Args:
        capacity: number of leaves that INSERT fills in turn; None: all that are in use.
    """

    def __init__(self, layout: PipelineLayout | BankedLayout, capacity: int | None = None) -> None:
        self.priorities = [0] * layout.leaves
        self._capacity = min(capacity or layout.leaves, layout.leaves)
        self._next = 0

    def respond(self, request: Request) -> Response:
        """Process a request after all earlier ones, and return the answer that the hardware must give."""
        if request.operation is Operation.SAMPLE:
            leaf = self._sampled(request.value)
            return Response(leaf, self.priorities[leaf], not any(self.priorities))
        leaf = request.leaf
        if request.operation is Operation.INSERT:
            leaf, self._next = self._next, (self._next + 1) % self._capacity
        if leaf >= len(self.priorities):  # not in use: 0 for ever
            return Response(leaf, 0, False)
        before = self.priorities[leaf]
        if request.operation is not Operation.GET:
            self.priorities[leaf] = request.value
        return Response(leaf, before, False)

    def respond_all(self, requests: Iterable[Request]) -> list[Response]:
        """Process requests one after another, and return their answers in the same order."""
        return [self.respond(request) for request in requests]

    def _sampled(self, prefix: int) -> int:
        """Return the smallest i with P[0] + ... + P[i] > prefix; the last positive leaf if there is none."""
        prefix = min(prefix, sum(self.priorities) - 1)
        if prefix < 0:
            return 0
        for leaf, priority in enumerate(self.priorities):
            if prefix < priority:
                return leaf
            prefix -= priority
        raise AssertionError


class BankedGoldenTree(GoldenTree):
    """A golden model of a replay pipeline with banks, which are sub-trees.

    INSERT fills the leaves of one bank in turn: of the bank that holds the request's leaf.

    Args:
        layout: the tree and its banks.
    """

    def __init__(self, layout: BankedLayout) -> None:
        super().__init__(layout)
        self._bank_leaves = layout.bank.leaves
        self._turns = [0] * layout.banks

    def respond(self, request: Request) -> Response:
        """Process a request after all earlier ones, and return the answer that the hardware must give."""
        if request.operation is not Operation.INSERT:
            return super().respond(request)
        bank = request.leaf // self._bank_leaves
        leaf = bank * self._bank_leaves + self._turns[bank]
        self._turns[bank] = (self._turns[bank] + 1) % self._bank_leaves
        return super().respond(replace(request, operation=Operation.UPDATE, leaf=leaf))  # type: ignore[arg-type]
