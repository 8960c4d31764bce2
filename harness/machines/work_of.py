"""The least work of a primitive, counted here: what a sent file states about it is not trusted."""

from functools import lru_cache

from placerl.harness import workloads
from placerl.harness.pieces.work import Work, copy_work, infer_work, step_work, tree_work


@lru_cache(maxsize=4096)
def work_of(workload: str, batch_size: int, primitive: str) -> Work | None:
    """Return the arithmetic and the memory traffic of a call; None if they do not follow from shapes.

    Args:
        workload: a shipped workload's name.
        primitive: the primitive's name in the table, such as "sum_tree.sample".
    """
    item = workloads.load(workload)
    capacity = item.replay.capacity
    match primitive:
        case "sum_tree.sample" | "sum_tree.update":
            return tree_work(item, batch_size, update=primitive == "sum_tree.update")
        case "sum_tree.insert":
            return tree_work(item, 1, update=True)
        case "storage.gather" | "storage.insert":
            return copy_work(item, batch_size if primitive == "storage.gather" else 1, capacity)
        case "learner.step":
            return step_work(item, batch_size)
        case "actor.infer":
            return infer_work(item)
    return None
