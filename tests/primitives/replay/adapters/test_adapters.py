"""Each adapter trains in its library's own environment (`baselines/<name>/requirements.txt`)."""

import pytest

from harness import adapters

LIMIT_S = 1500


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("library", "algorithm", "steps", "gain"),
    [
        ("sb3", "dqn", 5000, 50.0),
        ("sb3", "ddpg", 5000, 200.0),
        ("tianshou", "dqn", 4000, 50.0),
        ("tianshou", "ddpg", 5000, 200.0),
        ("pfrl", "dqn", 5000, 50.0),
        ("rllib", "dqn", 2000, 50.0),
        ("rllib", "sac", 4000, 200.0),
    ],
)
def test_trains_in_the_library(library: str, algorithm: str, steps: int, gain: float) -> None:
    """The gain is in mean episode return, far above what an untrained policy reaches by luck."""
    with adapters.importable_primitives() as package, adapters.start(library, package) as worker:
        made = worker.ask_json({"algorithm": algorithm, "replay": "ours", "capacity": 50_000}, LIMIT_S)
        before = worker.ask_json({"evaluate": True}, LIMIT_S)["return"]
        trained = worker.ask_json({"environment_steps": steps}, LIMIT_S)
        after = worker.ask_json({"evaluate": True}, LIMIT_S)["return"]
        facts = worker.ask_json({"facts": True}, LIMIT_S)
    assert made["version"]
    assert trained["gradient_steps"] >= 1000
    assert after >= before + gain
    # TD errors came back: a priority of its own for most of what was sampled
    assert facts["distinct_priorities"] > 100
    # weights are the batch's own and at most 1
    assert 0 < facts["least_weight"] < 0.999
    assert facts["largest_weight"] == 1
