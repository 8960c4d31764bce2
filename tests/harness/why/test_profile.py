"""The thread that trains is found, and its shares add up."""

import pytest

from placerl.harness.why.piece import Piece
from placerl.harness.why.profile import line_name, profile
from placerl.harness.why.stacks import Frame, Stack

STEP = Frame("Adam.step", "/lib/python3/site-packages/torch/optim/adam.py", 5)
WAIT = Frame("Thread.join", "/usr/lib/python3.11/threading.py", 5)
USERS = Frame("main.<locals>.learn", "/home/me/train.py", 7)


def test_the_thread_with_the_gradient_steps_is_shown() -> None:
    stacks = [
        Stack(1, 1, (WAIT,), 90),
        Stack(1, 2, (USERS, STEP), 30),
        Stack(1, 2, (WAIT,), 10),
        Stack(5, 5, (STEP,), 99),
    ]
    found = profile(stacks, 1)
    assert found.samples == 40
    assert found.shares == {Piece.GRADIENT: 0.75, Piece.WAITING: 0.25}
    assert next(iter(found.lines)).frame == USERS
    assert found.share(Piece.GRADIENT, Piece.WAITING, Piece.SAMPLING) == pytest.approx(1)
    assert line_name(USERS, "/home/me/") == "train.py:7 learn"


def test_without_samples_there_are_no_shares() -> None:
    assert not profile([], 1).shares
