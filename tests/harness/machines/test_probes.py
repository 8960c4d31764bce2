"""Every probe does what it states, and the probes' names are those of the documentation."""

from itertools import pairwise

import numpy as np
import pytest
from placerl.harness._experiments import Copies, PointerChase, hand_over

from placerl.harness.machines import probes
from placerl.harness.machines.probes import Probe


@pytest.fixture(scope="module")
def every() -> list[Probe]:
    return probes.probes()


def test_every_probe_passes_its_check_and_makes_a_call(every: list[Probe]) -> None:
    for one in every:
        if one.not_run or one.name.endswith("256MiB"):  # a second of set-up
            continue
        state = one.case.setup()
        one.case.check(state)
        if one.case.block:
            assert one.case.block(state, 1) > 0
        else:
            one.case.call(state, one.case.inputs(state, np.random.default_rng(0)))
        one.case.synchronise()
        one.case.close(state)


def test_names_are_unique_and_documented(every: list[Probe]) -> None:
    names = [one.name for one in every]
    assert len(set(names)) == len(names)
    documented = probes.__doc__ or ""
    for name in names:
        if name != probes.AGAIN:
            first, *_ = name.split(".")
            assert f"`{first}" in documented or f"`D.{name.split('.')[1]}" in documented, name


def test_a_chase_visits_every_line_once() -> None:
    chase = PointerChase(64 * 100)
    assert len({chase.run(1) for _ in range(100)}) == chase.lines == 100
    with pytest.raises(ValueError, match="at least two lines"):
        PointerChase(64)


def test_copies_fill_the_other_half_with_the_first() -> None:
    memory = Copies(1000)
    assert not memory.halves_are_equal
    memory.run(1)
    assert memory.halves_are_equal


def test_footprints_ascend() -> None:
    assert all(a < b for a, b in pairwise(probes.FOOTPRINTS.values()))
    assert hand_over(5) == 5
