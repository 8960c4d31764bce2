"""Training with batches sampled ahead: what a run's row holds."""

from harness import relaxed_training
from harness.progress import silent
from harness.provenance import Provenance


def test_a_run_tells_its_curve():
    curve = next(curve for curve in relaxed_training.CURVES if curve.name == "D=10")
    row = relaxed_training.train("cartpole-ddpg", 400, curve, 0, silent)
    assert row.provenance is Provenance.MEASURED
    assert row.details["options"] == {"presampled_batches": 10}
    assert len(row.details["mean_returns"]) == len(row.details["environment_steps"])
    assert row.details["environment_steps"][-1] >= 1_000 + 400
    assert row.value == sum(row.samples) / len(row.samples)


def test_every_tier_has_five_seeds_of_every_curve():
    for tier, tasks in relaxed_training.TASKS.items():
        keys = [key for key, _, _ in relaxed_training.experiments(tier)]
        curves = 5 if tier == "quick" else 7
        assert len(keys) == len(set(keys)) == 5 * curves * len(tasks)
