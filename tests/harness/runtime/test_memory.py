"""Bytes that a run needs, and what is refused where a machine has not that many."""

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.runtime import memory

ROW_BYTES = 2 * 4 * 4 + 8 + 4 + 1  # of cart-pole: two observations, action, reward, terminated
CAPACITY = 500
MIB = 2**20


@pytest.fixture
def free(monkeypatch):
    """Sets the bytes of memory that are free."""

    def set_to(available):
        monkeypatch.setattr(memory, "available_bytes", lambda: available)

    return set_to


def test_bytes_are_those_of_storage_waiting_batches_collected_rows_and_processes(short):
    task = short("cartpole-dqn")
    assert memory.needed_bytes(task, 8, 0, 0) == (CAPACITY + 8) * ROW_BYTES
    assert memory.needed_bytes(task, 8, 3, 0) == (CAPACITY + 4 * 8) * ROW_BYTES
    assert memory.needed_bytes(task, 8, 0, 0, 10) == (CAPACITY + 8 + 10) * ROW_BYTES
    assert memory.needed_bytes(task, 8, 0, 2) == (CAPACITY + 8) * ROW_BYTES + 2 * 250 * MIB


def test_what_just_fits_passes_and_a_byte_less_is_refused(short, free):
    task, rows = short("cartpole-dqn"), CAPACITY + 8
    free(rows * ROW_BYTES)
    memory.check(task, 8, 0, 0)
    with pytest.raises(UserError, match=r"transitions between two insertions: found 1; allowed: what fits"):
        memory.check(task, 8, 0, 0, collected_rows=1)
    free(rows * ROW_BYTES - 1)
    with pytest.raises(UserError, match=r"replay\.capacity: found 500; allowed: what fits 0\.0 GB"):
        memory.check(task, 8, 0, 0)


def test_a_refusal_says_how_much_there_is_and_how_much_it_takes_in_gigabytes(short, free):
    free(int(12.3e6))
    with pytest.raises(UserError, match=r"what fits 0\.0 GB of free memory; it needs 37\.6 GB"):
        memory.check(short("cartpole-dqn", presampled_batches=0), 8, 10**8 + 4_444_000, 0)


def test_processes_and_further_learners_share_what_is_left(short, free):
    task = short("cartpole-dqn")
    free((CAPACITY + 8) * ROW_BYTES + 3 * memory.PROCESS_BYTES)
    memory.check(task, 8, 0, processes=3)
    memory.check(task, 8, 0, processes=0, learners=4)
    memory.check(task, 8, 0, processes=1, learners=3)
    for processes, learners, words in (
        (4, 1, "actor processes: found 4; allowed: at most 3, for 0.8 GB of memory are left"),
        (2, 3, "actor processes: found 2; allowed: at most 1"),
        (1, 4, "actor processes: found 1; allowed: at most 0"),
        (0, 5, "learners: found 5; allowed: at most 4, for 0.8 GB"),
        (1, 5, "learners: found 5; allowed: at most 4"),
    ):
        with pytest.raises(UserError) as refused:
            memory.check(task, 8, 0, processes, learners)
        assert words in str(refused.value)
