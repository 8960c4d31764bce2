"""Which cases the primitive table of a machine has, with and without the pieces of the training loop."""

from collections.abc import Sequence
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.measure.timed_case import Timing
from placerl.harness.profile import measured


@pytest.mark.parametrize("pieces", [True, False])
def test_a_table_without_pieces_has_the_primitives_of_every_backend_but_the_reference(
    pieces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def untimed(cases: Sequence[Any], *_: object, **__: object) -> dict[str, Timing]:
        return {case.name: Timing(case.name, "failed", "not timed") for case in cases}

    monkeypatch.setattr(measured.measure, "measure", untimed)
    rows = measured.profile(workloads.load("cartpole-dqn"), 32, 1.0, silent, pieces=pieces)
    assert {"sum_tree.sample", "sum_tree.update", "learner.step", "storage.gather"} <= {
        row.primitive for row in rows
    }
    assert any("round." in row.primitive for row in rows) is pieces
    assert any(row.backend == "reference" for row in rows) is pieces
