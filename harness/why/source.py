"""Reads in a user's own source what the lines of a training loop are for.

A line's purpose follows from the calls on it (`loss.backward()`), from the function that it stands in
(`ReplayBuffer.sample`), or from where its result goes: what makes the argument of an environment's `step` is inference,
and what makes a loss is part of the gradient step.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_OPTIMIZER = re.compile(r"opt|sched|scaler", re.IGNORECASE)
_ENVIRONMENT = re.compile(r"env|task|sim", re.IGNORECASE)
_COMPOUND = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass(frozen=True)
class Call:
    """A call on a line.

    Attributes:
        name: the last part of what is called, such as "step".
        owner: what stands before it, such as "envs"; empty for a plain function.
        arguments: how many there are.
    """

    name: str
    owner: str
    arguments: int

    def steps_environment(self) -> bool:
        """Return whether this is an environment's step or reset."""
        if self.name in ("step", "step_wait"):
            return self.arguments > 0 and not _OPTIMIZER.search(self.owner)
        return self.name == "reset" and bool(_ENVIRONMENT.search(self.owner))

    def steps_optimizer(self) -> bool:
        """Return whether this is an optimizer's step."""
        return self.name == "step" and not self.steps_environment()


@dataclass(frozen=True)
class Statement:
    """A statement without statements inside, or the head of one that has some.

    Attributes:
        first, last: its lines, from 1.
        calls: the calls in it.
        reads, writes: names of the variables.
        loops: first lines of the loops and comprehensions around or in it, outermost first.
        subscripts: whether it takes elements of something.
        per_item: whether it takes elements one by one in a comprehension, or transposes a list of items.
        functions: the functions around it with their classes, outermost first, such as "Buffer.sample".
        bases: base classes of the class around it, as written.
        text: the first line.
    """

    first: int
    last: int
    calls: tuple[Call, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    loops: tuple[int, ...]
    subscripts: bool
    per_item: bool
    functions: tuple[str, ...]
    bases: tuple[str, ...]
    text: str


def _call(node: ast.Call) -> Call:
    named, owner = node.func, ""
    if isinstance(named, ast.Attribute):
        owner, name = ast.unparse(named.value), named.attr
    else:
        name = named.id if isinstance(named, ast.Name) else ""
    return Call(name, owner, len(node.args) + len(node.keywords))


def _takes_items(node: ast.AST) -> bool:
    """Return whether a comprehension takes elements at its own variables, or a call is `zip(*items)`."""
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        targets = {
            name.id for one in node.generators for name in ast.walk(one.target) if isinstance(name, ast.Name)
        }
        taken = (inner.slice for inner in ast.walk(node.elt) if isinstance(inner, ast.Subscript))
        return any(
            isinstance(name, ast.Name) and name.id in targets for one in taken for name in ast.walk(one)
        )
    return (
        isinstance(node, ast.Call)
        and _call(node).name in ("zip", "map")
        and any(isinstance(argument, ast.Starred) for argument in node.args)
    )


@dataclass(frozen=True)
class _Around:
    """What is around a statement, as `Statement` has it."""

    loops: tuple[int, ...] = ()
    functions: tuple[str, ...] = ()
    class_name: str = ""
    bases: tuple[str, ...] = ()


class Source:
    """A source file of a user. One that cannot be read or parsed has no statements.

    Attributes:
        statements: in the order of their lines.
    """

    def __init__(self, path: Path) -> None:
        self.statements: list[Statement] = []
        self._by_line: dict[int, Statement] = {}
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            body = ast.parse(text).body
        except (OSError, SyntaxError, ValueError):
            return
        self._lines = text.splitlines()
        self._walk(body, _Around())

    def at(self, line: int) -> Statement | None:
        """Return the statement on a line; None if there is none."""
        return self._by_line.get(line)

    def upstream(self, of: Iterable[Statement]) -> list[Statement]:
        """Return the statements that make what the given ones read, in the same function and innermost loop."""
        found: list[Statement] = []
        waiting = list(of)
        while waiting:
            one = waiting.pop()
            for other in self.statements:
                together = other.functions == one.functions and other.loops[: len(one.loops)] == one.loops
                if together and other.writes & one.reads and other not in found and other is not one:
                    found.append(other)
                    if not any(call.steps_environment() for call in other.calls):
                        waiting.append(other)
        return found

    def _walk(self, body: Iterable[ast.stmt], around: _Around) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                bases = tuple(map(ast.unparse, node.bases))
                self._walk(node.body, _Around(around.loops, around.functions, node.name, bases))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{around.class_name}.{node.name}" if around.class_name else node.name
                functions = (*around.functions, name)
                self._walk(node.body, _Around((), functions, around.class_name, around.bases))
            elif isinstance(node, _COMPOUND):
                self._compound(node, around)
            else:
                self._add([node], node.lineno, node.end_lineno or node.lineno, around)

    def _compound(self, node: ast.stmt, around: _Around) -> None:
        inner = around
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            inner = _Around((*around.loops, node.lineno), around.functions, around.class_name, around.bases)
        bodies: list[list[ast.stmt]] = []
        head: list[ast.AST] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ExceptHandler | ast.match_case):
                bodies.append(child.body)
            elif not isinstance(child, ast.stmt):
                head.append(child)
        bodies += [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        lines = [getattr(one, "end_lineno", 0) or 0 for one in head]
        self._add(head, node.lineno, max([node.lineno, *lines]), inner)
        for body in bodies:
            self._walk(body, inner)

    def _add(self, nodes: list[ast.AST], first: int, last: int, around: _Around) -> None:
        calls: list[Call] = []
        reads: set[str] = set()
        writes: set[str] = set()
        loops, subscripts = list(around.loops), False
        for node in (one for top in nodes for one in ast.walk(top)):
            if isinstance(node, ast.Call):
                calls.append(_call(node))
            elif isinstance(node, ast.Name):
                (reads if isinstance(node.ctx, ast.Load) else writes).add(node.id)
            elif isinstance(node, ast.comprehension):
                loops.append(first)
            elif isinstance(node, ast.Subscript):
                subscripts = True
                if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                    writes.add(node.value.id)
        text = self._lines[first - 1].strip() if first <= len(self._lines) else ""
        statement = Statement(
            first, last, tuple(calls), frozenset(reads), frozenset(writes), tuple(loops), subscripts,
            any(_takes_items(node) for top in nodes for node in ast.walk(top)), around.functions, around.bases, text,
        )  # fmt: skip
        self.statements.append(statement)
        for line in range(first, last + 1):
            self._by_line.setdefault(line, statement)


@lru_cache(maxsize=256)
def source(path: str) -> Source:
    """Return a source file, read once."""
    return Source(Path(path))
