"""Averages vectors over several processes of one machine, through shared memory."""

from multiprocessing.context import BaseContext

import numpy as np


class Average:
    """The average of a vector over N processes, which all call it, as MPI's all-reduce.

    Each process averages one part of the vector, and then reads all parts.

    Args:
        context: what starts the processes; they inherit this object, so it has to fork.
        length: most elements of a vector.
    """

    def __init__(self, context: BaseContext, processes: int, length: int) -> None:
        shape = processes + 1, length  # the last row is the average
        self._rows = np.frombuffer(context.RawArray("f", processes * length + length), np.float32).reshape(
            shape
        )
        self._barrier = context.Barrier(processes)

    def __call__(self, rank: int, vector: np.ndarray) -> None:
        """Replace a vector by its average over all processes.

        Args:
            rank: number of the calling process, from 0.
            vector: (length,) float32; all processes have as many elements.

        Raises:
            threading.BrokenBarrierError: a process called `abort`.
        """
        *rows, average = self._rows[:, : len(vector)]
        rows[rank][:] = vector
        self._barrier.wait()
        begin, end = (len(vector) * place // len(rows) for place in (rank, rank + 1))
        average[begin:end] = self._rows[:-1, begin:end].mean(0)
        self._barrier.wait()
        vector[:] = average

    def abort(self) -> None:
        """Let every process that waits, or will, raise an error."""
        self._barrier.abort()
