"""A tree that answers wrongly is not timed."""

from typing import Any

import numpy as np
import pytest

from placerl.harness.mapping import Target
from placerl.harness.pieces.trees import tree_cases
from tests.harness.pieces.own_task import TASK


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("update", lambda rows, priorities: None),
        ("find", lambda prefix: np.zeros(len(prefix), np.int64)),
        ("sample", lambda size, rng: np.zeros(size, np.int64)),
        ("_total", lambda: 1.0),
    ],
)
def test_a_tree_that_answers_wrongly_fails_a_check(name: str, wrong: Any) -> None:
    cases = [one.case for one in tree_cases(TASK, 32, Target("flat"), inserted=2)]
    tree = cases[0].setup()
    for case in cases:
        case.check(tree)
    setattr(tree, name, wrong)
    with pytest.raises(AssertionError):  # noqa: PT012 (one of the three)
        for case in cases:
            case.check(tree)


def test_an_insertion_writes_as_many_leaves_as_are_asked_for() -> None:
    *_, insert = tree_cases(TASK, 32, Target("flat"), inserted=2)
    rows, _ = insert.case.inputs(insert.case.setup(), np.random.default_rng(0))
    assert (insert.primitive, insert.batch_size, len(rows)) == ("sum_tree.insert", 2, 2)


def test_the_time_of_an_update_includes_what_it_leaves_to_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    _, update, _ = tree_cases(TASK, 32, Target("native"))
    tree, settled = update.case.setup(), []
    monkeypatch.setattr(tree, "settle", lambda: settled.append(tree.total))
    update.case.call(tree, (np.arange(tree.capacity), np.ones(tree.capacity, np.float32)))
    assert settled == [tree.capacity]
