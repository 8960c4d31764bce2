"""The roles of a cluster's training without Ray: each call is made at once, here, in the order of submission.

What a call depends on has then been made before it, and calls on one role keep their order, which is all that Ray
promises: a training that uses nothing else of Ray comes out the same, bit by bit.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from placerl.harness.cluster import roles, training


class _Call:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def options(self, **_: Any) -> "_Call":
        """Itself: where and how Ray would make the call is nothing to it."""
        return self

    def remote(self, *arguments: Any) -> Any:
        """The answer, as its own copy: Ray's object store shares no memory with a role."""
        return copy.deepcopy(self._method(*arguments))


class _Role:
    """What a role's class becomes, and what is made of it."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def options(self, **_: Any) -> "_Role":
        """Itself."""
        return self

    def remote(self, *arguments: Any) -> "_Role":
        """A role."""
        return _Role(self._made(*copy.deepcopy(arguments)))

    def __getattr__(self, name: str) -> _Call:
        """A method, to be called as Ray's are."""
        return _Call(getattr(self._made, name))


@contextmanager
def without_ray() -> Iterator[None]:
    """Have `ClusterTraining` make its roles in this process; they compute with one thread, as they do on Ray."""
    here = SimpleNamespace(get_node_id=lambda: "here")
    stand_in = SimpleNamespace(
        get=lambda made: made, put=lambda made: made, kill=lambda role: None, get_runtime_context=lambda: here
    )
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "ray", stand_in)
        patch.setattr(roles, "ray", stand_in)
        for name in ("EnvironmentActor", "ReplayShard", "LearnerActor"):
            role = getattr(roles, name).__ray_metadata__.modified_class
            patch.setattr(training, name, _Role(role))
        yield
    torch.set_num_threads(threads)


@contextmanager
def each_timed_part_takes_a_second() -> Iterator[None]:
    """Have roles in this process read a clock that goes on by a second whenever it is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roles, "perf_counter", itertools.count().__next__)
        yield
