"""FIX's accelerator over batch size: samples a second of a DDPG update, from a formula for its cycles (FIX Fig. 10).

The products of an update run one after the other on the adaptive array: two cores of 16 x 16 elements. Adam follows,
on the 16 weights that the memory gives a cycle (FIX does not say how many its optimiser takes). Activations work on
what leaves the array. The clock is the paper's, and an assumption: this design was never placed on the device.

The rows are modelled. `AdaptiveTimer` and `StreamSequencer` are hardware and are simulated, but they only count passes,
words and latencies that Python's formulas give them (`layer_passes`, `layer_words`, `adam_latency`). The array itself,
with its data, is simulated by the tests alone, at 2 and 3 elements a side, where its cycles are those of the formula.
"""

from dataclasses import replace

from harness.core.progress import Report
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers.cells import Tier, claim_cell
from harness.papers.fix.throughput import BATCH_SIZES, WORKLOAD
from harness.profile import simulated
from harness.store.cell import Cell
from primitives.fpga.cycles import fixar
from primitives.fpga.cycles.networks import FIX_BENCHMARKS
from primitives.learner.fpga import fpga_backend

EXPERIMENT = "FIX-F10"
DEVICE = "fpga:u50"
QUANTITY = "learner_inferences_per_s"
BACKENDS = {32: "array of 32-bit activations", 16: "array of 16-bit activations"}


def measure(report: Report) -> list[Measurement]:
    """A row for each batch size and width of activations; not run where hardware cannot be simulated."""
    missing = fpga_backend.unavailable_reason()
    rows = []
    for number, batch_size in enumerate(BATCH_SIZES):
        report(number, len(BATCH_SIZES), f"FIX's array, batch size {batch_size}")
        for bits in BACKENDS:
            row = _row(batch_size, bits)
            if missing:
                rows.append(replace(row, status="not_run", reason=f"needs {missing}"))
            else:
                rows.append(_counted(row, batch_size, bits))
    return rows


def _row(batch_size: int, bits: int) -> Measurement:
    clock = simulated.clock(DEVICE)
    return Measurement(
        suite="claim",
        workload=WORKLOAD,
        primitive="learner.step",
        backend=BACKENDS[bits],
        device=DEVICE,
        batch_size=batch_size,
        quantity=QUANTITY,
        provenance=Provenance.MODELLED,
        status="not_run",
        reason="not counted yet",
        details={
            "experiment": EXPERIMENT,
            "clock_mhz": clock.value,
            "clock_assumed": True,
            "clock_source": clock.source,
        },
    )


def _counted(row: Measurement, batch_size: int, bits: int) -> Measurement:
    from primitives.fpga.cycles.simulated_units import array_cycles, sequence_cycles
    from primitives.fpga.learner_pipeline.update_unit import adam_latency

    array = replace(fixar.FIXAR, halves=bits == 16)
    state, action = FIX_BENCHMARKS["HalfCheetah"]
    products = array_cycles(fixar.ddpg_products(state, action, batch_size), array)
    words = -(-fixar.ddpg_weights(state, action) // array.side)
    adam = sequence_cycles(words, adam_latency(batch_size))
    cycles, formula = products + adam, fixar.ddpg_cycles(state, action, batch_size, array)
    details = {
        **row.details,
        "cycles": cycles,
        "unit_cycles": {"array": products, "adam": adam},
        "formula": "passes x words, every block in beside the pass before it (FIX V-B)",
        "formula_cycles": formula,
        "difference_cycles": cycles - formula,
    }
    value = batch_size * row.details["clock_mhz"] * 1e6 / cycles
    return replace(row, status="ok", reason="", value=value, details=details)


def cells(tier: Tier) -> list[Cell]:
    """FIX's accelerator over batch size."""
    return [claim_cell(EXPERIMENT, 2, measure, Provenance.MODELLED)]
