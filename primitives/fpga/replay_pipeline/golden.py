"""The golden model: a plain tree that does one request after another."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from primitives.fpga.replay_pipeline.layout import BankedLayout, Operation, TreeLayout


@dataclass(frozen=True)
class Request:
    """A request, its leaf as an index. `leaf` is unused by SAMPLE and INSERT."""

    operation: Operation
    leaf: int = 0
    value: int = 0


@dataclass(frozen=True)
class Response:
    """A response, its leaf as an index."""

    leaf: int
    value: int
    empty: bool


class GoldenTree:
    """Priorities as Python integers, sums taken anew for each request.

    Args:
        layout: the tree.
        capacity: leaves that INSERT fills in turn.
    """

    def __init__(self, layout: TreeLayout | BankedLayout, capacity: int | None = None) -> None:
        self.priorities = [0] * layout.leaves
        self._capacity = capacity or layout.leaves
        self._next = 0

    def respond(self, request: Request) -> Response:
        """What the hardware answers to `request` after all those before it."""
        if request.operation is Operation.SAMPLE:
            leaf = self._sampled(request.value)
            return Response(leaf, self.priorities[leaf], not any(self.priorities))
        leaf = request.leaf
        if request.operation is Operation.INSERT:
            leaf, self._next = self._next, (self._next + 1) % self._capacity
        before = self.priorities[leaf]
        if request.operation is not Operation.GET:
            self.priorities[leaf] = request.value
        return Response(leaf, before, False)

    def respond_all(self, requests: Iterable[Request]) -> list[Response]:
        """`respond` for each request in turn."""
        return [self.respond(request) for request in requests]

    def _sampled(self, prefix: int) -> int:
        """The least i with P[0] + ... + P[i] > prefix; the last positive leaf where the total is no more."""
        prefix = min(prefix, sum(self.priorities) - 1)
        if prefix < 0:
            return 0
        for leaf, priority in enumerate(self.priorities):
            if prefix < priority:
                return leaf
            prefix -= priority
        raise AssertionError


class BankedGoldenTree(GoldenTree):
    """The same for sub-trees side by side: INSERT takes turns in the bank of the leaf that it names."""

    def __init__(self, layout: BankedLayout) -> None:
        super().__init__(layout)
        self._bank_leaves = layout.bank.leaves
        self._turns = [0] * layout.banks

    def respond(self, request: Request) -> Response:
        """What the hardware answers to `request` after all those taken before it."""
        if request.operation is not Operation.INSERT:
            return super().respond(request)
        bank = request.leaf // self._bank_leaves
        leaf = bank * self._bank_leaves + self._turns[bank]
        self._turns[bank] = (self._turns[bank] + 1) % self._bank_leaves
        return super().respond(replace(request, operation=Operation.UPDATE, leaf=leaf))  # type: ignore[arg-type]
