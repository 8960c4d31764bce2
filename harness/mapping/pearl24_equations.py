"""PRL's performance model, Equations 2 to 6, reconstructed from the text around them.

RECONSTRUCTED: the equations are garbled in the copy of the paper that this project has. The functions here follow
the sentences around the equations (PRL 5.1, 5.2); they are not a transcription.

| equation | sentence that it is reconstructed from |
|---|---|
| 2 | resources of a stage are tuned such that all pipeline stages take equally long |
| 3 to 5 | latency of a single stage x (batch size + depth of the pipeline) + communication |
| 6 | sampling, then training in parallel with insertion and the other replay work, then the priority update |

Equation 1 (sampling) is the sum tree's; 7 (EPS), 8 (portability) and 9 (code divergence) are in `metrics`.
The authors' public code has T_iteration = T_sample + max(T_update + T_insert, T_learner) instead, without
communication: `published_iteration_s`.
"""

from collections.abc import Mapping, Sequence


def balanced(operations: Sequence[float], units: int) -> tuple[int, ...]:
    """Return the multiply-accumulate units for each pipeline stage that make the slowest stage fastest (Equation 2).

    Args:
        operations: operations of each stage for one experience, more than 0.
        units: total units, at least one per stage.

    Returns:
        Units of each stage, at least 1 each, `units` in total.

    Raises:
        ValueError: there are fewer units than stages, or a stage has no operations.
    """
    if not operations or min(operations) <= 0:
        raise ValueError(
            f"operations: found {list(operations)}; allowed: at least one stage, more than 0 each"
        )
    if units < len(operations):
        raise ValueError(f"units: found {units}; allowed: at least one a stage, {len(operations)}")
    shares = [1] * len(operations)
    for _ in range(units - len(operations)):
        slowest = max(range(len(operations)), key=lambda stage: operations[stage] / shares[stage])
        shares[slowest] += 1
    return tuple(shares)


def pipeline_s(stage_s: float, batch_size: int, depth: int, communication_s: float = 0.0) -> float:
    """Return the seconds that a batch takes in a pipeline, with filling and draining (Equations 3 to 5).

    Args:
        stage_s: seconds of the slowest stage for one experience.
        batch_size: experiences per pipeline.
        depth: stages: levels of the sum tree for replay management, or layer propagations for the learner.
        communication_s: seconds to bring the inputs from the device that made them.
    """
    return stage_s * (batch_size + depth) + communication_s


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
