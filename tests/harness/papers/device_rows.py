"""Times of primitives on CPU, GPU and FPGA, made up for tests."""

from dataclasses import replace

from placerl.harness.core.row import Row
from tests.harness.papers.rows import profiled

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


def replay(primitive: str, gains: dict[int, float]) -> list[Row]:
    """The FPGA takes 1 us an item; the GPU so many times that."""
    return [
        on(kind, primitive, size, 1e-6 * size * (gain if kind == "cuda" else 1))
        for size, gain in gains.items()
        for kind in ("cuda", "fpga")
    ]


def exact(row: Row) -> Row:
    return replace(row, low=None, high=None)
