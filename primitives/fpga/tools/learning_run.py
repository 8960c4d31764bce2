"""Reads the committed recording of one whole learning run of the CartPole agent, episode by episode.

    python -m primitives.fpga.tools.learning_run    # runs the golden model again, for half a minute

The golden model has the RTL's bits in every step, which the slow tests of the agent show for this very run.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = Path(__file__).with_name("learning_run.json")
SEED = 3
EPISODES_AFTER = 10
"""Episodes that are recorded after the one with which the agent stops learning."""


@dataclass(frozen=True)
class LearningRun:
    """A learning run of the agent, `simulated`.

    Attributes:
        seed: of the agent's random numbers.
        learned_step: the environment step with which the agent has solved the task and stops learning.
        steps: for each episode the environment steps from the start to its end.
        returns: the return of each episode.
    """

    seed: int
    learned_step: int
    steps: list[int]
    returns: list[int]


def committed() -> LearningRun:
    """Return the recording that is committed, for which no tool is needed."""
    return LearningRun(**json.loads(FILE.read_text()))


def record(seed: int = SEED, episodes_after: int = EPISODES_AFTER) -> LearningRun:
    """Run the golden model until it has learned, and for some episodes after that."""
    from primitives.fpga.cartpole_agent.golden import GoldenAgents

    agents = GoldenAgents([seed])
    steps: list[int] = []
    returns: list[int] = []
    learned_step = after = 0
    while after <= episodes_after:
        report = agents.step()
        if report["terminated"][0] or report["truncated"][0]:
            steps.append(agents.steps)
            returns.append(int(agents.last_return[0]))
            if not agents.learning[0]:
                learned_step = learned_step or agents.steps
                after += 1
    return LearningRun(seed, learned_step, steps, returns)


if __name__ == "__main__":
    FILE.write_text(json.dumps(asdict(record())) + "\n")
