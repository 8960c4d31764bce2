"""The probes of a machine's card: small functions, each of which one property of a machine bounds.

| name | what | unit |
|---|---|---|
| `multiply_add.float32`, `.float32.all` | independent multiply-adds, on one core and on all | FLOP/s |
| `product.float64`, `.float64.all` | a product of two 512 x 512 matrices in NumPy, on one core and on all | FLOP/s |
| `product.float32` | a product of 64 x 256 and 256 x 256 matrices in PyTorch, on one core | FLOP/s |
| `copy.F`, `copy.256MiB.all` | copies between the halves of F bytes, on one core and on all | B/s, both ways |
| `latency.F` | a load from F bytes that waits for the one before | s |
| `interpreter` | a loop of 500 turns in Python | s |
| `call.native`, `call.numpy`, `call.torch` | a call of C++, an addition of 8 floats in NumPy and in PyTorch | s |
| `hand_over.native`, `hand_over.python` | a turn of two threads that wait for each other, one way | s |
| `environment.ID` | steps of 256 native environments in one call, on one core | 1/s |
| `D.launch` | an empty kernel of an accelerator D, such as "opencl", until it is done | s |
| `D.peak`, `D.upload`, `D.download` | its multiply-adds; copies of 4 MiB from and to the host | FLOP/s, B/s |
| `noise.again` | the time of `interpreter` over that of its copy in the same rounds: 1 where nothing disturbs | 1 |

Footprints are the same on every machine, whatever its caches, so that cards can be compared name by name.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from placerl.harness import environments as gymnasium_environments
from placerl.harness import workloads
from placerl.harness.environments.native_pool import NativePool
from placerl.harness.machines.card import Unit
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.pace import kernel
from placerl.harness.measure.timed_case import Case
from placerl.harness.pieces.base import expect_equal
from placerl.harness.platforms import available_memory
from placerl.harness.profile import machine_peaks
from placerl.primitives import device, environments

INTERPRETER, AGAIN = "interpreter", "interpreter, again"
FOOTPRINTS = {"16KiB": 2**14, "256KiB": 2**18, "4MiB": 2**22, "32MiB": 2**25, "256MiB": 2**28}
"""Bytes that copies and loads go over: from within a first-level cache to beyond most last-level caches. Copies on
all cores divide the last one between them.
"""
WORKLOADS = ("cartpole-dqn", "pendulum-ddpg", "mountaincar-ddpg", "hopper-ddpg")
"""Workloads whose environments are stepped."""
ENVIRONMENTS = 256
LOADS = 1024
TURNS = 64
SIDE, NUMPY_SIDE = 256, 512
TRANSFER_BYTES = 2**22
_ALL = ".all"
_EMPTY_KERNEL = "KERNEL(nothing)(GLOBAL float *x) { x[0] = 1.0f; }"


@dataclass(frozen=True)
class Probe:
    """A function to time, and the figure that follows.

    Attributes:
        name: name of the figure.
        unit: unit of the figure; one "per second" is `amount` over the seconds of a call, "s" these over `amount`.
        amount: operations, bytes, steps or repetitions of a call.
        case: the function.
        not_run: why it cannot be timed here; empty if it can.
    """

    name: str
    unit: Unit
    amount: float
    case: Case[Any]
    not_run: str = ""


def probes() -> list[Probe]:
    """Return every probe of this machine. The first two are of `noise.again`, which has no probe of its own."""
    found = chain(_python(), _arithmetic(), _memory(), _hand_overs(), _environments(), _accelerators())
    return [*found]


def _plain(name: str, call: Callable[[], object], check: Callable[[], None] = lambda: None) -> Case[None]:
    return Case(name, lambda: None, lambda _: check(), lambda _, rng: None, lambda _, __: call())


def _require(correct: bool, what: str) -> None:
    if not correct:
        raise AssertionError(what)


# Calls


def _python() -> Iterator[Probe]:
    import torch

    from placerl.primitives import _native

    for name in (INTERPRETER, AGAIN):
        yield Probe(
            name, "s", 1, _plain(name, kernel, lambda: _require(kernel() == 124750, "the sum is wrong"))
        )
    yield Probe("call.native", "s", 1, _plain("call.native", _native.simd_level))
    x = np.arange(8, dtype=np.float32)
    total, tensor = np.empty_like(x), torch.arange(8.0)
    sums = torch.empty_like(tensor)
    numpy_add, torch_add = partial(np.add, x, x, out=total), partial(torch.add, tensor, tensor, out=sums)
    for name, add, result in (("call.numpy", numpy_add, total), ("call.torch", torch_add, sums.numpy())):

        def check(add: Callable[[], object] = add, result: Any = result, name: str = name) -> None:
            add()
            expect_equal(result, 2 * x, name)

        yield Probe(name, "s", 1, _plain(name, add, check))


# Arithmetic


class _Team:
    """Threads, one a core, that do the same work at the same time."""

    def __init__(self) -> None:
        self.cores = usable_cores()
        self._pool = ThreadPoolExecutor(len(self.cores))
        started = threading.Barrier(len(self.cores))  # so that each takes one of the first jobs
        self.run(lambda _: started.wait())

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Return what `work` returns for each number of a thread."""
        return list(self._pool.map(work, range(len(self.cores))))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


