"""Which core each thread of a training has, and which threads share one."""

import pytest

from placerl.harness.loop.placement import Placement, actor_threads


@pytest.mark.parametrize(
    ("cores", "threads", "text"),
    [
        ([2, 5, 7], (1, 1, 1), "core 2: learner 0; core 5: manager 0; core 7: actor 0"),
        ([0, 1], (1, 1, 1), "core 0: learner 0; core 1: manager 0, actor 0 (shared)"),
        (
            [0, 1, 2],
            (1, 1, 3),
            "core 0: learner 0; core 1: manager 0, actor 1 (shared); core 2: actor 0, actor 2 (shared)",
        ),
        ([0, 1], (2, 0, 1), "core 0: learner 0, actor 0 (shared); core 1: learner 1"),
        ([3], (1, 0, 1), "core 3: learner 0, actor 0 (shared)"),
        ([0, 1], (3, 0, 0), "core 0: learner 0, learner 2 (shared); core 1: learner 1"),
        ([0, 1, 2, 3], (1, 0, 0), "core 0: learner 0"),
    ],
)
def test_learners_have_cores_of_their_own_and_the_others_share_what_is_left(
    cores: list[int], threads: tuple[int, int, int], text: str
) -> None:
    placement = Placement.of(cores, *threads)
    assert tuple(map(len, (placement.learners, placement.managers, placement.actors))) == threads
    assert placement.text() == text
    assert Placement(**placement.columns()).text() == text


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (6, 4), (56, 16)])
def test_actors_have_the_cores_that_nobody_else_needs(cores: int, threads: int) -> None:
    assert actor_threads(16, cores, learners=1, managers=1) == threads
