"""PRL's performance model, Equations 2 to 6, rebuilt from its sentences.

REBUILT: the equations are garbled in the text that this project has; what is here follows the sentences around
them (PRL 5.1, 5.2) and is not a transcription.

| equation | sentence that it is rebuilt from |
|---|---|
| 2 | resources of a stage are tuned such that all pipeline stages take equally long |
| 3 to 5 | latency of a single stage x (batch size + depth of the pipeline) + communication |
| 6 | sampling, then training beside insertion and the other replay work, then the priority update |

Equation 1 (sampling) is the sum tree's; 7 (EPS), 8 (portability) and 9 (code divergence) are in `metrics`.
The authors' public code has T_iteration = T_sample + max(T_update + T_insert, T_learner) instead, without
communication: `published_iteration_s`.
"""

from collections.abc import Mapping, Sequence


def balanced(operations: Sequence[float], units: int) -> tuple[int, ...]:
    """Equation 2: multiply-accumulate units for each stage, so that the slowest stage is as fast as it can be.

    Args:
        operations: of each stage for one experience, more than 0.
        units: in all, at least one a stage.

    Returns:
        Units of each stage, at least 1 each, together at most `units`.

    Raises:
        ValueError: fewer units than stages, or a stage without operations.
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
    """Equations 3 to 5: seconds of a batch in a pipeline, filling and draining included.

    Args:
        stage_s: of the slowest stage, for one experience.
        batch_size: experiences that one pipeline takes.
        depth: stages: levels of the sum tree (RM), or layer propagations (Learner).
        communication_s: to bring the inputs from the device that made them.
    """
    return stage_s * (batch_size + depth) + communication_s


def iteration_s(sample_s: float, learner_s: float, insert_s: float, update_s: float) -> float:
    """Equation 6: the critical path is sampling, training, priority update; insertion overlaps with training.

    Each argument includes the communication that it waits for.
    """
    return sample_s + max(learner_s, insert_s) + update_s


def published_iteration_s(sample_s: float, learner_s: float, insert_s: float, update_s: float) -> float:
    """The iteration as PRL's public code has it, where the priority update overlaps with training too."""
    return sample_s + max(update_s + insert_s, learner_s)


def best_streams(times_s: Mapping[int, float], batch_size: int) -> int:
    """The number of streams with the shortest gradient step of those recorded (PRL 5.1).

    Args:
        times_s: seconds of a gradient step by its streams, each on a sub-batch; at least one.
        batch_size: most streams.

    Returns:
        Streams; of equals, the fewest.

    Raises:
        ValueError: streams outside 1 to the batch size, or nothing recorded.
    """
    if not times_s or not all(1 <= streams <= batch_size for streams in times_s):
        raise ValueError(f"streams: found {sorted(times_s)}; allowed: 1 to the batch size, {batch_size}")
    return min(times_s, key=lambda streams: (times_s[streams], streams))
