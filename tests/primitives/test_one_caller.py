"""Calls that overlap, and calls in a forked process, are refused by name and change nothing."""

import os
import threading
import warnings

import pytest

from placerl.primitives.one_caller import OneCaller, current_process, one_at_a_time
from tests.limits import LIMIT_S


class Counter(OneCaller):
    """Counts its calls; a slow one waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.begun, self.let_go = threading.Event(), threading.Event()

    @one_at_a_time
    def add(self, number: int, *, twice: bool = False) -> int:
        """Add a number."""
        self.count += number * (2 if twice else 1)
        return self.count

    @one_at_a_time
    def add_slowly(self) -> None:
        self.begun.set()
        assert self.let_go.wait(LIMIT_S)
        self.count += 1

    @one_at_a_time
    def fail(self) -> None:
        raise ValueError("it failed")

    @property
    @one_at_a_time
    def twice(self) -> int:
        return 2 * self.count


def test_calls_one_after_the_other_pass_whoever_makes_them() -> None:
    counter = Counter()
    assert counter.add(3) == 3
    assert counter.add(1, twice=True) == 5
    with pytest.raises(ValueError, match="it failed"):
        counter.fail()
    thread = threading.Thread(target=counter.add, args=(1,))
    thread.start()
    thread.join()
    assert counter.twice == 12
    assert Counter.add.__doc__ == "Add a number."


def test_a_call_meanwhile_is_refused_by_name_and_changes_nothing() -> None:
    counter, other = Counter(), Counter()
    thread = threading.Thread(target=counter.add_slowly, daemon=True)
    thread.start()
    assert counter.begun.wait(LIMIT_S)
    for _ in range(2):
        with pytest.raises(RuntimeError) as refused:
            counter.add(1)
        assert str(refused.value) == "Counter.add: found another call in progress; allowed: one at a time"
    with pytest.raises(RuntimeError, match=r"Counter\.twice: found another call in progress"):
        _ = counter.twice
    assert other.add(1) == 1, "another object is another matter"
    counter.let_go.set()
    thread.join()
    assert counter.count == 1
    assert counter.add(1) == 2


def test_a_call_from_within_a_call_is_refused_too() -> None:
    class Nested(Counter):
        @one_at_a_time
        def outer(self) -> None:
            self.add(1)

    nested = Nested()
    with pytest.raises(RuntimeError, match=r"Nested\.add: found another call in progress"):
        nested.outer()
    assert nested.add(1) == 1


@pytest.mark.parametrize("during", [False, True])
def test_a_forked_process_is_refused_and_learns_whose_the_object_is(during: bool) -> None:
    counter = Counter()
    thread = threading.Thread(target=counter.add_slowly, daemon=True)
    if during:
        thread.start()
        assert counter.begun.wait(LIMIT_S)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that threads are lost is what is tried here
        child = os.fork()
    if not child:
        words = f"this Counter belongs to process {os.getppid()}, found {os.getpid()}"
        status = 1
        try:
            counter.add(1)
        except RuntimeError as error:
            status = 0 if str(error) == words and current_process() == os.getpid() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    counter.let_go.set()
    if during:
        thread.join()
    assert counter.add(1) == 1 + during
    assert current_process() == os.getpid()
