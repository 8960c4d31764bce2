"""Times of primitives on CPU, GPU and FPGA, made up for tests."""

from dataclasses import replace
from typing import Any

from placerl.harness.core.row import Row
from placerl.harness.papers.map import binary_trees
from tests.harness.old_form import row_of
from tests.harness.papers.rows import measurement, profiled

SIZES = (32, 64, 512, 2048, 4096)


def on(kind: str, primitive: str, size: int, time_s: float, workload: str = "hopper-ddpg") -> Row:
    backend, device = {"cpu": ("native", "cpu"), "cuda": ("torch", "cuda"), "fpga": ("fpga", "fpga:u200")}[
        kind
    ]
    fields = {"suite": "simulated_profile", "provenance": "simulated"} if kind == "fpga" else {}
    return profiled(primitive, time_s, size, workload=workload, backend=backend, device=device, **fields)


def steps(workload: str = "hopper-ddpg", *, cuda_s: float = 1e-4, fpga_s: float = 1e-6) -> list[Row]:
    """The GPU's step takes as long whatever the batch; the others grow with it."""
    cost = {"cpu": lambda size: 4e-6 * size, "cuda": lambda size: cuda_s, "fpga": lambda size: fpga_s * size}
    return [on(kind, "learner.step", size, cost[kind](size), workload) for kind in cost for size in SIZES]


def tree(kind: str, call: str, size: int, time_s: float, fanout: int = 2, **fields: Any) -> Row:
    """An operation on a tree with MAP's K, or another one; on the FPGA in cycles, which take so long at its clock."""
    details: dict[str, Any] = {"fanout": fanout}
    base: dict[str, Any] = {"suite": "claim", "batch_size": size}
    if kind == "fpga":
        details |= {"experiment": binary_trees.ON_FPGA, "call": call.removeprefix("sum_tree."), "banks": 1}
        base |= {"primitive": "replay manager", "backend": "fpga", "device": "fpga", "unit": "cycles"}
        base |= {"quantity": "cycles", "provenance": "simulated"}
        cycles = round(1e6 * binary_trees.CLOCK_MHZ * time_s)
        return row_of(value=float(cycles), details=details, **(base | fields))
    details |= {"experiment": binary_trees.EXPERIMENT}
    base |= {"primitive": call, "workload": "hopper-ddpg", "device": kind}
    base |= {"backend": "native" if kind == "cpu" else kind, "details": details}
    return measurement(time_s, **(base | fields))


def replay(call: str, gains: dict[int, float]) -> list[Row]:
    """On trees with MAP's K the FPGA takes 1 us an item; the GPU so many times that."""
    return [
        tree(kind, call, size, 1e-6 * size * (gain if kind == "cuda" else 1))
        for size, gain in gains.items()
        for kind in ("cuda", "fpga")
    ]


def exact(row: Row) -> Row:
    return replace(row, low=None, high=None)
