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

from collections.abc import Callable, Sequence


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


def best_streams(step_s: Callable[[int], float], batch_size: int) -> tuple[int, float]:
    """The number of streams with the shortest gradient step (PRL 5.1).

    PRL records the latency of every number from 1 to the batch size; here it is the powers of two among them.

    Args:
        step_s: seconds of a gradient step with so many streams, each on a sub-batch.
        batch_size: most streams, at least 1.

    Returns:
        Streams and the seconds of a step; of equals, the fewest streams.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: found {batch_size}; allowed: at least 1")
    tried = [1 << power for power in range(batch_size.bit_length())]
    times_s = {streams: step_s(streams) for streams in tried}
    streams = min(tried, key=lambda number: (times_s[number], number))
    return streams, times_s[streams]
