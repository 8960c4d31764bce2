"""Declares the quantities that stored rows may hold, with the unit of each and whether more or less is better.

Each quantity is declared once, here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Better = Literal["more", "less", "neither"]

_BY_UNIT: dict[str, Better] = {
    **dict.fromkeys(("s", "ms", "us", "cycles", "bytes", "W", "J"), "less"),
    **dict.fromkeys(
        ("1/s", "1/min", "1/J", "1/s/W", "IPS", "IPS/W", "B/s", "GB/s", "FLOP/s"),
        "more",
    ),
}
"""Whether more or less is better for units that decide it; a bare "1" may count a loss or a gain."""
_PREDICTED = "predicted_"


@dataclass(frozen=True)
class Quantity:
    """A quantity, which gives a stored number its meaning, such as "time_per_call".

    Attributes:
        name: its name in the store.
        unit: unit of its values; "1" for a number without unit.
        better: whether more or less of it is better; "neither" if it only describes a run; None if the unit decides.
        loss: whether it is the lost fraction of a throughput or of a time. Two runs of the same code can differ by a
            fraction of the whole throughput (drift), so losses are compared by their difference, not their ratio.
        formula: whether it is computed from published numbers alone.
    """

    name: str
    unit: str
    better: Better | None = None
    loss: bool = False
    formula: bool = False


def _declared() -> Iterator[Quantity]:
    for term in ("environment", "inference", "learner", "transfer", "cell"):
        yield Quantity(f"{term}_time", "s")
    for counted in ("gradient_steps", "environment_steps", "replay_cycles", "cells"):
        yield Quantity(f"{counted}_per_s", "1/s")
    for call in ("insert", "sample", "update"):
        yield Quantity(f"{call}s_per_s", "1/s")
    for traced in ("kernels", "launches", "synchronisations"):
        yield Quantity(f"{traced}_per_iteration", "count", "less")
    for share in ("learner", "link", "shards", "writer"):
        yield Quantity(f"{share}_busy", "1", "neither")
    for returned in (
        "best_return",
        "best_interquartile_mean_return",
        "episode_return",
        "evaluation_return",
        "final_return",
        "interquartile_mean_return",
        "return_at_equal_steps",
        "return_so_far",
    ):
        yield Quantity(returned, "1", "more")
    yield from (
        Quantity("as_printed", "1", "more", formula=True),
        Quantity("cells_per_min", "1/min"),
        Quantity("copy_bandwidth", "B/s"),
        Quantity("cycles", "cycles"),
        Quantity("cycles_per_iteration", "cycles"),
        Quantity("descriptors", "count", "neither"),
        Quantity("failure", "1", "neither"),
        Quantity("environment_steps_to_threshold", "count", "less"),
        Quantity("fraction_of_time", "1", "neither"),
        Quantity("gain", "ratio", "neither"),
        Quantity("gradient_steps_per_processor_s", "1/s"),
        Quantity("here_over_cluster", "1", "neither"),
        Quantity("here_over_here", "1", "neither"),
        Quantity("inferences_per_s", "IPS"),
        Quantity("inferences_per_s_per_watt", "IPS/W"),
        Quantity("learner_inferences_per_s", "IPS"),
        Quantity("null_ratio", "1", "neither"),
        Quantity("overhead_per_cell", "s"),
        Quantity("peak", "FLOP/s"),
        Quantity("peak_memory", "B", "less"),
        Quantity("policy_updates", "count", "neither"),
        Quantity("portability", "1/s"),
        Quantity("prediction", "1/s"),
        Quantity("regret", "1", "less", loss=True),
        Quantity("relative_error", "1", "less"),
        Quantity("resident_bytes", "bytes"),
        Quantity("return_difference", "1", "neither"),
        Quantity("rows", "1", "neither"),
        Quantity("runtime_overhead", "1", "less", loss=True),
        Quantity("saturating_nodes", "1", "more"),
        Quantity("speedup_over_fastest_peer", "1", "more"),
        Quantity("threads", "count", "neither"),
        Quantity("throughput_per_watt", "1/s/W"),
        Quantity("throughput_ratio", "1", "more"),
        Quantity("time_over_memory_floor", "1", "less"),
        Quantity("time_over_pal_tree", "1", "less"),
        Quantity("time_per_call", "s"),
        Quantity("time_per_iteration", "s"),
        Quantity("time_to_threshold", "s"),
    )


QUANTITIES = {quantity.name: quantity for quantity in _declared()}
"""All quantities, by name."""


def declared(name: str) -> Quantity | None:
    """Return the declaration of a quantity; None if it is not declared.

    For `predicted_NAME`, the quantity NAME is returned unless `predicted_NAME` is declared itself.
    """
    return QUANTITIES.get(name) or QUANTITIES.get(name.removeprefix(_PREDICTED))


def better(name: str, unit: str) -> Better | None:
    """Return whether more or less of a quantity is better.

    The quantity's declaration decides, or else the unit, such as "s" (less) or "1/s" (more).

    Returns:
        "more", "less" or "neither"; None if neither declaration nor unit decides.
    """
    known = declared(name)
    return known.better if known and known.better else _BY_UNIT.get(unit)
