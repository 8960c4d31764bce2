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
    """Return Equation 2: multiply-accumulate units per stage that make the slowest stage as fast as possible.

    Args:
        operations: operations of each stage for one experience, more than 0.
        units: total units, at least one per stage.

    Returns:
        Units of each stage, at least 1 each, at most `units` in total.

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
    """Return Equations 3 to 5: seconds of a batch in a pipeline, including filling and draining.

    Args:
        stage_s: seconds of the slowest stage for one experience.
        batch_size: experiences per pipeline.
        depth: stages: levels of the sum tree (RM), or layer propagations (learner).
        communication_s: seconds to bring the inputs from the device that made them.
    """
    return stage_s * (batch_size + depth) + communication_s


def iteration_s(sample_s: float, learner_s: float, insert_s: float, update_s: float) -> float:
    """Return Equation 6: the critical path of sampling, training and priority update; insertion overlaps with
    training.

    Each argument includes the communication that it waits for.
    """
    return sample_s + max(learner_s, insert_s) + update_s


def published_iteration_s(sample_s: float, learner_s: float, insert_s: float, update_s: float) -> float:
    """Return the iteration's seconds as in PRL's public code, where the priority update also overlaps with
    training.
    """
    return sample_s + max(update_s + insert_s, learner_s)


def best_streams(times_s: Mapping[int, float], batch_size: int) -> int:
    """Return the number of streams with the shortest recorded gradient step (PRL 5.1).

    Args:
        times_s: seconds of a gradient step by number of streams, each on a sub-batch; at least one.
        batch_size: upper limit of streams.

    Returns:
        Number of streams; among equal times the fewest.

    Raises:
        ValueError: a number of streams is outside 1 to the batch size, or nothing was recorded.
    """
    if not times_s or not all(1 <= streams <= batch_size for streams in times_s):
        raise ValueError(f"streams: found {sorted(times_s)}; allowed: 1 to the batch size, {batch_size}")
    return min(times_s, key=lambda streams: (times_s[streams], streams))
