"""PRL's iteration, Equation 6, reconstructed from the text around it.

RECONSTRUCTED: the equation is garbled in the copy of the paper that this project has. `iteration_s` follows the
sentences around it (PRL 5.1, 5.2): sampling, then training in parallel with insertion and the other replay work, then
the priority update.

Equation 1 (sampling) is the sum tree's; 2 to 5 give the times of pipelines, which are measured or simulated here; 7
(EPS), 8 (portability) and 9 (code divergence) are in `metrics`. The authors' public code has T_iteration = T_sample +
max(T_update + T_insert, T_learner) instead, without communication: `published_iteration_s`.
"""

from collections.abc import Mapping


def iteration_s(sample_s: float, learner_s: float, insert_s: float, update_s: float) -> float:
    """Return the seconds of an iteration: sampling, training and priority update in turn (Equation 6).

    Insertion runs in parallel with training, so only the longer of the two counts. Each argument, in seconds,
    includes the communication that it waits for.
    """
    return sample_s + max(learner_s, insert_s) + update_s


def published_iteration_s(sample_s: float, learner_s: float, insert_s: float, update_s: float) -> float:
    """Return the seconds of an iteration by PRL's public code: insertion and priority update overlap with training.

    The iteration is sampling, then the longer of two: priority update with insertion, or training. The code counts no
    communication.
    """
    return sample_s + max(update_s + insert_s, learner_s)


def best_streams(times_s: Mapping[int, float], batch_size: int) -> int:
    """Return the number of parallel streams with which a gradient step was fastest (PRL 5.1).

    Each stream works on a part of the batch.

    Args:
        times_s: seconds of a gradient step by number of streams; at least one.
        batch_size: upper limit of streams.

    Returns:
        Number of streams; among equal times the fewest.

    Raises:
        ValueError: a number of streams is outside 1 to the batch size, or nothing was recorded.
    """
    if not times_s or not all(1 <= streams <= batch_size for streams in times_s):
        raise ValueError(f"streams: found {sorted(times_s)}; allowed: 1 to the batch size, {batch_size}")
    return min(times_s, key=lambda streams: (times_s[streams], streams))
