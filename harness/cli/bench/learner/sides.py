"""Creates the learners that `placerl bench learner` times in the same rounds, as cases (functions to time).

These are several forms of PyTorch, this project's learners, and other systems in processes of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from placerl.harness import workloads
from placerl.harness.cli.bench.learner.cells import LearnerCell
from placerl.harness.cli.bench.learner.eager import EAGER
from placerl.harness.compare import protocol, registry
from placerl.harness.measure.protocol import Case
from placerl.harness.pieces.learners import (
    TrainedStart,
    check_step,
    expect_td_errors,
    expected_td_errors,
    random_batch,
)
from placerl.harness.pieces.memory import require_learner
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.algorithms.ppo import PPO
from placerl.primitives.quantization import precision

FLUSHED = {name: f"{name}, flushed" for name in ("tuned", "compiled")}
"""The fast forms of PyTorch with subnormal numbers flushed to zero, as the native learner does."""
PYTORCH = ("eager", "pure", "tuned", "compiled", *FLUSHED.values())
"""The forms of PyTorch; the native learner is compared with the fastest."""
NATIVE = "native"
BFLOAT_16 = f"{NATIVE}[{precision.BFLOAT_16}]"
"""The native learner with products in bfloat16."""
NULL = "native (null)"
NATIVE_ALONE = "native (1 thread)"
"""The native learner on one thread, which is timed as well if the others have several."""
WORKER = registry.BASELINES / "learner_worker.py"
SET_UP_LIMIT_S = 1200.0  # RLtools compiles; SB3 plays until its replay can be sampled
BLOCK_LIMIT_S = 300.0
PEER_LEARNING_STARTS = 1000

Batch = dict[str, npt.NDArray]


class _Steps(Protocol):
    def step(self, batch: Batch, /) -> Any:
        """Take one gradient step."""


def sides(
    cell: LearnerCell, threads: int, *, compiled: bool, start: TrainedStart | None = None
) -> Iterator[Case[Any]]:
    """Yield the learners to time in the same rounds for one configuration, as cases (functions to time).

    Args:
        threads: threads of PyTorch, of the native learner and of the other systems.
        compiled: whether PyTorch with `torch.compile` is timed too; its set-up takes minutes.
        start: a trained state, from which this project's learners start, and batches; other systems and eager PyTorch
            are then left out. None: all start from initial parameters and get random batches.
    """
    item, size = cell.item, cell.batch_size
    require_learner(item, size, "native")
    algorithm = algorithm_of(item)
    # The eager form of PPO has separate networks.
    if not start and algorithm.name in EAGER and not getattr(algorithm, "shared", False):
        yield _eager_case(cell)
    for name, mode in (("pure", "eager"), ("tuned", "tuned"), ("compiled", "compiled")):
        if compiled or mode != "compiled":
            case = _own_case(
                name, cell, partial(learner.create, algorithm, batch_size=size, mode=mode), start
            )
            yield case
            if name in FLUSHED:
                yield replace(case, name=FLUSHED[name], call=_flushed(case.call))
    for status in learner.backends():
        if status.available and not status.simulated and status.name not in ("torch", "reference"):
            make = partial(learner.create, algorithm, batch_size=size, backend=status.name)
            if status.name != NATIVE:
                yield _own_case(status.name, cell, make, start)
                continue
            case = _own_case(NATIVE, cell, partial(make, threads=threads), start)
            yield from (case, replace(case, name=NULL))
            rounded = partial(make, threads=threads, precision=precision.BFLOAT_16)
            yield _own_case(BFLOAT_16, cell, rounded, start)
            if threads > 1:
                yield _own_case(NATIVE_ALONE, cell, make, start)
    for name in () if start else cell.peers:
        yield _peer_case(name, cell, threads)


def _flushed(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def flushed(side: Any, given: Any) -> Any:
        if not torch.set_flush_denormal(True):
            raise RuntimeError("PyTorch cannot flush subnormal numbers on this processor")
        try:
            return call(side, given)
        finally:
            torch.set_flush_denormal(False)

    return flushed


def _own_case(
    name: str, cell: LearnerCell, make: Callable[[], learner.Learner], start: TrainedStart | None
) -> Case[Any]:
    def batch(rng: np.random.Generator) -> Batch:
        size = cell.batch_size
        return random_batch(cell.item, size, rng) if start is None else start.batch(size, rng)

    def check(side: learner.Learner) -> None:
        check_step(cell.item, side, batch(np.random.default_rng(4)))

    case = _case(name, cell, make, check)
    if start is None:
        return case

    def trained() -> learner.Learner:
        side = make()
        side.load_state_dict(start.state)
        return side

    return replace(case, setup=trained, inputs=lambda side, rng: batch(rng))


def _eager_case(cell: LearnerCell) -> Case[Any]:
    item, size = cell.item, cell.batch_size

    def check(side: _Steps) -> None:
        batch = random_batch(item, size, np.random.default_rng(4))
        reference = learner.create(algorithm_of(item), batch_size=size)
        expect_td_errors(side.step(batch), expected_td_errors(item, reference, batch))

    return _case("eager", cell, lambda: EAGER[item.algorithm.name](item, size), check)


def _case(name: str, cell: LearnerCell, make: Callable[[], Any], check: Callable[[Any], None]) -> Case[Any]:
    item = cell.item
    if not cell.whole_update:
        return Case(
            name=name,
            setup=make,
            check=check,
            inputs=lambda side, rng: random_batch(item, cell.batch_size, rng),
            call=lambda side, batch: side.step(batch),
        )
    algorithm = algorithm_of(item)
    assert isinstance(algorithm, PPO)

    def update(side: _Steps, given: tuple[Batch, np.random.Generator]) -> None:
        for batch in algorithm.minibatches(given[0], cell.batch_size, given[1]):
            side.step(batch)

    return Case(
        name=name,
        setup=make,
        check=check,
        inputs=lambda side, rng: (random_batch(item, cell.samples, rng), rng),
        call=update,
    )


def _peer_case(name: str, cell: LearnerCell, threads: int) -> Case[protocol.Worker]:
    """Return another system's training as a case, timed by its worker in its own process."""
    item = workloads.override(cell.item, "training.learning_starts", PEER_LEARNING_STARTS, "bench-learner")

    def setup() -> protocol.Worker:
        python, folder = registry.baseline_python(name), registry.BASELINES / name
        if not python.exists():
            raise FileNotFoundError("needs its environment, which --build makes")
        worker = protocol.Worker(
            [str(python), str(WORKER), str(folder / "learner.py")],
            environment_variables={
                "PYTHONPATH": str(registry.ENVIRONMENTS),
                "OMP_NUM_THREADS": str(threads),
                "OPENBLAS_NUM_THREADS": str(threads),
            },
        )
        request = {"workload": item.tables(), "batch_size": cell.batch_size, "threads": threads}
        worker.ask_json(request, SET_UP_LIMIT_S)
        return worker

    def block(worker: protocol.Worker, calls: int) -> float:
        return float(worker.ask_json({"calls": calls}, BLOCK_LIMIT_S)["wall_s"])

    def close(worker: protocol.Worker) -> None:
        worker.close()

    return Case(
        name=name,
        setup=setup,
        check=lambda worker: None,  # its worker checks before its first answer
        inputs=lambda worker, rng: None,
        call=lambda worker, batch: None,
        close=close,
        block=block,
    )
