"""Says which piece of a training a stack belongs to, by the table `pieces.toml` and the user's own lines."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from placerl.harness.core.toml_models import TomlTable, check, read_toml
from placerl.harness.why.piece import Piece
from placerl.harness.why.source import Call, Source, Statement, source
from placerl.harness.why.stacks import Frame

_TABLE = Path(__file__).with_name("pieces.toml")
_OTHERS_CODE = re.compile(
    r"/site-packages/|/dist-packages/|/lib(64)?/python3|^<|/why/probe/sitecustomize\.py$"
)
_ENVIRONMENT_CLASS = re.compile(r"(Env|Wrapper)\b")


def is_users(frame: Frame) -> bool:
    """Return whether a frame is in a file of the user, and not in a library's."""
    return not _OTHERS_CODE.search(frame.file)


class FrameRule(TomlTable):
    """Frames of a library that belong to a piece.

    Attributes:
        path: pattern that part of the file's path matches.
        piece: the piece.
        function: pattern that the function's whole name matches.
        whole: whether the outermost such frame decides, before all others.
    """

    path: str
    piece: Piece
    function: str = ".*"
    whole: bool = False

    def fits(self, frame: Frame) -> bool:
        """Return whether a frame is one of these."""
        return bool(re.search(self.path, frame.file) and re.fullmatch(self.function, frame.function))


class Copies(TomlTable):
    """Calls that only move or convert data.

    Attributes:
        calls: pattern of their names.
    """

    calls: str


class Table(TomlTable):
    """The contents of `pieces.toml`.

    Attributes:
        calls: pattern of the names of calls and functions, by piece; the first that matches decides.
        owners: pattern of what such a call is made on, by piece.
        copies: calls that only move or convert data.
        frames: frames of libraries.
    """

    calls: dict[Piece, str]
    owners: dict[Piece, str]
    copies: Copies
    frames: tuple[FrameRule, ...]


@cache
def table() -> Table:
    """Return the contents of `pieces.toml`."""
    return check(Table, read_toml(_TABLE), _TABLE)


@cache
def _library(frame: Frame, whole: bool) -> Piece | None:
    rules = (rule for rule in table().frames if rule.whole == whole)
    return next((rule.piece for rule in rules if rule.fits(frame)), None)


def moves(statement: Statement) -> bool:
    """Return whether all that a statement calls moves or converts data."""
    named = [re.fullmatch(table().copies.calls, call.name) for call in statement.calls]
    return bool(named) and all(named)


class Lines:
    """What the lines of a user's file are for.

    Args:
        of: the file.
    """

    def __init__(self, of: Source) -> None:
        self._source = of

    @cached_property
    def _stepping(self) -> set[str]:
        """Names of functions that step an environment: whole loops, whatever they are called."""
        return {
            one.functions[-1].rpartition(".")[2]
            for one in self._source.statements
            if one.functions and any(call.steps_environment() for call in one.calls)
        }

    @cached_property
    def _flows(self) -> dict[int, Piece]:
        """Pieces by first line, from where results go."""
        steps, losses = [], []
        for one in self._source.statements:
            if any(call.steps_environment() and call.name != "reset" for call in one.calls):
                steps.append(one)
            if any(call.name in ("backward", "grad") for call in one.calls):
                losses.append(one)
        flows = {one.first: Piece.GRADIENT for one in self._source.upstream(losses)}
        return flows | {one.first: Piece.INFERENCE for one in self._source.upstream(steps)}

    def piece(self, line: int, is_leaf: bool) -> Piece | None:
        """Return the piece of a line; None if its callers decide.

        Args:
            is_leaf: whether the line itself ran, or what is written in C and called there, and no Python function.
        """
        statement = self._source.at(line)
        if statement is None:
            return None
        called, function = self._called(statement), self._function(statement)
        undecided = called is None and function in (None, Piece.GRADIENT, Piece.INFERENCE)
        if is_leaf and undecided and moves(statement) and not statement.subscripts:
            return Piece.TRANSFERS
        return called or function or self._flows.get(statement.first)

    def _called(self, statement: Statement) -> Piece | None:
        if any(call.steps_environment() for call in statement.calls):
            return Piece.ENVIRONMENT
        if any(call.steps_optimizer() for call in statement.calls):
            return Piece.GRADIENT
        return next((piece for call in statement.calls if (piece := self._named(call))), None)

    def _named(self, call: Call) -> Piece | None:
        for piece, names in table().calls.items():
            owner = table().owners.get(piece, ".*")
            if re.fullmatch(names, call.name) and (not call.owner or re.fullmatch(owner, call.owner)):
                return piece if piece is Piece.EVALUATION or call.name not in self._stepping else None
        return None

    def _function(self, statement: Statement) -> Piece | None:
        if not statement.functions:
            return None
        if any(_ENVIRONMENT_CLASS.search(base) for base in statement.bases):
            return Piece.ENVIRONMENT
        return self._named(Call(statement.functions[-1].rpartition(".")[2], "", 0))


@cache
def _lines(path: str) -> Lines:
    return Lines(source(path))


@dataclass(frozen=True)
class Place:
    """Where a stack is in the training.

    Attributes:
        piece: the piece it belongs to.
        frame: the user's innermost frame, or else the stack's innermost.
    """

    piece: Piece
    frame: Frame


def place(frames: Sequence[Frame]) -> Place:
    """Return which piece a stack belongs to, and the user's line that it comes from.

    Args:
        frames: the stack, outermost first.
    """
    users = [frame for frame in frames if is_users(frame)]
    return Place(_piece(frames), users[-1] if users else frames[-1])


def _piece(frames: Sequence[Frame]) -> Piece:
    for frame in frames:
        whole = _library(frame, True)
        if whole is None and is_users(frame):
            name = frame.function.rpartition(".")[2]
            whole = Piece.EVALUATION if re.fullmatch(table().calls[Piece.EVALUATION], name) else None
        if whole is not None:
            return whole
    for frame in reversed(frames):
        users = is_users(frame)
        piece = _lines(frame.file).piece(frame.line, frame is frames[-1]) if users else _library(frame, False)
        if piece is not None:
            return piece
    return Piece.OTHER
