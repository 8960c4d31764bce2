"""The sum tree on the simulated replay pipeline, with its priorities in the simulated memories (`fpga_backend`)."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.sum_tree.base import SumTree, checked_integer
from placerl.primitives.sum_tree.levels import levels_of

if TYPE_CHECKING:
    from placerl.primitives.fpga.simulation import SimulatedRun

INTEGER_BITS, FRACTION_BITS = 12, 20
TAG_BITS = 20
"""Bits of the number that identifies a request. With several banks (sub-trees), responses arrive out of order."""

PATH_TAG_BITS = 12
"""Bits of the number that identifies a sample on a single pipeline, which keeps the paths of the last 2^12 samples."""

FORMS = ("wide", "narrow")
_COUNTS = ("last_call_cycles", "cycles", "remembered_updates", "last_found")


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """The options of an `FpgaSumTree`, as `create` takes them.

    Attributes:
        form: "wide" reads all children of a node in one cycle, "narrow" one child per cycle.
        banks: sub-trees, each with its own pipeline (S), 1 to 64.
        integer_bits, fraction_bits: bits of a priority before and after the point.
        levels: levels of the pipeline of each bank; by default the fewest that hold `capacity`, with memories of as
            many words as `capacity` needs. A pipeline of a given number of levels has all their leaves, and so also
            serves smaller trees, which use the first ones: one simulation is built for all of them.
        device: the board, one of `primitives.fpga.devices.catalogue.clocks_hz()`.
        clock_hz: clock frequency that converts cycles to seconds, Hz; by default the board's.
        contents: where the priorities are: in the simulated "hardware", or in "software" that answers like it, while
            the simulation only counts cycles (in the wide form).
        remembers: whether an update of a leaf that was among the last samples takes its path from the pipeline's buffer
            (MAP IV-D4), and not from the request. The cycles are the same. Only with one bank: the paths through
            several banks are kept by the requester, as by the replay manager of MAP's accelerator.
    """

    form: str = "wide"
    banks: int = 1
    integer_bits: int = INTEGER_BITS
    fraction_bits: int = FRACTION_BITS
    levels: int | None = None
    device: str = "u200"
    clock_hz: float | None = None
    contents: str = "hardware"
    remembers: bool = True

    def clock(self) -> float:
        """Return the clock frequency, Hz.

        Raises:
            ValueError: there is no such board, or the frequency is not above 0.
        """
        clocks_hz = catalogue.clocks_hz()
        if self.device not in clocks_hz:
            raise ValueError(f"device: found {self.device!r}; allowed: {', '.join(clocks_hz)}")
        clock_hz = clocks_hz[self.device] if self.clock_hz is None else self.clock_hz
        if not clock_hz > 0:
            raise ValueError(f"clock_hz: found {clock_hz}; allowed: above 0")
        return float(clock_hz)


@cache
def _library(layout: Any, form: Any, remembers: bool) -> Any:
    """Return the simulation library of a pipeline."""
    from placerl.primitives.fpga import simulation

    return simulation.built(_pipeline(layout, form, remembers))


def _pipeline(layout: Any, form: Any, remembers: bool) -> Any:
    from placerl.primitives.fpga.replay_pipeline import BankedLayout, BankedPipeline, ReplayPipeline

    if isinstance(layout, BankedLayout):
        return BankedPipeline(layout, form)
    return ReplayPipeline(layout, form, remembers=remembers)


def design(fanout: int, options: PipelineOptions) -> Any:
    """Return the hardware of a tree, not elaborated."""
    from placerl.primitives.fpga.replay_pipeline import BankedLayout, Form, PipelineLayout

    assert options.levels is not None
    bits = options.integer_bits + options.fraction_bits
    bank = PipelineLayout(fanout, options.levels, bits, TAG_BITS if options.banks > 1 else PATH_TAG_BITS)
    layout = BankedLayout(options.banks, bank) if options.banks > 1 else bank
    return _pipeline(layout, Form(options.form), options.remembers)


def lanes_of(leaves: NDArray[np.int64], banks: int, *, writes: bool) -> NDArray[np.int64]:
    """Return the lanes on which the requests of a batch are offered, (B,).

    Each lane gets a part of the batch. So the samples of equal parts of all priorities, which are in ascending order,
    come from each lane for a sub-tree of its own. Writes to one leaf use one lane, to stay in order.

    Args:
        leaves: (B,) the leaf of each request.
        banks: number of sub-trees, and of lanes.
        writes: whether the requests are updates.
    """
    places = np.arange(len(leaves))
    if writes:
        _, first, same, counts = np.unique(leaves, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first)
        places[order] = np.cumsum(counts[order]) - counts[order]  # of the first write to each leaf
        places = places[same]
    return places * banks // len(leaves)


class SampledPaths:
    """Which samples' paths are in the buffer of a pipeline, by the leaves that they lead to (MAP IV-D4).

    Samples are numbered in turn; the number of a sample, its tag, is also its place in the buffer.

    Args:
        capacity: leaves of the tree.
        tag_bits: width of a tag.
    """

    def __init__(self, capacity: int, tag_bits: int) -> None:
        self._leaf_of_tag = np.full(1 << tag_bits, -1, np.int64)
        self._tag_of_leaf = np.zeros(capacity, np.int64)
        self._next = 0

    def tags(self, count: int) -> NDArray[np.int64]:
        """Return the tags of the next `count` samples, (count,)."""
        tags = (self._next + np.arange(count)) % len(self._leaf_of_tag)
        self._next = (self._next + count) % len(self._leaf_of_tag)
        return tags

    def keep(self, tags: NDArray[np.int64], leaves: NDArray[np.int64]) -> None:
        """Note which leaves samples with these tags found, both (B,); of equal tags the last one is kept."""
        last = slice(max(0, len(tags) - len(self._leaf_of_tag)), None)
        self._leaf_of_tag[tags[last]] = leaves[last]
        self._tag_of_leaf[leaves[last]] = tags[last]

    def of(self, leaves: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the tags of samples that found leaves, and whether their paths are in the buffer, (B,) each."""
        tags = self._tag_of_leaf[leaves]
        return tags, self._leaf_of_tag[tags] == leaves


