"""A replay that is read item by item."""

from placerl.harness.why.causes.base import Evidence, Finding, below, gain, percent, statement
from placerl.harness.why.causes.timed import gather_s
from placerl.harness.why.piece import Piece
from placerl.harness.why.pieces import Place
from placerl.harness.why.source import Statement, source
from placerl.harness.why.stacks import Frame, Stack

_COLUMNS = 5
_JOINS = {"cat", "stack", "concatenate", "vstack"}
_CONVERTS = {"tensor", "as_tensor", "from_numpy", "array", "asarray", "float", "long", "to"}


def _joins_items(frame: Frame, of: Statement) -> bool:
    """Return whether a statement does nothing but join items, which one before it took one by one."""
    names = {call.name for call in of.calls}
    return (
        bool(names & _JOINS)
        and names <= _JOINS | _CONVERTS
        and any(
            one.per_item and one.functions == of.functions and one.writes & of.reads
            for one in source(frame.file).statements
        )
    )


def takes_items(stack: Stack, place: Place) -> bool:
    """Return whether a stack is in a user's line that takes items one by one."""
    if place.piece in (Piece.ENVIRONMENT, Piece.EVALUATION):
        return False
    for frame in reversed(stack.frames):
        found = statement(frame)
        if found is None:
            continue
        names = {call.name for call in found.calls}
        loops = place.piece is Piece.SAMPLING and len(found.loops) > 0 and "append" in names
        if (
            found.per_item
            or loops
            or _joins_items(frame, found)
            or (place.piece is Piece.SAMPLING and {"sample"} & names and "random." in found.text)
        ):
            return not any("/torch/nn/modules/" in inner.file for inner in below(stack, frame))
    return False


class PerItemReplay:
    """Batches are put together item by item; arrays indexed with all rows at once do the same in one call.

    What remains is the time of such a call for batches of the same size, measured here.
    """

    def find(self, evidence: Evidence) -> Finding | None:
        """As `Cause`."""
        share, lines = evidence.where(takes_items)
        shapes = [
            shape for fact in evidence.facts("optimizer") for shape in fact["shapes"] if len(shape) == 2
        ]
        rows = max((fact["rows"] for fact in evidence.facts("batch")), default=0)
        if not share or not rows or not shapes:
            return None
        batches = evidence.per_second(gradient=True) / max(1, len(evidence.facts("optimizer")))
        remains = min(share, batches * gather_s(rows, shapes[0][1], _COLUMNS))
        because = f"taking items one by one takes {percent(share)}; all rows at once would take {remains:.1%}"
        change = "keep arrays, and index them with all rows at once"
        return Finding("per-item replay", change, gain((share, remains / share)), because, lines)
