"""Checks whether one dataflow explains the numbers that FIX states of its accelerator (FIX III, V-B, VI-C).

FIX states the size of the activation memory, that the weight memory is 16 modules of 512 bits of which 16 weights are
read at once, the rate and the utilisation. `primitives.fpga.cycles.fixar_dataflows` has a formula for each dataflow
that the text allows. Nothing is run.
"""

import pandas as pd

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Finding, Outcome
from placerl.harness.papers.fix.figure_10_array import ROOM
from placerl.harness.papers.fix.throughput import BATCH_SIZES
from placerl.harness.papers.number import Number, from_text
from placerl.primitives.fpga.cycles import fixar_dataflows
from placerl.primitives.fpga.cycles.fixar_dataflows import DATAFLOWS, FixarDataflow
from placerl.primitives.fpga.cycles.networks import FIX_BENCHMARKS

NEAR = 2.0
"""Percentage points by which a modelled utilisation may differ from the stated one: what activations and control take
is not modelled.
"""
_SOURCE = "passes x words, HalfCheetah (placerl.primitives.fpga.cycles.fixar_dataflows)"


def conflicts(flow: FixarDataflow) -> tuple[str, ...]:
    """Return which of FIX's numbers a dataflow contradicts: "rate", "utilisation", "memory" and "weights a cycle".

    A rate agrees from the published one to 1.25 times it (`ROOM`), because only matrix products are modelled. The
    utilisation is the share of multiply-adds that the elements could do, which is twice as many with 16 bits.
    """
    rate, use, memory, weights = (n.value for n in _published())
    own_rate, own_use, own_memory = (n.value for n in _modelled(flow))
    agree = {
        "rate": rate <= own_rate <= ROOM * rate,
        "utilisation": abs(own_use - use) <= NEAR,
        "memory": round(own_memory, 2) <= memory,
        "weights a cycle": flow.weights_per_cycle == weights,
    }
    return tuple(name for name, fits in agree.items() if not fits)


def _published() -> tuple[Number, ...]:
    return from_text("FIX.accelerator_ips", "FIX.utilisation", "FIX.activation_memory", "FIX.weights_a_cycle")


def _modelled(flow: FixarDataflow) -> tuple[Number, Number, Number]:
    """Return the rate, the utilisation in percent and the activation memory in KB of a dataflow."""
    state, action = FIX_BENCHMARKS["HalfCheetah"]
    batch = BATCH_SIZES[0]
    each = fixar_dataflows.multiply_adds_per_element(flow, state, action, batch)
    use = 100 * each / (2 if flow.halves else 1)
    values = (
        ("rate", fixar_dataflows.samples_per_s(flow, state, action, batch), "IPS"),
        ("multiply-adds of those that fit", use, "%"),
        ("activations", fixar_dataflows.activation_bytes(flow, state, batch) / 1000, "KB"),
    )
    rate, used, memory = (
        Number(f"{flow.name}: {what}", value, unit, Provenance.MODELLED, _SOURCE)
        for what, value, unit in values
    )
    return rate, used, memory


class OneDataflowExplains(Claim):
    """Checks FIX V-B: one dataflow has the stated rate, utilisation, activation memory and weights a cycle.

    If none has all four there is no verdict: FIX does not say how it counts utilisation, nor how many of the weight
    memory's 16 modules are read at once.
    """

    key, place, position = "FIX-V-B", "III, V-B, VI-C", 13
    statement = "One dataflow has the stated rate, utilisation, activation memory and weights a cycle"
    published = from_text(
        "FIX.accelerator_ips", "FIX.utilisation", "FIX.activation_memory", "FIX.weights_a_cycle"
    )
    decides = (
        "how FIX counts utilisation, and how many modules of memory it reads at once, which it does not state"
    )

    def judge(self, _: pd.DataFrame) -> Finding:
        conflicts_of = {flow: conflicts(flow) for flow in DATAFLOWS}
        numbers = tuple(number for flow in DATAFLOWS for number in _modelled(flow))
        said = "; ".join(
            f"{flow.name}: {'conflicts with ' + ', '.join(against) if against else 'conflicts with none'}"
            for flow, against in conflicts_of.items()
        )
        if not all(conflicts_of.values()):
            return Finding(Outcome.CONSISTENT, numbers, f"Dataflows that the text allows: {said}.")
        explanation = (
            f"Dataflows that the text allows: {said}. The last would fit all but the printed 16 weights a cycle if the "
            "utilisation counted one multiply-add per element and cycle, of which elements do two with 16 bits, and "
            "all 16 modules of 512 bits were read at once. The paper says neither. Only products are modelled; the "
            "clock is the paper's."
        )
        return Finding(Outcome.NO_VERDICT, numbers, explanation)
