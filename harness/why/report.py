"""Words what was found of a script, for people at 60 columns and for programs."""

import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from placerl.harness.why.causes.base import Finding
from placerl.harness.why.profile import Profile, line_name
from placerl.harness.why.recording import MAIN, Recording
from placerl.harness.why.stacks import Frame

WIDTH = 60
_LEAST_SHARE = 0.03
"""Lines with less of the time are not shown."""
_LINES = 3
_CHANGES = 3


def _folder() -> str:
    return os.path.join(os.getcwd(), "")


def _rates(recording: Recording) -> dict[str, float]:
    steps = recording.steps.get(MAIN)
    if steps is None or not recording.seconds:
        return {}
    copies = max((fact["count"] for fact in recording.facts if fact["fact"] == "environment"), default=1)
    return {
        "environment steps": steps.environment * copies / recording.seconds,
        "optimizer steps": steps.gradient / recording.seconds,
    }


def _threads(recording: Recording) -> int | None:
    """Return how many threads PyTorch uses; None if it is not known."""
    return max((fact["torch"] for fact in recording.facts if fact["fact"] == "threads"), default=None)


def lines(recording: Recording, profile: Profile, findings: Sequence[Finding] = ()) -> Iterator[str]:
    """Yield the report's lines, of at most 60 columns unless a name is longer."""
    script = Path(next((part for part in recording.command[1:]), "script")).name
    yield f"{script}: {recording.seconds:.0f} s of training, {profile.samples} samples"
    for name, rate in _rates(recording).items():
        yield f"  {rate:,.0f} {name} per second"
    threads = _threads(recording)
    yield (
        f"  {recording.cores_used:.1f} of {recording.cores} cores busy, {recording.busy_threads} busy threads"
        + (f" (PyTorch: {threads})" if threads else "")
    )
    for problem in recording.problems:
        yield f"  note: {problem}"
    yield ""
    yield "Where the time of the thread that trains goes"
    for piece, share in profile.shares.items():
        yield f"  {piece:<14}{share:>5.0%}  {'#' * round(share * 30)}".rstrip()
        own = [(where, part) for where, part in profile.lines.items() if where.piece is piece]
        for where, part in own[:_LINES]:
            if part >= _LEAST_SHARE:
                yield f"    {part:>5.0%}  {_short(where.frame, WIDTH - 11)}"
    yield ""
    yield "What would bring most" if findings else "No known cause of slowness was found."
    for number, finding in enumerate(findings[:_CHANGES], 1):
        yield f"  {number}. {finding.cause}: about {finding.gain:.2g} times as fast"
        for text in (finding.change, finding.because):
            yield from textwrap.wrap(text, WIDTH, initial_indent="     ", subsequent_indent="     ")
        yield from (f"     at {_short(frame, WIDTH - 8)}" for frame in finding.lines)


def _short(frame: Frame, width: int) -> str:
    """Return a line's name, without its beginning where it is too long."""
    name = line_name(frame, _folder())
    return name if len(name) <= width else f"...{name[3 - width :]}"


def as_json(recording: Recording, profile: Profile, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    """Return the report as nested dicts, lists and scalars."""
    return {
        "command": list(recording.command),
        "status": recording.status,
        "stopped": recording.stopped,
        "seconds": recording.seconds,
        "samples": profile.samples,
        "per_second": _rates(recording),
        "cores": recording.cores,
        "cores_used": recording.cores_used,
        "busy_threads": recording.busy_threads,
        "torch_threads": _threads(recording),
        "shares": dict(profile.shares),
        "lines": [
            {"piece": one.piece, "file": one.frame.file, "line": one.frame.line,
             "function": one.frame.function, "share": share}
            for one, share in profile.lines.items()
        ],
        "findings": [asdict(one) for one in findings],
        "notes": recording.problems,
    }  # fmt: skip
