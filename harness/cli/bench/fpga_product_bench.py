"""Checks matrix products on a simulated array of the papers' size, and measures how long its simulation takes.

    placerl bench fpga-product --side 32

The simulation computes the elements of the products, and not only the cycles. To build it takes minutes the first
time, so no test does that.
"""

import resource
from typing import Annotated, Any

import numpy as np
import typer

from placerl.harness.cli.bench.command import not_run
from placerl.harness.cli.common import JsonOption, print_json, say
from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.export import toolchain
from placerl.primitives.fpga.gemm.plan import DATAFLOWS, GemmShape


def product(side: int, seed: int = 0) -> list[dict[str, Any]]:
    """Multiply random matrices on a simulated array of `side` x `side` elements in each dataflow; check the results.

    The sizes of the matrices are not multiples of `side`.

    Returns:
        A row per dataflow: the sizes, the simulated cycles, and seconds of processor time to build and to run the
        simulation.

    Raises:
        RuntimeError: a product differs from NumPy's, or its cycles differ from the closed form.
    """
    from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit

    began_s = _cpu_s()
    unit = SimulatedUnit(
        side=side, accumulator_depth=128, operand_blocks=16, result_blocks=16, block_load=True
    )
    build_cpu_s = _cpu_s() - began_s
    shape = GemmShape(2 * side + 1, side + side // 2, 3 * side - 1)
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-(2**31), 2**31, size) for size in ((shape.a, shape.b), (shape.b, shape.c)))
    rows = []
    for dataflow in DATAFLOWS:
        began_s = _cpu_s()
        outcome = unit.multiply(a, b, dataflow=dataflow)
        cycles = gemm.core_cycles(shape, side=side, dataflow=dataflow, block_load=True)
        if not np.array_equal(outcome.product, a @ b):  # both modulo 2**64
            raise RuntimeError(f"{dataflow}, P = {side}: the product is not NumPy's")
        if (outcome.cycles, outcome.stalls) != (cycles, 0):
            found = f"{outcome.cycles} cycles, {outcome.stalls} of them stalls"
            raise RuntimeError(
                f"{dataflow}, P = {side}: found {found}; the closed form has {cycles}, no stall"
            )
        rows.append(
            {
                "side": side,
                "dataflow": dataflow,
                "shape": [shape.a, shape.b, shape.c],
                "cycles": outcome.cycles,
                "provenance": "simulated",
                "build_cpu_s": round(build_cpu_s, 1),
                "run_cpu_s": round(_cpu_s() - began_s, 2),
            }
        )
    return rows


def _cpu_s() -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main(
    side: Annotated[
        int, typer.Option("--side", min=2, max=64, help="P, elements of an edge of the array.")
    ] = 32,
    as_json: JsonOption = False,
) -> None:
    """Check matrix products and their cycles on a simulated array of P x P, and time its simulation."""
    not_run(toolchain.unavailable_reason())
    rows = product(side)
    if as_json:
        print_json(rows)
        return
    say(f"P = {side}: {rows[0]['build_cpu_s']} s of processor time to build, or to find built.")
    for row in rows:
        a, b, c = row["shape"]
        say(
            f"{row['dataflow']}: {a} x {b} times {b} x {c} is exact in {row['cycles']:,} cycles (`simulated`), "
            f"{row['run_cpu_s']} s of processor time."
        )
