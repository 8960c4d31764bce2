"""Reads the committed recording of one whole learning run of the CartPole agent, episode by episode.

    python -m placerl.primitives.fpga.tools.learning_run    # simulates the RTL again, for two minutes

The slow tests of the agent compare this run with the golden model.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
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
        cycles: for each episode the clock cycles from the reset until the report of its last step is taken.
    """

    seed: int
    learned_step: int
    steps: list[int]
    returns: list[int]
    cycles: list[int]

    @property
    def learned_cycles(self) -> int:
        """The clock cycles from the reset until the agent has solved the task."""
        return self.cycles[self.steps.index(self.learned_step)]


def committed() -> LearningRun:
    """Return the recording that is committed, for which no tool is needed."""
    return LearningRun(**json.loads(FILE.read_text()))


def record(seed: int = SEED, episodes_after: int = EPISODES_AFTER) -> LearningRun:
    """Simulate the RTL until it has learned, and for some episodes after that; every report is taken at once."""
    from placerl.primitives.fpga import simulation
    from placerl.primitives.fpga.cartpole_agent import CartPoleAgent

    model = simulation.compiled(CartPoleAgent(seed))
    run = LearningRun(seed, 0, [], [], [])
    step = cycle = after = 0
    while after <= episodes_after:
        one = model.run({}, {"reports": 1})
        step, cycle = step + 1, cycle + one.cycles
        report = one.outputs["reports"]
        assert isinstance(report, Mapping)
        if report["terminated"][0] or report["truncated"][0]:
            run.returns.append(step - (run.steps[-1] if run.steps else 0))
            run.steps.append(step)
            run.cycles.append(cycle)
            if not model.read("learning"):
                run = replace(run, learned_step=run.learned_step or step)
                after += 1
    return run


if __name__ == "__main__":
    FILE.write_text(json.dumps(asdict(record())) + "\n")
