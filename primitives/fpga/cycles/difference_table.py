"""Compares the cycles of the papers' formulas with simulated ones, and gives the reasons for the differences.

The rows are data (`differences.json`), for the hardware blocks of PPO and MAP: cycles depend on the design alone. The
tests simulate them again (`tests/primitives/fpga/cycles/differences.py`, which also writes the file).
`placerl bench fpga-tables differences` prints them (with `--json` for a script). Sizes include multiples of P,
multiples plus or minus one, and sizes below P, because formulas in multiples of P hide differences.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placerl.primitives.fpga.cycles import learner, replay
from placerl.primitives.fpga.learner_pipeline.layer_shape import LayerShape

FILE = Path(__file__).with_name("differences.json")
# MAP's networks: CartPole's critic alone, and Hopper's with the target networks before its loss.
_CARTPOLE = (LayerShape(5, 8, 8), LayerShape(8, 8, 8), LayerShape(8, 1, 1))
_ACTOR = (LayerShape(11, 256, 4), LayerShape(256, 256, 52), LayerShape(256, 3, 1))
_CRITIC = (LayerShape(14, 256, 4), LayerShape(256, 256, 52), LayerShape(256, 1, 1))
PASSES = (
    learner.Pass(_CARTPOLE),
    learner.Pass(_CRITIC, target=(*_ACTOR, *_CRITIC), policy=len(_ACTOR)),
)
COLUMNS = ("block", "case", "formula", "simulated", "difference", "reasons")


@dataclass(frozen=True)
class CycleDifference:
    """A row of the table that compares formulas with simulations: one size of one hardware block.

    Attributes:
        block: name of the hardware block.
        case: the simulated sizes, as text.
        formula_cycles: cycles by the paper's formula (`modelled`).
        simulated_cycles: cycles of the hardware in a simulation (`simulated`).
        reasons: cycles beyond the formula, by reason.
    """

    block: str
    case: str
    formula_cycles: float
    simulated_cycles: int
    reasons: Mapping[str, float]

    @property
    def difference_cycles(self) -> float:
        """Simulated cycles minus the formula's."""
        return self.simulated_cycles - self.formula_cycles

    @property
    def explained(self) -> bool:
        """Whether the reasons add up to the difference."""
        return abs(sum(self.reasons.values()) - self.difference_cycles) < 1e-6

    def cells(self) -> tuple[str, ...]:
        """Return the row as texts, one for each of `COLUMNS`.

        The text of the reasons ends with "**not explained**" if they do not add up to the difference.
        """
        reasons = ", ".join(f"{name} {cycles:+.10g}" for name, cycles in self.reasons.items() if cycles)
        return (
            self.block,
            self.case,
            f"{self.formula_cycles:.10g}",
            str(self.simulated_cycles),
            f"{self.difference_cycles:+.10g}",
            reasons if self.explained else f"{reasons} **not explained**",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the row as a dict for JSON.

        Its keys are the attributes, "difference_cycles", "explained", and "formula_provenance" and
        "simulated_provenance", which say that the first number is `modelled` and the second `simulated`.
        """
        return {
            "block": self.block,
            "case": self.case,
            "formula_cycles": self.formula_cycles,
            "formula_provenance": "modelled",
            "simulated_cycles": self.simulated_cycles,
            "simulated_provenance": "simulated",
            "difference_cycles": self.difference_cycles,
            "reasons": {name: value for name, value in self.reasons.items() if value},
            "explained": self.explained,
        }


def committed() -> list[CycleDifference]:
    """Return the rows of the table."""
    return [CycleDifference(*row) for row in json.loads(FILE.read_text())]


def write(rows: Iterable[CycleDifference]) -> None:
    """Replace the rows of the table."""
    FILE.write_text("[\n" + ",\n".join(json.dumps(astuple(row)) for row in rows) + "\n]\n")


def replay_difference(
    tree: Any, form: str, call: str, batch_size: int, rng: np.random.Generator
) -> CycleDifference:
    """Request a batch of a replay pipeline, and return how its cycles differ from MAP's formula (VI-A2).

    Args:
        tree: a filled `FpgaSumTree`.
        form: the form that it was created with, "wide" or "narrow".
        call: "sample" or "update"; with several banks the batch before it must have been of the other kind.
    """
    if call == "sample":
        leaves = tree.sample(batch_size, rng)
    else:
        leaves = rng.integers(0, tree.capacity, batch_size)
        if tree.banks == 1 and len(tree.last_found) >= batch_size:
            leaves = tree.last_found[:batch_size]  # their paths are in the pipeline's buffer (MAP IV-D4)
        tree.update(leaves, np.ones(batch_size))
    loads = np.bincount(leaves // tree.bank_leaves, minlength=tree.banks).tolist()
    return batch_difference(form, call, tree.last_call_cycles, loads, fanout=tree.fanout, levels=tree.levels)


def batch_difference(
    form: str, call: str, cycles: int, loads: list[int], *, fanout: int, levels: int
) -> CycleDifference:
    """Return how a batch's simulated cycles on a replay pipeline differ from MAP's formula (VI-A2).

    Args:
        form: "wide" or "narrow".
        call: "sample" or "update"; with several banks the batch before it was of the other kind.
    """
    timing = replay.level_timing(fanout=fanout, narrow=form == "narrow", samples=call == "sample")
    # Reads and writes alternate here, so that each batch changes the phase.
    terms = replay.difference_terms(cycles, loads, levels=levels, timing=timing, phase_changed=True)
    batch_size, banks = sum(loads), len(loads)
    return CycleDifference(
        f"replay pipeline, {form}, {call}",
        f"B = {batch_size}, K = {fanout}, depth {levels}, S = {banks}",
        batch_size / banks * timing.interval,
        cycles,
        terms,
    )


def learner_differences(
    passes: Iterable[learner.Pass], cases: Sequence[tuple[int, int]]
) -> Iterator[CycleDifference]:
    """Yield how the simulated cycles of the learner pipeline differ from MAP's T_pipeline + T_WU (VI-A2).

    Args:
        passes: the layers that samples go through.
        cases: (DP, PI) each: the number of pipelines, and the number of samples that each pipeline takes.
    """
    from placerl.primitives.fpga.cycles.simulated_units import pass_cycles
    from placerl.primitives.fpga.learner_pipeline.update_unit import adam_latency

    for work in passes:
        sizes = " x ".join(str(layer.inputs) for layer in work.layers)
        lanes = ", ".join(str(layer.lanes) for layer in work.layers)
        for pipelines, samples in cases:
            latency = adam_latency(pipelines * samples)
            update = learner.update_cycles(work, adam_latency=latency)
            yield CycleDifference(
                "learner pipeline" + (", targets by networks" if work.target else ""),
                f"{sizes} x {work.layers[-1].outputs}, lanes {lanes}, DP = {pipelines}, PI = {samples}",
                learner.map_cycles(work, samples=samples, pipelines=pipelines),
                pass_cycles(work, samples=samples, update=update),
                learner.difference_terms(work, samples=samples, pipelines=pipelines, adam_latency=latency),
            )
