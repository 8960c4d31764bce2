"""Each adapter trains in its library's environment (`baselines/<name>/requirements.txt`), installed if it is not."""

import pytest

from placerl.harness.compare import adapters

LIMIT_S = 1500


@pytest.mark.slow
@pytest.mark.long  # five libraries are installed
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("library", "algorithm"),
    [
        ("sb3", "dqn"),
        ("sb3", "ddpg"),
        ("tianshou", "dqn"),
        ("tianshou", "ddpg"),
        ("pfrl", "dqn"),
        ("torchrl", "dqn"),
        ("rllib", "dqn"),
        ("rllib", "sac"),
    ],
)
def test_the_library_trains_on_what_its_replay_holds(library: str, algorithm: str) -> None:
    """Guards what an adapter does: batches of real transitions, right weights, and TD errors that come back.

    No return is judged: that a library's agent learns is the library's, and whether one seed of it does depends on the
    processor's rounding. Only SB3's gradient steps are an adapter's own, and are compared with SB3's.
    """
    with adapters.importable_primitives() as package, adapters.start(library, package) as worker:
        made = worker.ask_json({"algorithm": algorithm, "replay": "ours", "capacity": 50_000}, LIMIT_S)
        trained = worker.ask_json({"environment_steps": 900}, LIMIT_S)
        facts = worker.ask_json({"facts": True}, LIMIT_S)
    assert made["version"]
    assert trained["gradient_steps"] >= 300
    assert facts["items"] >= 900
    # of 256 sampled transitions, those that the environment would not make
    assert facts["misfits"] == 0
    # TD errors came back: a priority of its own for most of what was sampled
    assert facts["distinct_priorities"] > 100
    # weights are the batch's own and at most 1
    assert 0 < facts["least_weight"] < 0.999
    assert facts["largest_weight"] == 1
    # rounding alone, 0 and 2e-8 when measured; 0.01 to 0.04 without the weights, with a bootstrap where an episode has
    # ended, or with the actor's sign turned
    assert facts.get("step_difference", 0.0) < 1e-5
    assert ("step_difference" in facts) == (library == "sb3")
