"""Wraps Reverb's server, with a prioritised table, as a replay buffer that `baselines/replay_worker.py` times."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import numpy as np
import reverb
import tensorflow as tf

TABLE = "replay"
PACKAGES = ("dm-reverb", "tensorflow-cpu")
NOTE = (
    "a server in threads of its own beside the clock; batches drawn ahead, two of them, as its manual advises"
)
STALE_BATCHES = 8


class Buffer:
    """A replay in a Reverb server, with settings that favour Reverb.

    Its writer is flushed once per batch of transitions, and its dataset draws batches ahead. Updates of priorities use
    Reverb's plain client, which took a third of the time of its TensorFlow client.
    """

    def __init__(self, workload, batch_size, seed):
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        self._replay, self._batch_size = workload["replay"], batch_size
        self._largest, self._unflushed, self._written = 1.0, 0, 0
        environment = workload["environment"]
        shape = tuple(environment["observation_shape"])
        pixels = tf.uint8 if len(shape) > 1 else tf.float32
        action = tf.TensorSpec((environment["action_size"],), tf.float32)
        if environment["action_kind"] == "discrete":
            action = tf.TensorSpec((), tf.int64)
        signature = {
            "observation": tf.TensorSpec(shape, pixels),
            "action": action,
            "reward": tf.TensorSpec((), tf.float32),
            "next_observation": tf.TensorSpec(shape, pixels),
            "terminated": tf.TensorSpec((), tf.bool),
        }
        table = reverb.Table(
            TABLE,
            sampler=reverb.selectors.Prioritized(self._replay["alpha"]),
            remover=reverb.selectors.Fifo(),
            max_size=self._replay["capacity"],
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature={name: tf.TensorSpec((1, *spec.shape), spec.dtype) for name, spec in signature.items()},
        )
        self._server = reverb.Server([table])
        address = f"localhost:{self._server.port}"
        self._client = reverb.Client(address)
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
        dataset = reverb.TrajectoryDataset.from_table_signature(
            address, TABLE, max_in_flight_samples_per_worker=2 * batch_size, num_workers_per_iterator=1
        )
        self._batches = dataset.batch(batch_size, drop_remainder=True).as_numpy_iterator()

    def insert(self, columns):
        """Store the N transitions of `columns`, (N, ...) each, as one item each with the largest priority so far."""
        for row in range(len(columns["reward"])):
            self._writer.append({name: column[row] for name, column in columns.items()})
            trajectory = {name: column[-1:] for name, column in self._writer.history.items()}
            self._writer.create_item(TABLE, self._largest, trajectory)
            self._unflushed += 1
        if self._unflushed >= self._batch_size:
            self._flush()

    def _flush(self):
        self._writer.flush()
        self._unflushed = 0

    def sample(self, batch_size):
        """Return a batch drawn by priority: keys of the items, importance weights, and columns, as NumPy arrays."""
        if not self._written:
            self._flush()
            self._written = 1
        info, columns = next(self._batches)
        weights = (info.table_size * info.probability) ** -self._replay["beta_initial"]
        return info.key, weights / weights.max(), columns

    def close(self):
        """End the writer and the dataset, which would wait for the server, and then the server."""
        self._writer.close()
        del self._batches
        self._server.stop()

    def update(self, keys, td_errors):
        """Set the priorities of items from their TD errors; the table raises them to the power alpha."""
        priorities = np.abs(td_errors) + self._replay["epsilon"]
        self._largest = max(self._largest, float(priorities.max()))
        self._client.mutate_priorities(TABLE, dict(zip(keys.tolist(), priorities.tolist(), strict=True)))


create = Buffer
