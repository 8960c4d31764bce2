"""The replay pipeline in hardware (MAP IV-C4, IV-D4; PRL 4.1.1), simulated cycle by cycle by Verilator.

Each call is a batch of requests to the pipeline, and tells the clock cycles that it took: `last_call_cycles`. Its
time is those cycles at `clock_hz`; the wall clock says how long the simulation took, which is of no interest.

**Fixed point.** A priority is an unsigned number of `integer_bits` before and `fraction_bits` behind the point.
`update` rounds it to the nearest such number, ties upwards, and a positive one never to 0: the smallest positive
number is 2^-fraction_bits, so that what could be drawn stays so. The largest allowed is `priority_max`. Sums are
exact: they grow by log2 K bits a level, so `total` and every answer of `find` are those of the rounded priorities.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from primitives.fpga.devices import catalogue
from primitives.fpga.export import toolchain
from primitives.sum_tree.base import SumTree, checked_integer

if TYPE_CHECKING:
    from primitives.fpga.simulation import Run

SIMULATED = True

INTEGER_BITS, FRACTION_BITS = 12, 20
TAG_BITS = 20
"""Requests of a lane in one run, where several lanes answer out of order."""

FORMS = ("wide", "narrow")


def unavailable_reason() -> str:
    """Why hardware cannot be built and simulated here; empty when it can."""
    return toolchain.unavailable_reason()


def create(
    capacity: int,
    fanout: int,
    *,
    form: str = "wide",
    banks: int = 1,
    integer_bits: int = INTEGER_BITS,
    fraction_bits: int = FRACTION_BITS,
    levels: int | None = None,
    device: str = "u200",
    clock_hz: float | None = None,
) -> SumTree:
    """An `FpgaSumTree`.

    Args:
        capacity: number of leaves.
        fanout: children of a node, K.
        form: "wide" reads a node's children in one cycle, "narrow" one child a cycle.
        banks: sub-trees with a pipeline each, S; 1 to 64.
        integer_bits, fraction_bits: of a priority, before and behind the point.
        levels: levels of the pipeline, of each bank's where there are several; the fewest that hold `capacity`
            when left out. One with more serves smaller trees, each in its first leaves.
        device: the board, one of `primitives.fpga.devices.catalogue.clocks_hz()`.
        clock_hz: the clock at which cycles are told as seconds; the board's when left out.

    Raises:
        ValueError: an argument out of range; it is named.
    """
    clocks_hz = catalogue.clocks_hz()
    if device not in clocks_hz:
        raise ValueError(f"device: found {device!r}; allowed: {', '.join(clocks_hz)}")
    clock_hz = clocks_hz[device] if clock_hz is None else clock_hz
    return FpgaSumTree(capacity, fanout, form, banks, integer_bits, fraction_bits, levels, clock_hz)


@cache
def _library(layout: Any, form: Any) -> Any:
    """The simulation library of a pipeline."""
    from primitives.fpga import simulation
    from primitives.fpga.replay_pipeline import BankedLayout, BankedPipeline, ReplayPipeline

    pipeline = BankedPipeline if isinstance(layout, BankedLayout) else ReplayPipeline
    return simulation.built(pipeline(layout, form))


class FpgaSumTree(SumTree):
    """A sum tree whose every call runs through the simulated pipeline.

    Attributes:
        last_call_cycles: clock cycles of the last `find`, `sample`, `update` or `get`, from the first request
            offered to the last response.
        cycles: those of all calls so far.
        banks, levels, bank_leaves: sub-trees, levels of one, leaves that one holds.
        clock_hz: the clock assumed.
    """

    backend = "fpga"

    def __init__(
        self,
        capacity: int,
        fanout: int,
        form: str,
        banks: int,
        integer_bits: int,
        fraction_bits: int,
        levels: int | None,
        clock_hz: float,
    ) -> None:
        from primitives.fpga.replay_pipeline import BankedLayout, Form, TreeLayout

        super().__init__(capacity, fanout, np.float64)
        self.banks = checked_integer("banks", banks, 1, 64)
        leaf_bits = checked_integer("integer_bits", integer_bits, 0, 32)
        leaf_bits += checked_integer("fraction_bits", fraction_bits, 0, 32)
        if form not in FORMS:
            raise ValueError(f"form: found {form!r}; allowed: {', '.join(FORMS)}")
        if not clock_hz > 0:
            raise ValueError(f"clock_hz: found {clock_hz}; allowed: above 0")
        needed = 1
        while self.banks * self.fanout**needed < self.capacity:
            needed += 1
        levels = needed if levels is None else checked_integer("levels", levels, needed, 32)
        bank = TreeLayout(self.fanout, levels, leaf_bits, TAG_BITS if self.banks > 1 else 1)
        self._layout = BankedLayout(self.banks, bank) if self.banks > 1 else bank
        # Banks share the leaves evenly, each using the first of its own.
        self.levels, self.bank_leaves = levels, -(-self.capacity // self.banks)
        self._room = bank.leaves
        self._quantum = 2.0**-fraction_bits
        self._priority_max = (2**leaf_bits - 1) * self._quantum
        self._simulation = _library(self._layout, Form(form)).start()
        last_path = bank.path_of(np.array([self.bank_leaves - 1]))[0]
        self._simulation.write("last_leaf", int(last_path))
        self.clock_hz = float(clock_hz)
        self.last_call_cycles = 0
        self.cycles = 0

    @property
    def last_call_s(self) -> float:
        """`last_call_cycles` at `clock_hz`, seconds: simulated."""
        return self.last_call_cycles / self.clock_hz

    def _total(self) -> float:
        return float(self._simulation.read("total")) * self._quantum

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        from primitives.fpga.replay_pipeline import Operation

        values = np.floor(prefix / self._quantum).astype(np.int64)
        path, _ = self._call(Operation.SAMPLE, np.zeros_like(values), values, np.arange(len(values)))
        bank, leaf = np.divmod(self._layout.leaf_of(path), self._room)
        return bank * self.bank_leaves + leaf

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        from primitives.fpga.replay_pipeline import Operation

        rounded = np.floor(priorities / self._quantum + 0.5).astype(np.int64)
        values = np.where(priorities > 0, np.maximum(rounded, 1), 0)
        # Writes of one leaf must come by one lane to stay in order.
        self._call(Operation.UPDATE, indices, values, indices)

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        from primitives.fpga.replay_pipeline import Operation

        _, values = self._call(Operation.GET, indices, np.zeros_like(indices), np.arange(len(indices)))
        return values * self._quantum

    def _call(
        self, operation: Any, leaves: NDArray[np.int64], values: NDArray[np.int64], lanes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Paths and values that answer one request for each leaf, which comes by the lane `lanes % S`."""
        count = len(leaves)
        self.last_call_cycles = 0
        bank, leaf = np.divmod(leaves, self.bank_leaves)
        path, value = np.zeros(count, np.int64), np.zeros(count, np.int64)
        if not count:
            return path, value
        fields = {
            "operation": np.full(count, operation.value),
            "tag": np.zeros(count, np.int64),
            "path": self._layout.path_of(bank * self._room + leaf),
            "value": values,
        }
        if self.banks == 1:
            requests = fields | {"remembered": np.zeros(count, np.int64)}
            run = self._simulation.run({"requests": requests}, {"responses": count})
            path, value = run.outputs["responses"]["path"], run.outputs["responses"]["value"]
            self._count(run)
        else:
            most = 1 << TAG_BITS
            for start in range(0, count, most):
                part = slice(start, min(start + most, count))
                cut = {name: field[part] for name, field in fields.items()}
                cut["tag"] = np.arange(part.stop - part.start)
                path[part], value[part] = self._banked_run(cut, lanes[part] % self.banks)
        return path, value

    def _banked_run(
        self, fields: dict[str, NDArray[np.int64]], lane_of: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        count = len(lane_of)
        inputs = {
            f"requests_{lane}": {name: field[lane_of == lane] for name, field in fields.items()}
            for lane in range(self.banks)
        }
        responses = tuple(f"responses_{bank}" for bank in range(self.banks))
        run = self._simulation.run(inputs, {responses: count})
        self._count(run)
        self._simulation.step(2)  # the sum over the banks follows theirs
        path, value = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for name in responses:
            found = run.outputs[name]
            path[found["tag"]], value[found["tag"]] = found["path"], found["value"]
        return path, value

    def _count(self, run: "Run") -> None:
        self.last_call_cycles += run.cycles
        self.cycles += run.cycles
