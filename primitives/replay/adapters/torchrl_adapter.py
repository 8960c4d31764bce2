"""This project's sum trees in TorchRL 0.14.1's prioritised replay, on the CPU and on CUDA.

    from placerl.primitives.replay.adapters.torchrl_adapter import SumTreeSampler
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(10**6, device="cuda"),
        sampler=SumTreeSampler(10**6, alpha=0.6, beta=0.4),
        priority_key="td_error",
        batch_size=256,
    )

Storage, writer, transforms and losses stay TorchRL's. As in TorchRL, the tree is where the storage is, or where
`device` says. On the CPU it is the native one, and the smallest priority, of which the weights are made, comes from
TorchRL's own tree. On CUDA the kernels read and write PyTorch's tensors on its current stream; `sample` and
`update_priority` copy nothing through the host and do not wait for the device. There TorchRL's own sampler needs a
build of TorchRL with CUDA, which its wheel on PyPI is not. This one needs none, but the extra `gpu`.

`TensorDictPrioritizedReplayBuffer`, which creates TorchRL's sampler, takes this one by `buffer.set_sampler`.

Draws come from the buffer's generator or else from where TorchRL's do: NumPy's global generator on the CPU, PyTorch's
on CUDA. Without a generator of the buffer's, the same seed draws what TorchRL's sampler draws on the CPU, except where
sums are rounded in another order. `state_dict` and `dumps` write TorchRL's formats, which each of the two samplers
reads from the other. What differs:

- A priority that is negative or not finite, or an index outside the buffer, raises ValueError and changes nothing; on
  CUDA one of the next calls raises it. TorchRL writes both into its trees.
- A priority is at least the smallest normal float32, so that every item can be drawn. TorchRL's sampler stops where one
  is 0.
- Draws from a generator have 53 random bits, TorchRL's 24: too few for a buffer of millions.
- Priorities may be of any real type. With `dtype=torch.float64` TorchRL's sampler takes float64 alone.
- Trajectories (`PrioritizedSliceSampler`) are not drawn.
"""

import json
from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchrl._torchrl import MinSegmentTreeFp32, MinSegmentTreeFp64, SumSegmentTreeFp32, SumSegmentTreeFp64
from torchrl.data.replay_buffers.samplers import PrioritizedSampler

from placerl.primitives import sum_tree
from placerl.primitives.replay.device.tensor_tree import DTYPES, TensorTree
from placerl.primitives.replay.prioritized import PRIORITY_MIN

SUM_TREES = {torch.float32: SumSegmentTreeFp32, torch.float64: SumSegmentTreeFp64}
LEAST_TREES = {torch.float32: MinSegmentTreeFp32, torch.float64: MinSegmentTreeFp64}
"""TorchRL's segment trees, by the type of the priorities."""