class FpgaSumTree(SumTree):
    """A sum tree that runs every call on the simulated hardware.

    A copy has these attributes too; only its buffer of the samples' paths is empty, which changes no cycle.

    Attributes:
        last_call_cycles: clock cycles of the last `find`, `sample`, `update` or `get`, from the first offered
            request to the last response.
        cycles: clock cycles of all calls so far.
        banks, levels, bank_leaves: number of sub-trees, levels per sub-tree, leaves per sub-tree.
        clock_hz: assumed clock frequency.
        remembered_updates: updates so far whose paths came from the pipeline's buffer of the samples' paths.
        last_found: the leaves of the last `find` or `sample`.
    """

    backend = "fpga"

    def __init__(self, capacity: int, fanout: int, options: PipelineOptions) -> None:
        from placerl.primitives.fpga.replay_pipeline import PipelineLayout

        clock_hz = options.clock()
        super().__init__(capacity, fanout, np.float64)
        self.banks = checked_integer("banks", options.banks, 1, 64)
        leaf_bits = checked_integer("integer_bits", options.integer_bits, 0, 32)
        leaf_bits += checked_integer("fraction_bits", options.fraction_bits, 0, 32)
        if options.form not in FORMS:
            raise ValueError(f"form: found {options.form!r}; allowed: {', '.join(FORMS)}")
        needed = levels_of(-(-self.capacity // self.banks), self.fanout)
        given = options.levels
        levels = needed if given is None else checked_integer("levels", given, needed, 32)
        # The leaves are divided evenly among the banks; each bank uses its first leaves.
        self.levels, self.bank_leaves = levels, -(-self.capacity // self.banks)
        tag_bits = TAG_BITS if self.banks > 1 else PATH_TAG_BITS
        leaves = self.bank_leaves if given is None else 0
        bank = PipelineLayout(self.fanout, levels, leaf_bits, tag_bits, leaves)
        self._room = bank.leaves
        self._quantum = 2.0**-options.fraction_bits
        self._priority_max = (2**leaf_bits - 1) * self._quantum
        self.clock_hz = clock_hz
        self.last_call_cycles = 0
        self.cycles = 0
        self.remembered_updates = 0
        self.last_found = np.zeros(0, np.int64)
        single = options.remembers and self.banks == 1
        self._sampled = SampledPaths(self.capacity, bank.tag_bits) if single else None
        self._start(bank, options.form)

    def _start(self, bank: Any, form: str) -> None:
        """Start the simulation of a tree whose banks have the layout `bank`."""
        from placerl.primitives.fpga.replay_pipeline import BankedLayout, Form

        self._layout = BankedLayout(self.banks, bank) if self.banks > 1 else bank
        self._simulation = _library(self._layout, Form(form), self._sampled is not None).start()
        last_path = bank.path_of(np.array([self.bank_leaves - 1]))[0]
        self._simulation.write("last_leaf", int(last_path))

    def __getstate__(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in _COUNTS}
        priorities = super().__getstate__()
        self.__dict__.update(counts)  # to read the priorities is no call of the user's
        return counts | priorities

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.update({name: state[name] for name in _COUNTS})

    @property
    def last_call_s(self) -> float:
        """The simulated seconds of the last call: `last_call_cycles` at `clock_hz`."""
        return self.last_call_cycles / self.clock_hz

    def _fixed(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return prefix sums in quanta, rounded down."""
        return np.floor(prefix / self._quantum).astype(np.int64)

    def _rounded(self, priorities: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return priorities in quanta, rounded to the nearest; a positive one is at least 1."""
        rounded = np.floor(priorities / self._quantum + 0.5).astype(np.int64)
        return np.where(priorities > 0, np.maximum(rounded, 1), 0)

    def _total(self) -> float:
        return float(self._simulation.read("total")) * self._quantum

    def _find(self, prefix: NDArray[np.float64]) -> NDArray[np.int64]:
        from placerl.primitives.fpga.replay_pipeline import Operation

        values = self._fixed(prefix)
        tags = np.zeros_like(values) if self._sampled is None else self._sampled.tags(len(values))
        path, _ = self._call(Operation.SAMPLE, np.zeros_like(values), values, tags)
        bank, leaf = np.divmod(self._layout.leaf_of(path), self._room)
        self.last_found = bank * self.bank_leaves + leaf
        if self._sampled is not None:
            self._sampled.keep(tags, self.last_found)
        return self.last_found.copy()

    def _update(self, indices: NDArray[np.int64], priorities: NDArray[np.float64]) -> None:
        from placerl.primitives.fpga.replay_pipeline import Operation

        tags, remembered = None, None
        if self._sampled is not None:
            tags, remembered = self._sampled.of(indices)
            self.remembered_updates += int(remembered.sum())
        self._call(Operation.UPDATE, indices, self._rounded(priorities), tags, remembered)

    def _get(self, indices: NDArray[np.int64]) -> NDArray[np.floating]:
        from placerl.primitives.fpga.replay_pipeline import Operation

        _, values = self._call(Operation.GET, indices, np.zeros_like(indices))
        return values * self._quantum

    def _call(
        self,
        operation: Any,
        leaves: NDArray[np.int64],
        values: NDArray[np.int64],
        tags: NDArray[np.int64] | None = None,
        remembered: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Send one request per leaf; return the responses' paths and values.

        On one pipeline, requests have `tags`, and those that are `remembered` name no path.
        """
        from placerl.primitives.fpga.replay_pipeline import Operation

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
            known = np.zeros(count, np.bool_) if remembered is None else remembered
            requests = fields | {
                "remembered": known.astype(np.int64),
                "path": np.where(known, 0, fields["path"]),
            }
            requests |= {} if tags is None else {"tag": tags}
            run = self._simulation.run({"requests": requests}, {"responses": count})
            path, value = run.outputs["responses"]["path"], run.outputs["responses"]["value"]
            self._count(run)
        else:
            most = 1 << TAG_BITS
            lanes = lanes_of(leaves, self.banks, writes=operation is Operation.UPDATE)
            for start in range(0, count, most):
                part = slice(start, min(start + most, count))
                cut = {name: field[part] for name, field in fields.items()}
                cut["tag"] = np.arange(part.stop - part.start)
                path[part], value[part] = self._banked_run(cut, lanes[part])
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
        self._simulation.step(2)  # the sum over the banks is ready two cycles after theirs
        path, value = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for name in responses:
            found = run.outputs[name]
            path[found["tag"]], value[found["tag"]] = found["path"], found["value"]
        return path, value

    def _count(self, run: "SimulatedRun") -> None:
        self.last_call_cycles += run.cycles
        self.cycles += run.cycles
