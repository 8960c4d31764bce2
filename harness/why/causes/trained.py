"""How a script trains: the shapes of its networks, its batches and its environments, as the probe saw them."""

from dataclasses import dataclass
from math import prod
from typing import Any

from placerl.harness.why.causes.base import Evidence
from placerl.harness.why.causes.timed import Network


@dataclass(frozen=True)
class Trained:
    """The largest network of a script, and how it is trained.

    Attributes:
        shapes: shapes of its parameters.
        dtype: their data type.
        rows: batch size.
        copies: environments that step together.
        threads: threads of PyTorch.
        convolutions: of each convolution, the shape of its weights and of an item that it takes, stride and padding.
    """

    shapes: list[list[int]]
    dtype: str
    rows: int
    copies: int
    threads: int
    convolutions: list[dict[str, Any]]

    @property
    def item_width(self) -> int:
        """Return how many numbers an item of a batch has."""
        return prod(self.convolutions[0]["input"]) if len(self.shapes[0]) > 2 else self.shapes[0][-1]

    def network(self, dtype: str = "") -> Network:
        """Return a network of these shapes for timing, by default of the script's data type."""
        return Network(self.shapes, dtype or self.dtype, self.threads, self.convolutions)


def trained_by(evidence: Evidence) -> Trained | None:
    """Return how a script trains; None where its layers are of another kind, or on a device that is not here."""
    optimizers = evidence.facts("optimizer")
    rows = max((fact["rows"] for fact in evidence.facts("batch")), default=0)
    if not optimizers or not rows:
        return None
    fact = max(optimizers, key=lambda one: len(one["shapes"]))
    kinds = {tuple(kind) for kind in fact["kinds"]}
    by_weight = {tuple(one["weight"]): one for one in evidence.facts("convolution")}
    large = [tuple(shape) for shape in fact["shapes"] if len(shape) > 2]
    known = any(len(shape) == 2 for shape in fact["shapes"]) and all(
        len(shape) == 4 and shape in by_weight for shape in large
    )
    if not known or len(kinds) != 1 or next(iter(kinds))[1] != "cpu":
        return None
    copies = max((one["count"] for one in evidence.facts("environment")), default=1)
    threads = max((one["torch"] for one in evidence.facts("threads")), default=1)
    convolutions = [by_weight[shape] for shape in large]
    return Trained(fact["shapes"], next(iter(kinds))[0], rows, copies, threads, convolutions)