class NativeTree:
    """The native sum tree with the interface of `TensorTree`, and with TorchRL's tree of smallest priorities.

    Args:
        fanout: children of a node of the sum tree (K), 2 to 256.

    Attributes:
        tree: the sum tree.
        least: TorchRL's tree; rows without a priority have the largest number there.
    """

    device = torch.device("cpu")

    def __init__(self, capacity: int, dtype: torch.dtype, fanout: int) -> None:
        self.dtype = dtype
        self.tree = sum_tree.create(capacity, fanout=fanout, dtype=DTYPES[dtype])
        self.least = LEAST_TREES[dtype](capacity)

    def __len__(self) -> int:
        return self.tree.capacity

    def __getitem__(self, index: Any) -> Tensor:
        rows = np.asarray(index, np.int64)
        return torch.from_numpy(self.tree.get(rows.reshape(-1))).reshape(rows.shape)

    def __setitem__(self, index: Any, priority: Any) -> None:
        rows = np.asarray(index, np.int64).reshape(-1)
        values = np.asarray(priority, DTYPES[self.dtype]).reshape(-1)
        values = np.ascontiguousarray(np.broadcast_to(values, rows.shape))
        self.tree.update(rows, values)
        self.least[rows] = np.where(values > 0, values, np.finfo(values.dtype).max)

    def draw(self, count: int, items: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor, float]:
        """Draw from the first `items` leaves; returns their indices and priorities, and the smallest priority.

        Raises:
            RuntimeError: no priority of these is above 0.
        """
        total, every = self.tree.total, len(self)
        rows = self._found(count, total, generator)
        if items < every and rows.size and rows.max() >= items:
            # Rows that hold no item have priorities. The others are drawn alone, all of them.
            total = float(self.tree.get(np.arange(items)).sum(dtype=np.float64))
            rows = np.minimum(self._found(count, total, generator), items - 1)
        priorities = torch.from_numpy(self.tree.get(rows))
        return torch.from_numpy(rows), priorities, self.least.query(0, items)

    def _found(self, count: int, total: float, generator: torch.Generator | None) -> npt.NDArray[np.int64]:
        if total <= 0:
            raise RuntimeError("sample: found no item with a priority; allowed: at least one")
        if generator is None:
            prefix = np.random.uniform(0.0, total, size=count)  # noqa: NPY002 (what TorchRL draws from)
        else:
            prefix = torch.rand(count, dtype=torch.float64, generator=generator).numpy() * total
        return self.tree.find(np.minimum(prefix, np.nextafter(total, 0.0)))

    def update(
        self,
        indices: Tensor,
        priorities: Tensor,
        *,
        alpha: float,
        epsilon: float,
        floor: float,
        largest: tuple[Any, Any],
    ) -> tuple[Any, Any]:
        """Set priorities, as `TensorTree.update`.

        Raises:
            ValueError: an index or a priority is wrong; nothing is changed.
        """
        rows, given = indices.numpy(), priorities.expand(len(indices)).numpy()
        if rows.min() < 0:
            kept = rows >= 0
            rows, given = rows[kept], given[kept]
            if not rows.size:
                return largest
        most = given.max()
        if not (given.min() >= 0 and most < np.inf):
            wrong = given[~((given >= 0) & (given < np.inf))][0]
            raise ValueError(f"priority: found {wrong}; allowed: finite, 0 or more")
        # By PyTorch, whose powers have other bits than NumPy's.
        powers = (torch.from_numpy(given) + epsilon).pow_(alpha).clamp_min_(floor).numpy()
        self.tree.update(rows, powers)
        self.least[rows] = powers
        if largest[0] is not None and most <= float(largest[0]):
            return largest
        return torch.tensor(most), torch.tensor(rows[given.argmax()])


