"""Times a library's prioritised replay without training, as a worker that reads jobs and writes results in JSON.

    echo '{"workload": {...}, "batch_size": 32, "seed": 0, "threads": 1, "gradient_steps": 200}' \\
        | PYTHONPATH=baselines baselines/cpprb/.venv/bin/python -P baselines/replay_worker.py baselines/cpprb/replay.py

`replay.py` defines `create(workload, batch_size, seed)`. It returns a buffer with `insert(columns)`, which stores
the (N, ...) arrays of N transitions with the largest priority so far; `sample(batch_size)`, which returns the
keys of the drawn items, their importance weights and their columns, as NumPy arrays; and `update(keys,
td_errors)`. `PACKAGES` names the packages whose versions a result reports, `NOTE` says what else its calls do,
and `STALE_BATCHES` is the number of batches that it may have drawn ahead.

A "gradient step" of a job is what the replay does for one: it inserts the transitions of the workload's update
interval, those of one step of all actors at a time, then samples a batch and updates its priorities. Transitions and
TD errors are random and made before the clock starts. A result's `terms_s` gives the seconds of each kind of call.
Before anything is timed, a buffer is filled with `learning_starts` transitions, and the worker checks that it draws
items by the priorities given. It is then dropped, after a call of its `close()` if it has one, and a new buffer is
filled likewise and timed.
"""

import gc
import sys
import time
from types import ModuleType
from typing import Any

import numpy as np
from job_loop import UnsupportedError, load, serve, versions

POOL = 64  # number of different insertions and TD errors, used in turn
WARM_UP_CYCLES = 50


def transitions(workload: dict[str, Any], number: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return `number` random transitions with the shapes and dtypes of a workload's environment, by column."""
    environment = workload["environment"]
    shape, size = (number, *environment["observation_shape"]), environment["action_size"]
    pixels = len(shape) > 2

    def observations() -> np.ndarray:
        if pixels:
            return rng.integers(256, size=shape, dtype=np.uint8)
        return rng.standard_normal(shape, np.float32)

    continuous = environment["action_kind"] == "continuous"
    return {
        "observation": observations(),
        "action": rng.uniform(-1, 1, (number, size)).astype(np.float32)
        if continuous
        else rng.integers(size, size=number),
        "reward": rng.standard_normal(number, np.float32),
        "next_observation": observations(),
        "terminated": rng.random(number) < 0.01,
    }


class Cycles:
    """Runs a replay through cycles of insertion, sampling and update, and times them.

    Args:
        job: the first request with this workload, batch size, seed and number of threads.
        module: the library's `replay.py`.

    Raises:
        UnsupportedError: the workload has no replay.
    """

    def __init__(self, job: dict[str, Any], module: ModuleType) -> None:
        workload, self.batch_size = job["workload"], job["batch_size"]
        if not workload["replay"]["prioritized"]:
            raise UnsupportedError(f"workload {workload['name']} has no prioritised replay")
        training, self.rng = workload["training"], np.random.default_rng(job["seed"])
        self.actors, self.interval = training["actors"], training["update_interval"]
        self.module, self.job = module, job
        self.pool = [transitions(workload, self.actors, self.rng) for _ in range(POOL)]
        self.td_errors = [np.abs(self.rng.standard_normal(self.batch_size)) for _ in range(POOL)]
        self._fill()
        self._check()
        self._release()
        self._fill()
        self.advance(WARM_UP_CYCLES)

    def _fill(self) -> None:
        """Create a buffer, and insert the transitions that precede learning."""
        workload = self.job["workload"]
        self.buffer = self.module.create(workload, self.batch_size, self.job["seed"])
        self.cycles = self.inserted = self.insertions = 0
        for _ in range(-(-max(workload["training"]["learning_starts"], self.batch_size) // self.actors)):
            self._insert()
        self.due = self.inserted

    def _release(self) -> None:
        """Drop the buffer that was checked.

        The check raised its largest priority so far so much that each later insertion would fill the batches.
        """
        if close := getattr(self.buffer, "close", None):
            close()
        self.buffer = None
        gc.collect()

    def _insert(self) -> None:
        self.buffer.insert(self.pool[self.insertions % POOL])
        self.insertions += 1
        self.inserted += self.actors

    def _check(self) -> None:
        """Raise `AssertionError` unless items are drawn by the priorities given."""
        heavy, weights, columns = self.buffer.sample(self.batch_size)
        heavy = np.array(heavy)
        assert len(heavy) == len(weights) == self.batch_size, "a batch of another size"
        for name, column in self.pool[0].items():
            assert np.asarray(columns[name]).size == self.batch_size * column[0].size, name
        self.buffer.update(heavy, np.full(self.batch_size, 1e9))
        for _ in range(1 + self.module.STALE_BATCHES):
            drawn = np.array(self.buffer.sample(self.batch_size)[0])
        assert np.isin(drawn, heavy).mean() > 0.9, "items of nearly all the priority are drawn too seldom"
        self.buffer.update(heavy, np.ones(self.batch_size))

    def advance(self, gradient_steps: int) -> dict[str, Any]:
        """Run `gradient_steps` cycles, and return the fields of a job's result.

        A cycle does what the replay does for one gradient step: it inserts transitions, samples a batch and updates
        the batch's priorities.
        """
        gc.collect()
        inserted = self.inserted
        terms_s = dict.fromkeys(("insert", "sample", "update"), 0.0)
        clock = time.perf_counter
        begin_s = clock()
        for _ in range(gradient_steps):
            self.cycles += 1
            self.due += self.interval
            start_s = clock()
            # One step of all actors may supply several cycles with transitions.
            while self.inserted < self.due:
                self._insert()
            middle_s = clock()
            keys = self.buffer.sample(self.batch_size)[0]
            late_s = clock()
            self.buffer.update(keys, self.td_errors[self.cycles % POOL])
            end_s = clock()
            terms_s["insert"] += middle_s - start_s
            terms_s["sample"] += late_s - middle_s
            terms_s["update"] += end_s - late_s
        return {
            "gradient_steps": gradient_steps,
            "environment_steps": self.inserted - inserted,
            "wall_s": clock() - begin_s,
            "episode_returns": [],
            "versions": versions(*self.module.PACKAGES),
            "notes": {"replay": self.module.NOTE} if self.module.NOTE else {},
            "terms_s": terms_s,
        }


if __name__ == "__main__":
    BUFFER = load(sys.argv[1])
    serve(lambda job: Cycles(job, BUFFER))
