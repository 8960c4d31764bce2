"""Says what a comparison covers: all of a training or a part of it, and with which features of this project."""

from dataclasses import dataclass
from enum import StrEnum

from placerl.harness.mapping import Mapping
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.workloads import Workload

OURS = "placerl"
"""The name of this project in the rows of comparisons."""
FLUSHED = ", subnormals flushed"
"""Added to the name of a baseline that flushes subnormal numbers."""
ONE_THREAD = ", one thread"
"""Added to the name of a baseline that computes with one thread although it may use several cores."""
ENVIRONMENT_STEPS_PER_S = "environment_steps_per_s"
"""The quantity by which on-policy algorithms are judged: the `rate` of their ratios, which others lack."""


class ComparedPart(StrEnum):
    """The part of a training that is compared: all of it, learner and replay, or the replay alone.

    Rows with the results have it in their field `primitive`.
    """

    TRAINING = "training"
    LEARNER_AND_REPLAY = "learner and replay"
    REPLAY = "replay"


@dataclass(frozen=True)
class OurSide:
    """Features that this project uses in a comparison and the other library does not; at most one of them.

    Attributes:
        envpool: whether EnvPool steps this project's environments.
        native_environments: whether C++ code steps them.
        threads_native: whether this project's actors and learner are C++ threads, on native environments; on one core,
            one thread that does both in turns.
        concurrent: whether this project trains in its concurrent loop, whose threads run free.
    """

    envpool: bool = False
    native_environments: bool = False
    threads_native: bool = False
    concurrent: bool = False

    def __str__(self) -> str:
        words = {
            "envpool": "EnvPool",
            "native_environments": "native environments",
            "threads_native": "C++ actors and learner",
            "concurrent": "threads that run free",
        }
        return " and ".join(word for name, word in words.items() if getattr(self, name))


PLAIN = OurSide()


def our_side(item: Workload, mapping: Mapping) -> OurSide:
    """Return how this project trains a workload: with the whole loop in C++ if it can.

    PPO's iterations are native calls on native environments; other algorithms need a prioritised replay for that.
    """
    if str(mapping) == NATIVE_MAPPING and item.replay.prioritized:
        return OurSide(threads_native=True)
    return OurSide(native_environments=True)


def label(
    baseline: str,
    part: ComparedPart = ComparedPart.TRAINING,
    ours: OurSide = PLAIN,
    cores: int = 0,
    mapping: str = "",
) -> str:
    """Return the name that a baseline has in the rows of a comparison.

    Args:
        ours: the features that only this project uses, such as EnvPool, which are added too. A replay alone uses none.
        cores: number of cores that both systems are confined to, also added; 0 if they are not confined.
        mapping: this project's mapping if someone named it, also added: verdicts and headlines are of the mapping that
            the predictions choose. Empty for that one. A replay alone runs under none.
    """
    alone = "" if part is ComparedPart.TRAINING else f", {part} alone"
    used = () if part is ComparedPart.REPLAY else (str(ours), mapping)
    features = " and ".join(filter(None, used))
    with_what = f", this project with {features}" if features else ""
    return f"{baseline}{alone}{with_what}" + (f", on {cores} core{'s' * (cores > 1)}" if cores else "")


def judged_parts(rate: str | None) -> tuple[str, str]:
    """Return which rows hold the two rates of a comparison: their `part`, this project's first.

    Args:
        rate: the `rate` of the ratio of these rates; None if there is no ratio.
    """
    judged = ", environment" if rate == ENVIRONMENT_STEPS_PER_S else ""
    return f"ours{judged}", f"theirs{judged}"
