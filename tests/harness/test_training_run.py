from harness import training_run, workload
from harness.mapping import Mapping
from harness.progress import silent


def test_a_short_training_gives_throughput_and_returns_with_their_raw_samples() -> None:
    rows = training_run.train(
        workload.load("cartpole-dqn"), Mapping.parse("torch-native-cpu"), 32, 0, seconds=1.5, report=silent
    )
    by_quantity = {row.quantity: row for row in rows}
    assert set(by_quantity) == {"gradient_steps_per_s", "environment_steps_per_s", "episode_return"}
    gps = by_quantity["gradient_steps_per_s"]
    assert gps.value is not None
    assert min(gps.samples) <= gps.value <= max(gps.samples)
    assert gps.details["gradient_steps"] > 0
    assert set(gps.details["terms_s"]) >= {"environment", "infer", "sample", "learner", "update"}
    returns = by_quantity["episode_return"]
    assert len(returns.samples) == len(returns.details["environment_step"])
    assert returns.details["environment_step"] == sorted(returns.details["environment_step"])
