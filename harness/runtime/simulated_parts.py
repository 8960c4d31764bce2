"""The simulated parts of a mapping: the provenance of their seconds, for all rows that state them, and their design.

The time of a simulated backend is a number of clock cycles. If its own controllers count them, the time is
"simulated". If a formula gives some of the counts, as for the stream and reduction units of the FPGA's
learner, it is "modelled". Each backend's module states which (`primitives.backend`). The time of every other
backend is "measured".

The sum tree on a simulated FPGA has as many sub-trees (S) as MAP's exploration chooses for the board and the batch size
(MAP VI-A2). Its cycles are simulated, and its priorities are in software (`primitives.sum_tree.fpga_timed`).
"""

from types import ModuleType
from typing import Any

from placerl.harness.core.provenance import Provenance, weakest
from placerl.harness.mapping import Mapping, Target
from placerl.primitives import backend, learner, sum_tree
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore.map_replay import ReplayDesign, replay_design
from placerl.primitives.sum_tree.fpga_backend import PipelineOptions

FPGA = "fpga"


def of_mapping(mapping: Mapping) -> Provenance:
    """Return the provenance of the time of a training under a mapping: measured, simulated or modelled.

    It is the weaker one of the learner's and the replay management's; "measured" is the strongest.
    """
    return weakest(of_learner(mapping.learner), of_rmm(mapping.rmm))


def is_simulated(mapping: Mapping) -> bool:
    """Return whether a mapping uses a simulated device, so that trainings under it report virtual time."""
    return of_mapping(mapping) is not Provenance.MEASURED


def of_learner(target: Target) -> Provenance:
    """Return the provenance of the time of a learner's step on a backend: measured, simulated or modelled."""
    return _of(learner, target)


def of_rmm(target: Target) -> Provenance:
    """Return the provenance of the time of replay management on a backend: measured, simulated or modelled."""
    return _of(sum_tree, target)


def _of(primitive: ModuleType, target: Target) -> Provenance:
    if target.backend not in backend.names(primitive.__name__):
        return Provenance.MEASURED  # creating it fails, and says so
    status = backend.status(primitive.__name__, target.backend)
    if not status.simulated:
        return Provenance.MEASURED
    return Provenance.MODELLED if status.modelled else Provenance.SIMULATED


def explored_tree(target: Target, capacity: int, fanout: int, batch_size: int) -> ReplayDesign:
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


def tree_options(target: Target, capacity: int, fanout: int, batch_size: int) -> dict[str, Any]:
    """Return the options of `sum_tree.create` for a replay management: none unless its target is a simulated FPGA.

    A board that is not in the catalogue gets none either, so that creating the tree fails and names the boards.

    Args:
        target: backend and device of the replay management.
        capacity, fanout, batch_size: as in `explored_tree`.
    """
    if target.backend != FPGA or target.location not in ("", *catalogue.clocks_hz()):
        return {}
    return {"banks": explored_tree(target, capacity, fanout, batch_size).banks, "contents": "software"}


def tree_columns(training: Any) -> dict[str, int]:
    """Return what a row of a training says about its replay: "banks", the sub-trees on a simulated FPGA, if any."""
    banks = getattr(getattr(getattr(training, "replay", None), "tree", None), "banks", None)
    return {} if banks is None else {"banks": banks}
