"""Checks of the sampler in TorchRL's environment: what TorchRL's own prioritised sampler does, ours does too.

Each check runs the same operations on three samplers: TorchRL's, ours on the native tree, and ours on the kernels that
CUDA runs, which are C++ of the host here. `COVERED` names every public method and property of TorchRL's class, with the
check that covers it.
"""

import copy
import io
import pickle
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from refusals import failure, message
from tensordict import TensorDict
from torchrl.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from torchrl.data.replay_buffers.samplers import PrioritizedSampler
from torchrl.data.replay_buffers.scheduler import LinearScheduler

from placerl.primitives.replay.adapters.torchrl_adapter import SumTreeSampler
from placerl.primitives.replay.device.tensor_tree import TensorTree


class KernelSampler(SumTreeSampler):
    """Ours, with the tree of a device on the host."""

    def _created(self, where):
        return TensorTree(self._max_capacity, where, self.dtype, self._fanout)


OURS = (SumTreeSampler, KernelSampler)
KINDS = (PrioritizedSampler, *OURS)
CAPACITY = 40
COVERED = {
    "add": "check_any_sequence_of_calls",
    "alpha": "check_any_sequence_of_calls",
    "beta": "check_weights",
    "can_sample": "check_an_empty_buffer",
    "default_priority": "check_any_sequence_of_calls",
    "device": "check_where_the_tree_is",
    "dumps": "check_dumped_files_of_each_are_read_by_each",
    "extend": "check_any_sequence_of_calls",
    "load_state_dict": "check_states_of_each_are_read_by_each",
    "loads": "check_dumped_files_of_each_are_read_by_each",
    "mark_update": "check_any_sequence_of_calls",
    "max_size": "check_where_the_tree_is",
    "ran_out": "check_an_empty_buffer",
    "sample": "check_the_same_seed_draws_the_same",
    "state_dict": "check_states_of_each_are_read_by_each",
    "update_priority": "check_any_sequence_of_calls",
}


def sampler_of(kind, capacity=CAPACITY, **options):
    return kind(capacity, **{"alpha": 0.6, "beta": 0.4} | options)


def transitions(count, first=0):
    numbers = torch.arange(first, first + count, dtype=torch.float32)
    return TensorDict({"observation": numbers[:, None].expand(count, 3).clone(), "number": numbers}, [count])


def buffer_of(kind, count=0, capacity=CAPACITY, **options):
    """A buffer of TorchRL's with a sampler of a kind; the priority of item k is k + 0.5."""
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(capacity),
        sampler=sampler_of(kind, capacity, **options),
        batch_size=32,
        priority_key="td_error",
    )
    if count:
        buffer.extend(transitions(count))
        buffer.update_priority(torch.arange(count), torch.arange(count) + 0.5)
    return buffer


def priorities(sampler):
    """All priorities as a sampler stores them."""
    return torch.as_tensor(sampler._sum_tree[torch.arange(sampler.max_size)]).double().numpy()


