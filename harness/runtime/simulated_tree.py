"""Options of the sum tree on a simulated FPGA, as trainings and their predictions use it.

It has as many sub-trees (S) as MAP's exploration chooses for the board and the batch size (MAP VI-A2). Its cycles are
simulated, and its priorities are in software (`primitives.sum_tree.fpga_timed`).
"""

from typing import Any

from placerl.harness.mapping import Target
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import ReplayDesign, replay_design
from placerl.primitives.sum_tree.fpga_backend import PipelineOptions

BACKEND = "fpga"


def explored(target: Target, capacity: int, fanout: int, batch_size: int) -> ReplayDesign:
    """Return the replay memory that MAP's exploration chooses for a board.

    Args:
        target: the simulated FPGA; without a location the backend's own board.
        capacity: leaves of the tree.
        fanout: children of a node.
        batch_size: requests in a batch.

    Raises:
        ValueError: there is no such board.
    """
    board = catalogue.device(target.location or PipelineOptions.device)
    return replay_design(batch_size, capacity, fanout, board)


def stated(training: Any) -> dict[str, int]:
    """Return what a row of a training says about its replay: "banks", the sub-trees on a simulated FPGA, if any."""
    banks = getattr(getattr(getattr(training, "replay", None), "tree", None), "banks", None)
    return {} if banks is None else {"banks": banks}


def options(target: Target, capacity: int, fanout: int, batch_size: int) -> dict[str, Any]:
    """Return the options of `sum_tree.create` for a replay management: none unless its target is a simulated FPGA.

    A board that is not in the catalogue gets none either, so that creating the tree fails and names the boards.

    Args:
        target: backend and device of the replay management.
        capacity, fanout, batch_size: as in `explored`.
    """
    if target.backend != BACKEND or target.location not in ("", *catalogue.clocks_hz()):
        return {}
    return {"banks": explored(target, capacity, fanout, batch_size).banks, "contents": "software"}
