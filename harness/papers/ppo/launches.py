"""Traces what gradient steps of PPO on a GPU spend on launches, synchronisation and kernels (PPO 2.4).

PyTorch's profiler traces whole iterations: every kernel that the device executes, and every call of the CUDA runtime
that launches one or waits. "eager" is the step as PyTorch launches it, operation by operation, which is the kind of
program that PPO profiled; "graph" is this project's, which launches a whole step at once.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from placerl.harness import workloads
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.loop.schedule import Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.measure import statistics
from placerl.harness.papers.cells import GPU_TIER, TierLimits, claim_cell
from placerl.harness.papers.experiments import Columns, Experiment
from placerl.harness.papers.ppo.table_2_iterations import BENCHMARKS, iterations, sized
from placerl.harness.runtime.on_policy import OnPolicyTraining
from placerl.harness.runtime.resolve import resolve
from placerl.harness.store.cell import Cell
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.fpga.cycles.ppo import PpoIteration


@dataclass(frozen=True)
class Traced(Columns):
    """Columns of the rows: the iteration, the mode of PyTorch's learner, and what a share is of (`SHARES`)."""

    benchmark: str
    iteration: dict[str, int]
    mode: str
    share: str | None = None


EXPERIMENT = Experiment(
    "PPO-2.4",
    "launches and synchronisations of PPO's gradient steps on a GPU",
    "fraction_of_time kernels_per_iteration launches_per_iteration synchronisations_per_iteration",
    Traced,
)
SHARE = "fraction_of_time"
OF_CALLS, WITHOUT_KERNEL = "of these calls and the kernels", "of the gradient steps, without a kernel"
SHARES = (OF_CALLS, WITHOUT_KERNEL)
"""What PPO's share may be of, which it does not say.

The first divides the seconds of launches and synchronisations by these and the kernels', as profilers sum them up. The
second is the share of the time of gradient steps in which no kernel runs.
"""
EAGER, GRAPH = "eager", "graph"
GPU = "cuda"
TRACED = ("Hopper", "Pong")  # a network of each kind: layers, and convolutions
CELL_S = 10.0
_LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch", "cudaMemcpy", "cudaMemset")
_COPIES = ("Memcpy", "Memset")


class Spent(NamedTuple):
    """What was traced of one iteration: calls of each kind, and the seconds that they took."""

    kernels: int = 0
    launches: int = 0
    synchronisations: int = 0
    kernel_s: float = 0.0
    launch_s: float = 0.0
    synchronisation_s: float = 0.0


def spent(events: Iterable[Any]) -> Spent:
    """Count the kernels of a device, the calls that launch a kernel or a copy, and those that wait.

    Args:
        events: the events of a trace, as `torch.profiler.profile.events` returns them.
    """
    counts = {"kernel": 0, "launch": 0, "synchronisation": 0}
    seconds = dict.fromkeys(counts, 0.0)
    for event in events:
        kind = _kind(event)
        if kind:
            counts[kind] += 1
            seconds[kind] += 1e-6 * event.time_range.elapsed_us()
    return Spent(*counts.values(), *seconds.values())


def _kind(event: Any) -> str:
    if event.device_type == torch.autograd.DeviceType.CUDA:
        return "" if event.name.startswith(_COPIES) else "kernel"
    if event.name.startswith(_LAUNCHES):
        return "launch"
    return "synchronisation" if event.name.startswith("cu") and "Synchronize" in event.name else ""


def measure(
    device: str,
    benchmark: str,
    mode: str,
    budget_s: float,
    report: Report,
    iteration: PpoIteration | None = None,
) -> Sequence[Row]:
    """Trace iterations of PPO's training on a device, each next to one without a profiler, which slows the host.

    Args:
        budget_s: no further iteration begins after this time; the fewest for an interval always run.
        iteration: its sizes; None: the fewest agents of PPO Table 2.

    Returns:
        Kernels, launches and synchronisations per iteration, and the share of time of the last two (`SHARES`), one
        sample an iteration. One row, which was not run, if no kernel was traced, as on a CPU.
    """
    chosen = iteration or iterations(benchmark, "N")[0]
    report(0.0, 1.0, f"{benchmark} on {device}, {mode}")
    begin_s = perf_counter()
    item = sized(workloads.load(BENCHMARKS[benchmark]), chosen)
    backend = "torch" if device == "cpu" else f"torch:{device}"
    mapping = Mapping.parse(f"{backend}-native-cpu")
    traced: list[tuple[Spent, float]] = []
    with ExitStack() as stack:
        trainee = learner.create(
            algorithm_of(item),
            backend="torch",
            device=device,
            batch_size=chosen.minibatch,
            seed=0,
            mode=mode,
        )
        training = OnPolicyTraining(resolve(Schedule(), item, mapping), learner=trainee)
        stack.callback(training.close)
        training.warm_up()
        training.advance(1)
        while len(traced) < statistics.FEWEST_SAMPLES or perf_counter() - begin_s < budget_s:
            learner_s = training.advance(1).terms_s["learner"]
            activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device != "cpu" else ())]
            with profile(activities=activities) as trace:
                training.advance(1)
            traced.append((spent(trace.events() or ()), learner_s))
            if not traced[-1][0].kernels:
                break
    fields = {
        "workload": item.name,
        "primitive": "training",
        "backend": "torch",
        "device": device,
        "batch_size": chosen.minibatch,
    }
    columns = Traced(benchmark, asdict(chosen), mode)
    if not traced[-1][0].kernels:
        reason = f"not run: needs a device whose kernels are traced; {device} has none"
        return [EXPERIMENT.not_run(reason, columns, quantity=SHARE, **fields)]
    rows: list[Row] = [
        EXPERIMENT.summary(
            [float(getattr(one, name)) for one, _ in traced],
            columns,
            quantity=f"{name}_per_iteration",
            **fields,
        )
        for name in ("kernels", "launches", "synchronisations")
    ]
    shares = {
        OF_CALLS: [_share_of_calls(one) for one, _ in traced],
        WITHOUT_KERNEL: [max(0.0, 1 - one.kernel_s / learner_s) for one, learner_s in traced],
    }
    return rows + [
        EXPERIMENT.summary(samples, Traced(benchmark, asdict(chosen), mode, share), quantity=SHARE, **fields)
        for share, samples in shares.items()
    ]


def _share_of_calls(one: Spent) -> float:
    calls_s = one.launch_s + one.synchronisation_s
    return calls_s / (calls_s + one.kernel_s)


def cells(tier: TierLimits) -> list[Cell]:
    """Return the cells (pieces of the plan) that trace iterations on a CUDA device, by benchmark and mode.

    They are of the tier `GPU_TIER`, and of the standard and the full tier on a machine with such a device.
    """
    if tier.name != GPU_TIER and not (tier.name in ("standard", "full") and torch.cuda.is_available()):
        return []

    def cell(benchmark: str, mode: str) -> Cell:
        key = f"{EXPERIMENT}/{benchmark.lower()}/{mode}"
        return claim_cell(key, CELL_S + 3, lambda report: measure(GPU, benchmark, mode, CELL_S, report))

    return [cell(benchmark, mode) for mode in (EAGER, GRAPH) for benchmark in TRACED]