@contextmanager
def numbers_of(dtype):
    """Make a dtype PyTorch's default: TorchRL's float64 sampler takes no float32 priority, not even its own default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed(number):
    np.random.seed(number)  # noqa: NPY002 (what TorchRL draws from)
    torch.manual_seed(number)


def same_priorities(samplers, rtol=2e-6):
    own = priorities(samplers[0])
    for sampler in samplers[1:]:
        np.testing.assert_allclose(priorities(sampler), own, rtol=rtol)
        np.testing.assert_allclose(
            float(sampler.default_priority), float(samplers[0].default_priority), rtol=1e-4
        )


def check_every_public_method_of_torchrl_is_covered():
    public = {name for name in dir(PrioritizedSampler) if not name.startswith("_")}
    assert public == set(COVERED), public ^ set(COVERED)
    assert all(callable(globals()[check]) for check in COVERED.values())


def check_the_same_seed_draws_the_same():
    for dtype in (torch.float32, torch.float64):
        with numbers_of(dtype):
            for alpha in (1.0, 0.6):
                same_draws(dtype, alpha)
    kernels = buffer_of(KernelSampler, CAPACITY)
    draws = []
    for number in (0, 0, 1):
        seed(number)
        draws.append(kernels.sample()["index"].tolist())
    assert draws[0] == draws[1] != draws[2]


def same_draws(dtype, alpha):
    own, ours = (buffer_of(kind, CAPACITY, alpha=alpha, dtype=dtype) for kind in KINDS[:2])
    for number in range(20):
        seed(number)
        first = own.sample()
        seed(number)
        second = ours.sample()
        for name in ("index", "observation", "number", "priority_weight"):
            assert torch.equal(first[name], second[name]), name
            assert first[name].dtype is second[name].dtype
        for buffer, batch in ((own, first), (ours, second)):
            buffer.update_tensordict_priority(batch.set("td_error", ((batch["number"] * 7) % 5).to(dtype)))


def check_a_generator_of_the_buffer_is_that_of_the_draws():
    for kind in OURS:
        draws = []
        for number in (0, 0, 1):
            buffer = buffer_of(kind, CAPACITY)
            buffer.set_rng(torch.Generator().manual_seed(number))
            seed(len(draws))
            draws.append(buffer.sample()["index"].tolist())
        assert draws[0] == draws[1] != draws[2]


def check_draws_follow_the_priorities():
    """Draws of the right frequencies fail once in 7,000 runs: 240 counts, each within 5 standard deviations."""
    for kind in KINDS:
        for generator in (None, torch.Generator().manual_seed(2)):
            buffer = buffer_of(kind, CAPACITY)
            buffer.set_rng(generator)
            seed(5)
            shares = priorities(buffer.sampler) / priorities(buffer.sampler).sum()
            draws = 40_000
            counts = np.bincount(buffer.sample(draws)["index"], minlength=CAPACITY)
            deviations = np.abs(counts - draws * shares) / np.sqrt(draws * shares * (1 - shares))
            assert deviations.max() < 5, (kind, deviations)


def check_weights():
    for kind in KINDS:
        for count in (7, CAPACITY):
            buffer = buffer_of(kind, count)
            buffer.sampler.beta = 0.9
            LinearScheduler(buffer, "beta", final_value=1.0, num_steps=4).step()
            assert abs(buffer.sampler.beta - 0.925) < 1e-9
            batch = buffer.sample()
            raw = batch["index"].double().numpy() + 0.5
            np.testing.assert_allclose(batch["priority_weight"], (raw / 0.5) ** (-0.6 * 0.925), rtol=1e-5)


def check_any_sequence_of_calls():
    """Only priorities are compared: draws have a check of their own."""
    for within in (False, True):
        for start in range(30):
            rng = np.random.default_rng(start)
            options = {"alpha": float(rng.choice([0.0, 0.5, 1.0])), "eps": float(rng.choice([1e-8, 0.1]))}
            buffers = [buffer_of(kind, max_priority_within_buffer=within, **options) for kind in KINDS]
            for _ in range(25):
                work(buffers, rng)
                same_priorities([buffer.sampler for buffer in buffers], rtol=2e-5)
                assert len({len(buffer) for buffer in buffers}) == 1


def work(buffers, rng):
    """Call one method of each buffer with the same arguments."""
    size, first, what = len(buffers[0]), int(rng.integers(100)), rng.integers(8)
    index = torch.from_numpy(rng.integers(-1, max(size, 1), size=int(rng.integers(1, 12))))
    raw = torch.from_numpy(rng.random(len(index), np.float32) * 3)
    alpha = float(rng.choice([0.5, 0.9, 1.0]))
    count = int(rng.integers(1, 15))
    for buffer in buffers:
        if what == 0 or not size:
            buffer.add(transitions(1, first)[0])
        elif what == 1:
            buffer.extend(transitions(count, first))
        elif what == 2:
            buffer.extend(transitions(len(raw), first).set("td_error", raw[:, None]))
        elif what == 3:
            buffer.update_priority(int(index.clamp_min(0)[0]), float(raw[0]))
        elif what == 4:
            buffer.update_priority(index, raw[0])
        elif what == 5 and buffer.sampler.alpha != 0:
            buffer.sampler.alpha = alpha
        elif what == 6:
            buffer.sampler.mark_update(index, storage=buffer.storage)
        else:
            buffer.update_priority(index, raw)
    if what == 7 and first < 10:
        for buffer in buffers:
            buffer.empty()


def check_storages_of_several_dimensions():
    def create(kind):
        buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(CAPACITY, ndim=2), sampler=sampler_of(kind), batch_size=16
        )
        for first in (0, 20, 40, 60):
            errors = torch.from_numpy(np.random.default_rng(first).random((4, 3), np.float32))
            buffer.extend(transitions(12, first).reshape(4, 3).set("td_error", errors))
            yield buffer

    for buffers in zip(*(create(kind) for kind in KINDS), strict=True):
        for buffer in buffers:
            seed(0)
            index = tuple(torch.randint(size, (9,)) for size in buffer.storage.shape)
            buffer.update_priority(index, torch.rand(9))
        same_priorities([buffer.sampler for buffer in buffers])
        batches = []
        for buffer in buffers:
            seed(3)
            batch = buffer.sample()
            assert batch["index"].shape == (16, 2)
            expected = buffer.storage[tuple(batch["index"].T)]["number"]
            assert torch.equal(batch["number"], expected)
            batches.append(batch)
        assert torch.equal(batches[0]["index"], batches[1]["index"])
        for buffer in buffers:
            buffer.update_tensordict_priority(batches[0].clone().set("td_error", torch.arange(16.0)))
        same_priorities([buffer.sampler for buffer in buffers])
    for kind in KINDS:
        buffer = list(create(kind))[-1]
        outside = torch.tensor([[0, buffer.storage.shape[1]]])
        call = partial(buffer.sampler.update_priority, outside, 1.0, storage=buffer.storage)
        told = failure(call) or failure(partial(buffer.sample, 2))
        assert told == "ValueError"
        assert failure(partial(buffer.sampler.update_priority, outside, 1.0)) == "RuntimeError"


def check_states_of_each_are_read_by_each():
    for dtype in (torch.float32, torch.float64):
        with numbers_of(dtype):
            for source in KINDS:
                original = buffer_of(source, 25, dtype=dtype)
                file = io.BytesIO()
                torch.save(original.sampler.state_dict(), file)
                for target in KINDS:
                    file.seek(0)
                    read_by(target, original, torch.load(file, weights_only=False), dtype)
    for kind in OURS:
        state = sampler_of(kind, 7).state_dict()
        said = message(partial(sampler_of(kind).load_state_dict, state), ValueError)
        assert said == "max_capacity: found 7; allowed: 40"


def read_by(target, original, state, dtype):
    sampler = sampler_of(target, alpha=0.1, beta=0.2, dtype=dtype)
    sampler.load_state_dict(state)
    same_priorities([original.sampler, sampler], rtol=1e-12)
    assert (sampler.alpha, sampler.beta) == (0.6, 0.4)
    sampler.update_priority(torch.arange(25), torch.arange(25) + 1.0)
    assert float(sampler.default_priority) == 25
    seed(0)
    _, info = sampler.sample(original.storage, 5000)
    np.testing.assert_allclose(info["priority_weight"].max(), 1.0, rtol=1e-6)


def check_the_state_of_a_buffer_is_independent_of_it():
    for kind in OURS:
        buffer = buffer_of(kind, 25)
        state = buffer.state_dict()
        before = priorities(buffer.sampler)
        buffer.update_priority(torch.arange(25), 99.0)
        restored = buffer_of(kind)
        restored.load_state_dict(state)
        np.testing.assert_array_equal(priorities(restored.sampler), before)
        assert float(restored.sampler.default_priority) == 24.5
        assert torch.equal(restored[:]["number"], buffer[:]["number"])


def check_dumped_files_of_each_are_read_by_each():
    for source in KINDS:
        original = buffer_of(source, 25)
        with tempfile.TemporaryDirectory() as folder:
            original.dumps(Path(folder) / "buffer")
            for target in KINDS:
                buffer = buffer_of(target, alpha=0.1)
                buffer.loads(Path(folder) / "buffer")
                same_priorities([original.sampler, buffer.sampler], rtol=1e-12)
                assert (len(buffer), buffer.sampler.alpha) == (25, 0.6)
                assert len(buffer.sample()["index"]) == 32
                buffer.extend(transitions(2))
                set_to = priorities(buffer.sampler)[24:27]
                np.testing.assert_allclose(set_to, set_to[0], rtol=1e-6)
    for kind in OURS:
        with tempfile.TemporaryDirectory() as folder:
            sampler_of(kind).dumps(folder)  # with no priority yet, which TorchRL's cannot write
            empty = sampler_of(kind)
            empty.loads(folder)
            assert (float(empty.default_priority), priorities(empty).max()) == (1.0, 0.0)
            said = message(partial(sampler_of(kind, 7).loads, folder), ValueError)
            assert said == "max_capacity: found 40; allowed: 7"


def check_states_that_are_older_or_wrong():
    for kind in KINDS:
        buffer = buffer_of(kind, 25, max_priority_within_buffer=True)
        state = buffer.sampler.state_dict()
        del state["_schema_version"]
        state["_max_priority"] = (torch.tensor(24.5**0.6), torch.tensor(24))
        other = sampler_of(kind, max_priority_within_buffer=True)
        other.load_state_dict(state)
        np.testing.assert_allclose(float(other.default_priority), 24.5, rtol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        buffer_of(SumTreeSampler, 25).sampler.dumps(folder)
        np.full(CAPACITY, np.nan).tofile(Path(folder) / "sumtree.memmap")
        sampler = buffer_of(SumTreeSampler, 25, alpha=0.5).sampler
        before = priorities(sampler)
        assert "priorities: found nan" in message(partial(sampler.loads, folder), ValueError)
        np.testing.assert_array_equal(priorities(sampler), before)
        assert sampler.alpha == 0.5


def check_copies_are_independent_and_draw_the_same():
    for kind in KINDS:
        for copied_by in (copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler))):
            buffer = buffer_of(kind, CAPACITY, **({} if kind is PrioritizedSampler else {"fanout": 4}))
            copied = copied_by(buffer.sampler)
            draws = []
            for sampler in (buffer.sampler, copied):
                seed(4)
                draws.append(sampler.sample(buffer.storage, 20)[0].tolist())
            assert draws[0] == draws[1]
            copied.update_priority(torch.arange(CAPACITY), 9.0)
            assert priorities(buffer.sampler)[0] != priorities(copied)[0]


def check_buffers_of_torchrl():
    for kind in KINDS:
        for storage in (LazyTensorStorage, LazyMemmapStorage, ListStorage):
            listed = storage is ListStorage
            buffer = ReplayBuffer(
                storage=storage(CAPACITY),
                sampler=sampler_of(kind),
                batch_size=8,
                collate_fn=torch.stack if listed else None,
            )
            buffer.extend([*transitions(9)] if listed else transitions(9))
            batch, info = buffer.sample(return_info=True)
            assert torch.equal(batch["number"], info["index"].float())
            buffer.update_priority(info["index"], torch.rand(8))
        prefetching = TensorDictReplayBuffer(
            storage=LazyTensorStorage(CAPACITY), sampler=sampler_of(kind), batch_size=8, prefetch=3
        )
        prefetching.extend(transitions(9))
        for _ in range(20):
            batch = prefetching.sample()
            assert torch.equal(batch["number"], batch["index"].float())
            prefetching.update_tensordict_priority(batch.set("td_error", torch.rand(8)))
        late = TensorDictReplayBuffer(storage=prefetching.storage, sampler=sampler_of(kind), batch_size=8)
        assert (priorities(late.sampler)[:9] > 0).all()


def check_the_sampler_of_a_prioritized_buffer_is_exchanged():
    samplers = []
    for kind in KINDS:
        buffer = TensorDictPrioritizedReplayBuffer(
            alpha=0.6, beta=0.4, storage=LazyTensorStorage(CAPACITY), batch_size=8
        )
        buffer.set_sampler(sampler_of(kind))
        for first in (0, 30, 60):
            buffer.extend(transitions(30, first))
            seed(1)
            batch = buffer.sample()
            assert torch.equal(batch["observation"][:, 0], batch["number"])
            errors = TensorDict({"index": torch.arange(8), "td_error": torch.arange(8.0)[:, None]}, [8])
            buffer.update_tensordict_priority(errors)
        samplers.append(buffer.sampler)
    same_priorities(samplers)


def check_a_writer_that_keeps_the_largest():
    samplers = []
    for kind in KINDS:
        buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(10),
            sampler=sampler_of(kind, 10),
            writer=TensorDictMaxValueWriter(rank_key="number"),
            batch_size=4,
            priority_key="td_error",
        )
        buffer.extend(transitions(10).set("td_error", torch.arange(10.0)))
        mixed = transitions(6, 5)
        mixed["number"][::2] = -1.0  # which are not stored: their index is -1
        buffer.extend(mixed.set("td_error", torch.full((6,), 20.0)))
        buffer.extend(transitions(3, -9))
        samplers.append(buffer.sampler)
    same_priorities(samplers)


def check_an_empty_buffer():
    for kind in KINDS:
        buffer = buffer_of(kind)
        assert failure(buffer.sample) == "RuntimeError"
        assert not buffer.sampler.can_sample(buffer.storage, 1)
        buffer.extend(transitions(3))
        assert buffer.sampler.can_sample(buffer.storage, 1)
        assert not buffer.sampler.ran_out
        buffer.empty()
        assert not priorities(buffer.sampler).any()
        assert failure(buffer.sample) == "RuntimeError"


def check_where_the_tree_is():
    for kind in KINDS:
        sampler = sampler_of(kind, device="cpu")
        assert (sampler.device, sampler.max_size) == (torch.device("cpu"), CAPACITY)
        assert failure(partial(sampler_of, kind, dtype=torch.float16)) == "NotImplementedError"
        for options in ({"alpha": -1.0}, {"beta": -1.0}):
            assert failure(partial(sampler_of, kind, **options)) == "ValueError"
        sampler = sampler_of(kind)
        assert failure(partial(setattr, sampler, "alpha", -1.0)) == "ValueError"
    assert "fanout: found 1; allowed: 2 to 256" in message(
        partial(sampler_of, SumTreeSampler, fanout=1), ValueError
    )
    if not torch.cuda.is_available():
        said = message(partial(sampler_of, SumTreeSampler, device="cuda"), RuntimeError)
        assert "device cuda is not available" in said


def check_wrong_priorities_and_indices_change_nothing():
    for wrong in ([1.0, np.nan], [1.0, -0.5], [np.inf, 1.0], [1e38, 1.0]):
        for alpha in (0.0, 1.0):
            if max(wrong) == 1e38 and not alpha:
                continue
            told_of([0, 1], wrong, alpha)
    told_of([0, CAPACITY], [1.0, 1.0], 1.0)
    told_of([[0, 0]], [1.0], 1.0, kind="RuntimeError")
    for kind in KINDS:
        buffer = buffer_of(kind, 25)
        assert failure(partial(buffer.update_priority, torch.arange(3), torch.ones(2))) == "RuntimeError"


def told_of(index, priority, alpha, kind="ValueError"):
    for sampler_kind in OURS:
        buffer = buffer_of(sampler_kind, 25, alpha=alpha)
        before, largest = priorities(buffer.sampler), float(buffer.sampler.default_priority)
        call = partial(buffer.update_priority, torch.tensor(index), torch.tensor(priority))
        told = failure(call) or failure(buffer.sample)
        assert told == kind, (told, index, priority)
        np.testing.assert_array_equal(priorities(buffer.sampler), before)
        assert float(buffer.sampler.default_priority) == largest
        buffer.sample()


def check_priorities_of_any_real_type():
    for kind in OURS:
        for dtype in (torch.float32, torch.float64):
            for given in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32):
                buffer = buffer_of(kind, 3, alpha=1.0, eps=0.0, dtype=dtype)
                buffer.update_priority(torch.arange(3), torch.tensor([1, 2, 4], dtype=given))
                assert priorities(buffer.sampler)[:3].tolist() == [1.0, 2.0, 4.0]


def check_a_first_update_that_is_wrong():
    for kind in OURS:
        sampler = sampler_of(kind)
        told = failure(partial(sampler.update_priority, 3, np.nan)) or failure(sampler.state_dict)
        assert told == "ValueError"
        assert float(sampler.default_priority) == 1.0
        sampler.update_priority(3, 0.25)
        assert float(sampler.default_priority) == 0.25


def check_priorities_of_rows_without_items_are_not_drawn():
    """Draws of the right frequencies fail once in 50,000 runs: 30 counts, each within 5 standard deviations."""
    for kind in KINDS:
        buffer = buffer_of(kind, 10, alpha=1.0, eps=0.0)
        buffer.sampler.update_priority(torch.arange(10, 30), torch.full((20,), 50.0))
        buffer.sampler.update_priority(torch.tensor([35]), torch.tensor([0.125]))
        seed(0)
        batch = buffer.sample(20_000)
        shares = (np.arange(10) + 0.5) / 50
        deviations = np.abs(np.bincount(batch["index"], minlength=10) - 20_000 * shares)
        assert (deviations < 5 * np.sqrt(20_000 * shares * (1 - shares))).all()
        np.testing.assert_allclose(float(batch["priority_weight"].max()), 1.0, rtol=1e-6)


def check_the_smallest_priorities_can_be_drawn():
    for kind in OURS:
        buffer = buffer_of(kind, 5, alpha=8.0, eps=1e-8)
        buffer.update_priority(torch.arange(5), torch.zeros(5))
        assert set(buffer.sample(200)["index"].tolist()) == set(range(5))
        np.testing.assert_array_equal(buffer.sample()["priority_weight"], np.ones(32))
        buffer.update_priority(torch.tensor([1]), torch.tensor([1.0], dtype=torch.float16))
        assert set(buffer.sample()["index"].tolist()) == {1}


def check_the_host_does_not_wait(where):
    storage = LazyTensorStorage(CAPACITY, device=where)
    buffer = TensorDictReplayBuffer(storage=storage, sampler=sampler_of(SumTreeSampler), batch_size=32)
    numbers = transitions(CAPACITY).to(where)
    buffer.extend(numbers)
    buffer.update_tensordict_priority(buffer.sample().set("td_error", torch.ones(32, device=where)))
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            index, info = buffer.sampler.sample(storage, 32)
            buffer.sampler.update_priority(index, info["priority_weight"], storage=storage)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert index.device.type == info["priority_weight"].device.type == where
    assert buffer.sampler._sum_tree.device.type == where
    batch = buffer.sample()
    assert torch.equal(batch["number"].long(), batch["index"])
