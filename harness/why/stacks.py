"""Reads what py-spy sampled: stacks of Python frames with the number of times that each was seen."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_PROCESS = re.compile(r'process (\d+):"')
_THREAD = re.compile(r"thread \((0x[0-9a-fA-F]+|\d+)\)")
_FRAME = re.compile(r"(.*) \((.*):(\d+)\)")


@dataclass(frozen=True)
class Frame:
    """A call on the stack.

    Attributes:
        function: the function's name with that of its class, such as "ReplayBuffer.sample".
        file: path of its source.
        line: the line that ran, from 1; 0 if it is not known.
    """

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Stack:
    """A thread's stack, as it was found in some of the samples.

    Attributes:
        process: id of the process.
        thread: id of the thread; that of a process's main thread is the process's own.
        frames: the calls, outermost first.
        count: in how many samples.
    """

    process: int
    thread: int
    frames: tuple[Frame, ...]
    count: int


def parse(lines: Iterable[str]) -> Iterator[Stack]:
    """Yield the stacks of py-spy's raw format (`--format raw --threads --subprocesses`).

    A line is `part;part;... COUNT`. The first parts name the processes, from the one that was started down to the
    stack's own, with their command lines, and the thread. A command line may contain semicolons: what is neither a
    process nor a thread nor a frame is a piece of one.
    """
    for line in lines:
        text, _, count = line.rstrip("\n").rpartition(" ")
        process = thread = 0
        frames = []
        for part in text.split(";"):
            if found := _PROCESS.match(part):
                process = int(found[1])
            elif found := _THREAD.match(part):
                thread = int(found[1], 0)
            elif found := _FRAME.fullmatch(part):
                frames.append(Frame(found[1], found[2], int(found[3])))
        if frames:
            yield Stack(process, thread, tuple(frames), int(count))