class SumTreeSampler(PrioritizedSampler):
    """TorchRL's `PrioritizedSampler` on this project's sum trees.

    Args:
        max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer, device: as TorchRL's.
        fanout: children of a node of the sum tree (K), 2 to 256.

    Raises:
        NotImplementedError: a `dtype` other than float32 and float64.
        ValueError: an option is out of its range.
        BackendUnavailableError: CUDA cannot be used here.
    """

    _sum_tree: NativeTree | TensorTree
    _max_priority: Any
    _device: torch.device | None

    def __init__(self, *arguments: Any, fanout: int = 16, **options: Any) -> None:
        self._fanout = fanout
        super().__init__(*arguments, **options)

    def _init(self) -> None:
        if self.dtype not in DTYPES:
            raise NotImplementedError(f"dtype: found {self.dtype}; allowed: {', '.join(map(str, DTYPES))}")
        self._sum_tree = self._created(self._device or NativeTree.device)
        if self._device is not None:
            self._device = self._sum_tree.device  # with its number, by which TorchRL compares it
        self._max_priority = None

    def _created(self, where: torch.device) -> NativeTree | TensorTree:
        if where.type == "cpu":
            return NativeTree(self._max_capacity, self.dtype, self._fanout)
        return TensorTree(self._max_capacity, where, self.dtype, self._fanout)

    @property
    def _min_tree(self) -> NativeTree | TensorTree:
        # What TorchRL writes into both of its trees is written into the one twice.
        return self._sum_tree

    @property
    def default_priority(self) -> Any:
        """The priority of new items: the largest so far, or 1."""
        priority = super().default_priority
        # NaN where an update on CUDA was wrong and there was none before.
        return torch.nan_to_num(priority, nan=1.0) if isinstance(priority, Tensor) else priority

    def sample(self, storage: Any, batch_size: int) -> tuple[Any, dict[str, Tensor]]:
        """Draw items with replacement, with probabilities proportional to their priorities.

        Returns:
            Their indices, (B,) int64, or a tuple of them for each dimension of the storage; and (B,)
            `priority_weight`, as TorchRL's: (priority / smallest priority in the buffer) ** -beta.

        Raises:
            RuntimeError: there is nothing to draw.
        """
        self._maybe_init_from_storage(storage)
        items = len(storage)
        if not items:
            raise RuntimeError("sample: found an empty storage; allowed: at least one item")
        index, priorities, least = self._sum_tree.draw(batch_size, items, self._rng)
        weight = torch.pow(priorities / least, -self._beta)
        if storage.ndim > 1:
            shape = storage.shape
            return tuple(index // step % size for step, size in zip(_steps(shape), shape, strict=True)), {
                "priority_weight": weight
            }
        return index, {"priority_weight": weight}

    @torch.no_grad()
    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """Set the priorities of items, as TorchRL's sampler.

        Args:
            index: (B,) integers, or (B, D) with `storage` if it has D dimensions; negative ones are left out.
            priority: (B,) real, or one for all; finite, 0 or more.

        Raises:
            ValueError: a priority is negative or not finite, or an index outside; on CUDA one of the next calls raises.
            RuntimeError: priority or index has another shape.
        """
        self._maybe_init_from_storage(storage)
        rows, given = self._flat(index, priority, storage)
        if not rows.numel():
            return
        tree = self._sum_tree
        how: dict[str, Any] = {"alpha": self._alpha, "epsilon": self._eps, "floor": PRIORITY_MIN}
        self._max_priority = tree.update(rows, given, **how, largest=self._max_priority)
        if not self._max_priority_within_buffer or self._alpha == 0:
            return
        if tree.device.type == "cpu" and not (rows == self._max_priority[1]).any():
            return
        value, at = self._tree_argmax()
        raw = (value ** (1 / self._alpha) - self._eps).clamp_min(0)
        self._max_priority = torch.where(value > 0, raw, torch.nan), at

    def _flat(self, index: Any, priority: Any, storage: Any) -> tuple[Tensor, Tensor]:
        """Return (B,) rows of the tree, and priorities, (B,) or (1,)."""
        given = torch.as_tensor(priority, device=self.device).detach().to(self.dtype).reshape(-1)
        rows = torch.as_tensor(index, dtype=torch.long, device=self.device)
        if rows.ndim > 1:
            if storage is None:
                raise RuntimeError(
                    f"storage: found None; allowed: the storage, as index has shape {tuple(rows.shape)}"
                )
            shape = storage.shape
            if rows.shape[-1] != len(shape):
                raise RuntimeError(
                    f"index: found shape {tuple(rows.shape)}; allowed: one dimension, or the last of {len(shape)}"
                )
            outside = torch.zeros(rows.shape[:-1], dtype=torch.bool, device=rows.device)
            flat = torch.zeros_like(rows[..., 0])
            for number, (step, size) in enumerate(zip(_steps(shape), shape, strict=True)):
                place = rows[..., number]
                outside |= (place < 0) | (place >= size)
                flat += place * step
            rows = flat.masked_fill_(outside, self._max_capacity)  # which the tree refuses
        rows = rows.reshape(-1)
        if len(given) not in (1, len(rows)):
            raise RuntimeError(
                f"priority: found {len(given)} of them; allowed: 1, or as many as indices, {len(rows)}"
            )
        return rows, given

    def _maybe_erase_max_priority(self, index: Any) -> None:
        if isinstance(index, Tensor):
            index = index.to(self.device)
        super()._maybe_erase_max_priority(index)

    def state_dict(self) -> dict[str, Any]:
        """Return the state with TorchRL's own trees on the CPU, as that of TorchRL's sampler."""
        total, least = self._torchrls_trees()
        return {
            "_schema_version": self._STATE_SCHEMA_VERSION,
            **{name: getattr(self, name) for name in ("_alpha", "_beta", "_eps")},
            "_max_priority": deepcopy(self._max_priority),
            "_sum_tree": total,
            "_min_tree": least,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of this sampler or of TorchRL's.

        Raises:
            ValueError: it has another capacity.
        """
        tree = state_dict["_sum_tree"]
        self._check_capacity(len(tree))
        every = torch.arange(len(tree), device=getattr(tree, "device", "cpu"))
        self._restore(state_dict, torch.as_tensor(tree[every]))
        self._max_priority = deepcopy(state_dict["_max_priority"])
        self._recompute(state_dict)

    def dumps(self, path: Any) -> None:
        """Write the state into a folder, as TorchRL's sampler."""
        folder = Path(path).absolute()
        folder.mkdir(exist_ok=True)
        values = self._priorities().double().numpy()
        values.tofile(folder / "sumtree.memmap")
        unset = float(np.finfo(DTYPES[self.dtype]).max)
        np.where(values > 0, values, unset).tofile(folder / "mintree.memmap")
        numbers = {name: float(getattr(self, name)) for name in ("_alpha", "_beta", "_eps", "_max_capacity")}
        largest = [None if each is None else float(each) for each in self._max_priority]
        state = numbers | {"_max_priority": largest, "_schema_version": self._STATE_SCHEMA_VERSION}
        (folder / "sampler_metadata.json").write_text(json.dumps(state))

    def loads(self, path: Any) -> None:
        """Read the state that this sampler or TorchRL's wrote.

        Raises:
            ValueError: it has another capacity.
        """
        folder = Path(path).absolute()
        state = json.loads((folder / "sampler_metadata.json").read_text())
        self._check_capacity(int(state["_max_capacity"]))
        self._restore(state, torch.from_numpy(np.fromfile(folder / "sumtree.memmap", np.float64)))
        priority, index = state["_max_priority"]
        self._max_priority = None
        if priority is not None:
            at = torch.tensor(-1 if index is None else int(index), device=self.device)
            self._max_priority = torch.tensor(priority, dtype=self.dtype, device=self.device), at
        self._recompute(state)

    def _priorities(self) -> Tensor:
        """Return all priorities on the CPU; on CUDA they are awaited."""
        if isinstance(self._sum_tree, TensorTree):
            self._sum_tree.raise_if_wrong()
        return self._sum_tree[torch.arange(self._max_capacity)].cpu()

    def _torchrls_trees(self) -> tuple[Any, Any]:
        values = self._priorities()
        total, least = SUM_TREES[self.dtype](len(values)), LEAST_TREES[self.dtype](len(values))
        rows = torch.nonzero(values)[:, 0]
        if len(rows):
            total[rows] = least[rows] = values[rows]
        return total, least

    def _check_capacity(self, found: int) -> None:
        if found != self._max_capacity:
            raise ValueError(f"max_capacity: found {found}; allowed: {self._max_capacity}")

    def _restore(self, state: dict[str, Any], priorities: Tensor) -> None:
        limit = float(np.finfo(DTYPES[self.dtype]).max) / (2 * (self._max_capacity + 1))
        self._sum_tree[torch.arange(self._max_capacity)] = priorities.clamp_max(limit)
        self._alpha, self._beta, self._eps = (state[name] for name in ("_alpha", "_beta", "_eps"))

    def _recompute(self, state: dict[str, Any]) -> None:
        """Find the largest priority again where TorchRL before 0.14 stored its power."""
        powers = state.get("_schema_version", 0) < 1
        if powers and self._max_priority_within_buffer and self._max_priority[0] is not None:
            self._recompute_max_priority_from_tree()


def _steps(shape: Any) -> list[int]:
    """Return by how much the flat index grows with each coordinate."""
    return [prod(shape[dimension + 1 :]) for dimension in range(len(shape))]
