"""Declares the suites: groups of stored rows with one purpose, and the quantities that the rows of each may hold.

Each suite is declared once, here. Its value is the text that is stored: `Suite.RUN == "run"`. A row that is created
with a member of `Suite` must hold one of the suite's quantities (`Row` checks this). Rows of earlier versions
and of other programs may have any text as their suite.
"""

from enum import StrEnum
from typing import Self

from placerl.harness.core.quantities import QUANTITIES

_PREDICTED = "predicted_"
_TIME = "time_per_call"
_RATES = "gradient_steps_per_s environment_steps_per_s"
_PEAKS = "peak copy_bandwidth"
_PREDICTIONS = "gradient_steps_per_s prediction"
_LEARNT = "evaluation_return best_return environment_steps_to_threshold time_to_threshold episode_return"
_RUN = f"{_RATES} {_LEARNT} throughput_per_watt"
_VALIDATION = f"{_TIME} {_PEAKS} {_PREDICTIONS} portability regret runtime_overhead"
_ANY = " ".join(QUANTITIES)


class Suite(StrEnum):
    """A group of rows that are measured for one purpose.

    Attributes:
        about: description of its rows.
        quantities: names of the quantities that its rows may hold. `predicted_NAME` is allowed for each NAME of them,
            and "failure" always.
        predicts: whether its rows are predictions. A prediction of more throughput is not a better result.
    """

    about: str
    quantities: frozenset[str]
    predicts: bool

    PROFILE = "profile", "calls of primitives on the devices of this machine", _TIME
    PRECISION_PROFILE = "precision_profile", "the same, with learners of more precisions", _TIME
    SIMULATED_PROFILE = "simulated_profile", "calls of primitives on a simulated device", _TIME
    PREDICTION = "prediction", "what each strategy predicts for a mapping", _PREDICTIONS, True
    PRECISION_PREDICTION = "precision_prediction", "the same, of more precisions", _PREDICTIONS, True
    SIMULATED_PREDICTION = "simulated_prediction", "the same, with a simulated device", _PREDICTIONS, True
    RUN = "run", "a training under a mapping", _RUN
    CLUSTER = "cluster", "a training on several machines", _RUN
    VALIDATION = "validation", "predictions and runs of every mapping", _VALIDATION
    PRECISION_VALIDATION = "precision_validation", "the same, of more precisions", _VALIDATION
    COMPARE = (
        "compare",
        "this project and another library in interleaved rounds",
        f"{_RATES} replay_cycles_per_s inserts_per_s samples_per_s updates_per_s throughput_ratio null_ratio "
        "fraction_of_time episode_return return_at_equal_steps return_difference",
    )
    LEARN = (
        "learn",
        "learning curves over seeds",
        "final_return interquartile_mean_return best_interquartile_mean_return evaluation_return",
    )
    CLAIM = "claim", "an experiment that a paper's claim reads; the row's experiment names it", _ANY
    MACHINE_PEAKS = "roofs", "the peak arithmetic and the bandwidths of a device", _PEAKS
    MEMORY = "memory", "the peak memory of a run's process", "peak_memory"
    ABSENT_PLATFORM = "what-if", "modelled times of a platform that is not here", _TIME
    SCALE = "scale", "a simulated cluster over its nodes", _ANY
    SOAK = "soak", "a training of hours: memory, threads and pace", _ANY
    BENCH_ADAPTERS = "bench-adapters", "this replay in other libraries", _ANY
    BENCH_CARDS = "bench-cards", "predictions of machines from their cards", f"{_TIME} gradient_steps_per_s"
    BENCH_CLUSTER = "bench-cluster", "cells on several machines", _ANY
    BENCH_ENVIRONMENTS = "bench-environments", "steps of environments in every library", _ANY
    BENCH_GPU = "bench-gpu", "gradient steps that stay on a device, and the same called by the host", _ANY
    BENCH_LAYOUTS = "bench-layouts", "layouts of the sum tree", _ANY
    BENCH_LEARNER = "bench-learner", "gradient steps of every library", _ANY
    BENCH_MAPPING = "bench-mapping", "the best choice of each cell, and what strategies lose", _VALIDATION
    BENCH_QUANTIZATION = "bench-quantization", "gradient steps in fixed point", _ANY
    BENCH_REPLAY = "bench-replay", "replay operations of every library", _ANY
    BENCH_RENT = (
        "bench-rent",
        "times to a return, predicted from a card and achieved",
        "evaluation_return time_to_threshold",
    )
    BENCH_RETURNS = (
        "bench-returns",
        "what learners of several mappings have learnt",
        "final_return interquartile_mean_return",
    )
    BENCH_SETTINGS = "bench-settings", "what workloads teach with settings that were tried", _RUN
    BENCH_TIME_TO_RETURN = (
        "bench-time-to-return",
        "seconds until each library reaches a return and holds it",
        "evaluation_return",
    )
    BENCH_WHY = "bench-why", "gains from mending slow training scripts, predicted and achieved", "gain"

    def __new__(cls, name: str, about: str = "", quantities: str = "", predicts: bool = False) -> Self:
        suite = str.__new__(cls, name)
        suite._value_ = name
        suite.about, suite.quantities, suite.predicts = about, frozenset(quantities.split()), predicts
        return suite

    def holds(self, quantity: str) -> bool:
        """Return whether rows of this suite may hold the quantity of this name."""
        return quantity.removeprefix(_PREDICTED) in self.quantities | {"failure"}


PREDICTING = frozenset(suite for suite in Suite if suite.predicts)
