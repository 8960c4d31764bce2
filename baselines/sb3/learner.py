"""Times gradient steps of Stable-Baselines3, its `train()`, on transitions from the workload's environment."""

import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import worker

VERSION = f"stable-baselines3 {version('stable-baselines3')}"
NOTE = "a call of train(), which also samples its replay, or deals out minibatches, and logs"


class Learner:
    """Takes gradient steps on batches from SB3's own replay. For PPO, a step is an update of several gradient steps."""

    def __init__(self, workload, batch_size, threads):
        if workload["network"]["kind"] == "nature_cnn":
            workload["replay"]["capacity"] = 2000  # the time does not depend on a million stored frames
        job = {"workload": workload, "batch_size": batch_size, "seed": 0, "threads": threads}
        self._agent = worker.Training(job)
        self._model, self._batch_size = self._agent.model, batch_size

    def checksum(self):
        """Return the sum of all parameters, which changes when the model learns."""
        return float(sum(parameter.detach().double().sum() for parameter in self._model.policy.parameters()))

    def time_steps(self, count):
        """Call SB3's `train()` `count` times, and return the seconds that the calls took."""
        model, on_policy = self._model, self._agent.on_policy
        start_s = time.perf_counter()
        for _ in range(count):
            if on_policy:
                model.train()
            else:
                model.train(gradient_steps=1, batch_size=self._batch_size)
        return time.perf_counter() - start_s


create = Learner