def _arithmetic() -> Iterator[Probe]:
    import torch
    from placerl.primitives._native import learner

    peak = machine_peaks.cpu_peak()
    yield Probe("multiply_add.float32", "FLOP/s", peak.amount, peak.case)

    def all_cores(team: _Team, calls: int) -> float:
        rates = team.run(lambda _: learner.peak_gflops(calls * 1e-3))
        return float(calls * len(rates) / sum(rates))

    name, giga = f"multiply_add.float32{_ALL}", 1e9
    together = Case(
        name, _Team, lambda _: None, lambda _, rng: None, _nothing, block=all_cores, close=_Team.close
    )
    yield Probe(name, "FLOP/s", giga * len(usable_cores()), together)
    yield _numpy_product("product.float64", 1)
    yield _numpy_product(f"product.float64{_ALL}", len(usable_cores()))
    a, b = torch.rand(64, SIDE), torch.rand(SIDE, SIDE)
    out = torch.empty(64, SIDE)

    def multiplied() -> None:
        torch.mm(a, b, out=out)
        torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-4)

    product = _plain("product.float32", partial(torch.mm, a, b, out=out), multiplied)
    yield Probe("product.float32", "FLOP/s", 2.0 * 64 * SIDE * SIDE, product)


def _nothing(_: Any, __: Any) -> None:
    """Do nothing; the call of a case with its own clock."""


def _numpy_product(name: str, threads: int) -> Probe:
    a, b = np.random.default_rng(0).random((2, NUMPY_SIDE, NUMPY_SIDE))
    outs = [np.empty((NUMPY_SIDE, NUMPY_SIDE)) for _ in range(threads)]

    def call(team: _Team | None, _: None = None) -> None:
        if team is None:
            np.dot(a, b, out=outs[0])
        else:
            team.run(lambda number: np.dot(a, b, out=outs[number]))

    def check(team: _Team | None) -> None:
        call(team)
        for out in outs:
            np.testing.assert_allclose(out[:2], np.einsum("ij,jk->ik", a[:2], b), rtol=1e-12)

    case: Case[_Team | None] = Case(
        name,
        lambda: _Team() if threads > 1 else None,
        check,
        lambda _, rng: None,
        call,
        close=lambda team: team.close() if team else None,
    )
    return Probe(name, "FLOP/s", 2.0 * NUMPY_SIDE**3 * threads, case)


# Memory


