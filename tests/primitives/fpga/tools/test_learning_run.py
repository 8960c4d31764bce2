import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cartpole_agent import AgentSettings
from placerl.primitives.fpga.cartpole_agent.golden import GoldenAgents
from placerl.primitives.fpga.tools.learning_run import EPISODES_AFTER, committed

GOLDEN_STEPS = 1000


def test_the_recording_begins_as_the_golden_model_does() -> None:
    run = committed()
    agents, ends = GoldenAgents([run.seed]), []
    for _ in range(GOLDEN_STEPS):
        report = agents.step()
        if report["terminated"][0] or report["truncated"][0]:
            ends.append((agents.steps, int(agents.last_return[0])))
    assert len(ends) > 20
    assert list(zip(run.steps, run.returns, strict=True))[: len(ends)] == ends


def test_the_recording_goes_on_until_the_task_is_solved() -> None:
    run = committed()
    at = run.steps.index(run.learned_step)
    assert run.returns[at - 15 : at + 1] == [500] * 16
    assert len(run.returns) == at + 1 + EPISODES_AFTER


def test_an_episode_takes_the_cycles_of_its_steps() -> None:
    """Those of a step are as in `docs/cartpole-agent.md`; the first steps of the agent have no gradient step."""
    run = committed()
    warm = AgentSettings().warm_steps
    rest = zip(run.steps, run.steps[1:], run.cycles, run.cycles[1:], strict=False)
    for before, after, began, ended in rest:
        if before >= warm:
            assert ended - began == (after - before) * (1007 if after <= run.learned_step else 163) + 22
