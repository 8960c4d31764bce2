"""The whole CartPole agent in hardware next to its golden model, bit by bit and step by step."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.cartpole_agent import AgentSettings, CartPoleAgent
from placerl.primitives.fpga.cartpole_agent.golden import GoldenAgents
from placerl.primitives.fpga.simulation.base import SimulatedRun
from placerl.primitives.fpga.tools.learning_run import committed

pytestmark = pytest.mark.skipif(
    bool(simulation.unavailable_reason()), reason=simulation.unavailable_reason() or "-"
)

# In 500 steps the replay is overwritten, the target network copied, exploration ended, and the task "solved".
SMALL = AgentSettings(
    hidden=4,
    batch=4,
    levels=6,
    warm_steps=32,
    target_period=8,
    explore_decay=256,
    explore_last=511,
    episode_steps=20,
    solved_episodes=6,
)
SOLVED_STEP = 12_936  # of the agent with seed 3
FIELDS = ("values", "action", "state", "terminated", "truncated")


def compare(run: SimulatedRun, golden: GoldenAgents, steps: int) -> None:
    """Step the golden model, and compare each report of the hardware with its own."""
    reports = run.outputs["reports"]
    for step in range(steps):
        wanted = golden.step()
        for field in FIELDS:
            np.testing.assert_array_equal(
                reports[field][step], wanted[field][0], err_msg=f"{field}, step {step}"
            )


@pytest.mark.timeout(300)
def test_every_step_is_the_golden_models() -> None:
    steps = 500
    model = simulation.compiled(CartPoleAgent(10, SMALL))
    golden = GoldenAgents([10], SMALL)
    compare(model.run({}, {"reports": steps // 2}), golden, steps // 2)
    assert golden.learning[0]
    # The agent waits until a report is taken.
    slow = model.run({}, {"reports": steps // 2}, ready={"reports": [False] * 999 + [True]})
    compare(slow, golden, steps // 2)
    assert not golden.learning[0]
    model.step(2)
    for name in ("episodes", "last_return", "learning"):
        assert model.read(name) == getattr(golden, name)[0]
    assert model.read("steps") == steps


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_whole_learning_run_and_a_hundred_episodes_after_it_are_the_golden_models() -> None:
    steps = SOLVED_STEP + 50_000
    model, golden = simulation.compiled(CartPoleAgent(3)), GoldenAgents([3])
    run = model.run({}, {"reports": steps})
    compare(run, golden, steps)
    ends = np.flatnonzero(run.outputs["reports"]["terminated"] | run.outputs["reports"]["truncated"])
    recorded = committed()
    assert recorded.learned_step == SOLVED_STEP
    assert (ends[: len(recorded.steps)] + 1).tolist() == recorded.steps
    taken = run.output_cycles["reports"][np.array(recorded.steps) - 1]
    assert (taken + 1).tolist() == recorded.cycles
    returns = np.diff(ends[ends >= SOLVED_STEP - 1])
    assert len(returns) >= 99
    assert returns.mean() >= 475