def _memory() -> Iterator[Probe]:
    from placerl.harness._experiments import Copies, PointerChase

    allowed_bytes = available_memory.measurement_bytes()
    for size, footprint in FOOTPRINTS.items():
        refused = available_memory.refusal(footprint, allowed_bytes)
        copies = max(1, 2**18 // footprint)

        def copied(memory: Any) -> None:
            memory.run(1)
            _require(memory.halves_are_equal, "the copy differs from its source")

        def run(memory: Any, _: None, times: int = copies) -> None:
            memory.run(times)

        copy: Case[Any] = Case(f"copy.{size}", partial(Copies, footprint), copied, lambda _, rng: None, run)
        yield Probe(copy.name, "B/s", float(footprint * copies), copy, refused)

        def chased(chase: Any) -> None:
            _require(chase.run(chase.lines) == 0, "the loads do not return to the first line")

        def load(chase: Any, _: None) -> None:
            chase.run(LOADS)

        loads: Case[Any] = Case(
            f"latency.{size}", partial(PointerChase, footprint), chased, lambda _, rng: None, load
        )
        yield Probe(loads.name, "s", LOADS, loads, refused)
    cores = len(usable_cores())
    largest, footprint = list(FOOTPRINTS.items())[-1]
    footprint //= cores

    def all_copied(state: tuple[_Team, Sequence[Any]]) -> None:
        state[0].run(lambda number: state[1][number].run(1))

    def check(state: tuple[_Team, Sequence[Any]]) -> None:
        all_copied(state)
        _require(all(one.halves_are_equal for one in state[1]), "a copy differs from its source")

    together: Case[Any] = Case(
        f"copy.{largest}{_ALL}",
        lambda: (_Team(), [Copies(footprint) for _ in range(cores)]),
        check,
        lambda _, rng: None,
        lambda state, _: all_copied(state),
        close=lambda state: state[0].close(),
    )
    refused = available_memory.refusal(footprint * cores, allowed_bytes)
    yield Probe(together.name, "B/s", float(footprint * cores), together, refused)


# Threads


def _python_turns() -> int:
    """Let two threads of Python take turns, each waiting for the other, and return the other one's turns."""
    mine, other, taken = threading.Lock(), threading.Lock(), 0
    mine.acquire()
    other.acquire()

    def answer() -> None:
        nonlocal taken
        for _ in range(TURNS):
            other.acquire()
            taken += 1
            mine.release()

    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(TURNS):
        other.release()
        mine.acquire()
    thread.join()
    return taken


def _hand_overs() -> Iterator[Probe]:
    from placerl.harness._experiments import hand_over

    for name, turns in (("hand_over.native", partial(hand_over, TURNS)), ("hand_over.python", _python_turns)):

        def check(turns: Callable[[], int] = turns) -> None:
            _require(turns() == TURNS, "a thread took another number of turns")

        yield Probe(name, "s", 2 * TURNS, _plain(name, turns, check))


# Environments


def _environments() -> Iterator[Probe]:
    for workload in WORKLOADS:
        described = workloads.load(workload).environment

        def setup(described: Any = described) -> NativePool:
            pool = NativePool(described, range(ENVIRONMENTS))
            pool.reset()
            pool.action_space.seed(0)
            return pool

        def check(pool: NativePool, described: Any = described) -> None:
            twin = gymnasium_environments.make(described, 0)
            twin.reset()
            actions = [pool.action_space.sample() for _ in range(10)]
            for action in actions:
                stepped = pool.step(np.stack([action] * ENVIRONMENTS))
                expected = twin.step(action)
                expect_equal(np.ravel(stepped[0][0]), np.ravel(expected[0]), "observation")
                if expected[2] or expected[3]:
                    break
            twin.close()
            pool.reset()

        def actions(pool: NativePool, rng: np.random.Generator) -> Any:
            return np.stack([pool.action_space.sample()] * ENVIRONMENTS)

        case = Case(f"environment.{described.id}", setup, check, actions, _step)
        reason = environments.unavailable_reason(described.id)
        yield Probe(case.name, "1/s", ENVIRONMENTS, case, f"needs {reason}" if reason else "")


def _step(pool: NativePool, actions: Any) -> None:
    _, _, terminated, truncated = pool.step(actions)
    over = terminated | truncated
    if over.any():
        pool.reset(np.flatnonzero(over))


# Accelerators


def _accelerators() -> Iterator[Probe]:
    for kind, peaks in (("opencl", machine_peaks.opencl), ("cuda", machine_peaks.cuda)):
        if device.unavailable_reason(kind):
            continue
        peak = next(one for one in peaks() if one.quantity == "peak")
        yield Probe(f"{kind}.peak", "FLOP/s", peak.amount, peak.case)
        yield from _transfers(kind)


def _transfers(kind: str) -> Iterator[Probe]:
    stream = device.create(kind).stream()
    host = np.arange(TRANSFER_BYTES // 4, dtype=np.float32)

    def case(
        name: str, setup: Callable[[], Any], check: Callable[[Any], None], call: Callable[[Any], Any]
    ) -> Case[Any]:
        return Case(
            f"{kind}.{name}", setup, check, lambda _, rng: None, lambda state, _: call(state), stream.finish
        )

    def kernel_and_buffer() -> Any:
        return stream.device.kernels(_EMPTY_KERNEL)["nothing"], stream.zeros(4)

    def launched(state: Any) -> None:
        stream.launch(state[0], 1, state[1])
        stream.finish()

    def ran(state: Any) -> None:
        launched(state)
        expect_equal(stream.download(state[1], 1, np.float32), [1], "the kernel's result")

    def came_back(buffer: Any) -> None:
        expect_equal(stream.download(buffer, host.shape, host.dtype), host, "what came back")

    def upload(buffer: Any) -> None:
        stream.upload(buffer, host)
        stream.finish()

    def filled() -> Any:
        return stream.uploaded(host)

    yield Probe(f"{kind}.launch", "s", 1, case("launch", kernel_and_buffer, ran, launched))
    yield Probe(f"{kind}.upload", "B/s", float(TRANSFER_BYTES), case("upload", filled, came_back, upload))
    download = case("download", filled, came_back, lambda b: stream.download(b, host.shape, host.dtype))
    yield Probe(f"{kind}.download", "B/s", float(TRANSFER_BYTES), download)
