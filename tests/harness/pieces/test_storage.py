"""A storage that gathers other numbers is not timed."""

from functools import partial
from typing import Any

import pytest

from placerl.harness.mapping.target import CPU
from placerl.harness.pieces.storage import storage_cases_on
from tests.harness.pieces.own_task import TASK


@pytest.mark.parametrize(
    "wrong",
    [
        lambda gather, rows: gather(rows[::-1]),
        lambda gather, rows: gather(rows) | {"observation": gather(rows)["next_observation"]},
        lambda gather, rows: gather(rows) | {"terminated": ~gather(rows)["terminated"]},
    ],
)
def test_a_storage_that_gathers_other_numbers_fails_its_check(wrong: Any) -> None:
    gather, _ = storage_cases_on(TASK, 32, CPU)
    storage = gather.case.setup()
    gather.case.check(storage)
    storage.gather = partial(wrong, storage.gather)
    with pytest.raises(AssertionError):
        gather.case.check(storage)


def test_the_work_of_a_user_s_own_task_is_not_counted() -> None:
    assert {one.work for one in storage_cases_on(TASK, 32, CPU)} == {None}
