"""Relaxed training: what a run's row holds, and which runs a tier has."""

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers import relaxed_training
from placerl.harness.papers.legs import WHOLE
from placerl.harness.papers.map.figure_10 import PRESAMPLED
from placerl.harness.papers.prl.figure_9 import REALLOCATED
from placerl.harness.papers.relaxed_training import RelaxedTask
from placerl.harness.plan.tiers import TIERS
from tests.harness.old_form import details_of
from tests.harness.papers.rows import claim_of, final_return, frame_of

EXPERIMENTS = [PRESAMPLED, REALLOCATED]


def test_a_run_tells_its_curve():
    curve = next(curve for curve in PRESAMPLED.curves if curve.name == "D=10")
    task = RelaxedTask(PRESAMPLED, "cartpole-ddpg", 400, step_s=1e-4)
    row = relaxed_training.train(task, curve, 0, WHOLE, silent)
    assert row.provenance is Provenance.MEASURED
    assert (row.backend, row.device) == ("D=10", PRESAMPLED.mapping)
    assert details_of(row)["experiment"] == "MAP-F10"
    assert details_of(row)["options"] == {"presampled_batches": 10}
    assert len(details_of(row)["mean_returns"]) == len(details_of(row)["environment_steps"])
    assert details_of(row)["environment_steps"][-1] >= 1_000 + 400
    assert row.value == sum(row.samples) / len(row.samples)


@pytest.mark.parametrize(
    ("tier", "curves", "workloads"), [("quick", 5, 1), ("standard", 7, 2), ("full", 7, 3)]
)
def test_every_tier_has_five_seeds_of_every_curve_on_every_workload(tier, curves, workloads):
    keys = [cell.key for key in ("MAP-F10", "PRL-F9") for cell in claim_of(key).cells(TIERS[tier])]
    assert len(keys) == len(set(keys)) == 5 * curves * workloads


def test_the_curves_of_an_experiment_start_with_what_they_are_compared_with():
    assert [experiment.curves[0].name for experiment in EXPERIMENTS] == ["D=0", "two actors"]
    assert not PRESAMPLED.curves[0].options["presampled_batches"]
    for experiment in EXPERIMENTS:
        reference, *others = (curve.options for curve in experiment.curves)
        assert all(options.keys() >= reference.keys() and options != reference for options in others)


def test_runs_of_another_length_are_not_compared(tmp_path):
    """A longer tier that was interrupted: the first seeds of its runs are newer than those of the whole shorter one."""

    def of(seeds, gradient_steps):
        return [
            final_return("cartpole-ddpg", curve.name, 1.0, seed, "MAP-F10", gradient_steps)
            for seed in seeds
            for curve in PRESAMPLED.curves
        ]

    def lengths(*rows):
        runs = relaxed_training.runs_of(frame_of(tmp_path / str(len(rows)), *rows), PRESAMPLED)
        return {
            (workload, row.parameters.gradient_steps)
            for workload, curves in runs.items()
            for seeds in curves.values()
            for row in seeds.values()
        }

    short = of(range(5), 6_000)
    assert lengths(*short, *of(range(4), 20_000)) == {("cartpole-ddpg", 6_000)}
    assert lengths(*of(range(5), 20_000), *short) == {("cartpole-ddpg", 20_000)}
    assert lengths(*short[:20], *of([4], 20_000)) == set(), "five seeds, not of one length"


def test_the_seeds_that_tell_two_curves_apart():
    """Means 10 apart, both variances 25: 2 * 2.8^2 * 25 / 100 = 3.92."""
    reference = np.array([0.0, 5.0, 10.0])
    assert relaxed_training.seeds_to_tell(reference + 10, reference) == 4
    assert relaxed_training.seeds_to_tell(reference + 1, reference) == 392
    assert relaxed_training.seeds_to_tell(reference + 1000, reference) == 2
    assert relaxed_training.seeds_to_tell(reference, reference) is None
