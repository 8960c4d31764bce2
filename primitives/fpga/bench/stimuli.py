"""What blocks are given while they are recorded for a bench."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stimuli:
    """What a block is given while it is recorded.

    Attributes:
        streams: for input streams by name, the values to offer, as `simulation.ports` describes them. A stream that is
            not named offers random items without end.
        starts: for input streams by name, the cycle from which on they are offered; 0 by default.
        plain: for inputs that are not streams, integers, one per cycle; the last one stays. An input that is not named
            has a random value in every cycle.
        cycles: length of the record; 0 for a design whose registers alone are tested.
    """

    streams: Mapping[str, Any] = field(default_factory=dict)
    starts: Mapping[str, int] = field(default_factory=dict)
    plain: Mapping[str, list[int]] = field(default_factory=dict)
    cycles: int = 300
