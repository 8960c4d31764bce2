"""PRL Fig. 8 from rows of a validation."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome
from harness.papers.prl import figure_8
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, frame_of, trained
from tests.harness.papers.test_verdicts import verdict


def grid(size: int, learner: float, replay: float) -> list[Measurement]:
    """Four device assignments; the better learner's device and the better replay management's gain so much."""
    return [
        mapped(f"{a}-{b}-cpu", 100 * x * y, size)
        for a, x in (("torch:cuda", learner), ("native", 1.0))
        for b, y in (("cuda", replay), ("native", 1.0))
    ]


def mapped(mapping: str, gps: float, size: int, assignment: str = "", **fields: Any) -> Measurement:
    base = {"suite": "validation", "workload": "cartpole-dqn", "backend": "placerl", "device": mapping}
    stated = {"assignment": assignment} if assignment else {}
    return trained(gps, size, details={"mapping": mapping, **stated}, **(base | fields))


@pytest.mark.parametrize(
    ("small", "large", "outcome"),
    [
        ((1.2, 3.0), (3.0, 1.2), Outcome.IN_KIND),
        ((3.0, 1.2), (3.0, 1.2), Outcome.NOT_REPRODUCED),
        ((1.2, 3.0), (1.2, 3.0), Outcome.NOT_REPRODUCED),
        ((1.2, 3.0), (1.21, 1.2), Outcome.NO_VERDICT),  # their intervals overlap
    ],
)
def test_what_decides_at_small_and_at_large_batches(
    small: tuple[float, float], large: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PRL-F8", tmp_path, *grid(32, *small), *grid(2048, *large)).finding
    assert found.outcome is outcome
    assert sorted(n.value for n in found.ours) == pytest.approx(sorted((*small, *large)))
    assert verdict("PRL-F8", tmp_path, *grid(32, *small)).finding.outcome is Outcome.NOT_RUN
    rows = [replace(row, **TOO_FEW) for row in (*grid(32, *small), *grid(2048, *large))]
    assert verdict("PRL-F8", tmp_path / "noisy", *rows).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("large", "outcome"), [((3.0, 1.2), Outcome.CONSISTENT), ((1.2, 3.0), Outcome.NO_VERDICT)]
)
def test_devices_whose_rates_a_formula_gives_reproduce_nothing(
    large: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*grid(32, 1.2, 3.0), *grid(2048, *large)]
    modelled = [replace(row, provenance=Provenance.MODELLED) for row in rows]
    assert verdict("PRL-F8", tmp_path, *modelled).finding.outcome is outcome


def test_a_modelled_rate_refutes_nothing_beside_measured_ones(tmp_path: Path) -> None:
    def rows(large: list[Measurement]) -> list[Measurement]:
        return [*grid(32, 1.2, 3.0), *large]

    def told(gains: tuple[float, float]) -> list[Measurement]:
        return [replace(row, provenance=Provenance.MODELLED) for row in grid(2048, *gains)]

    refuted = verdict("PRL-F8", tmp_path / "measured", *rows(grid(2048, 1.2, 3.0))).finding
    assert refuted.outcome is Outcome.NOT_REPRODUCED
    denied = verdict("PRL-F8", tmp_path / "modelled", *rows(told((1.2, 3.0)))).finding
    assert denied.outcome is Outcome.NO_VERDICT
    assert "Modelled rates refute nothing" in denied.explanation
    agrees = verdict("PRL-F8", tmp_path / "agrees", *rows(told((3.0, 1.2)))).finding
    assert agrees.outcome is Outcome.IN_KIND
    assert "refute" not in agrees.explanation


def test_backends_of_one_device_decide_nothing(tmp_path: Path) -> None:
    backends = [
        mapped(f"{a}-{b}-cpu", gps, size)
        for size in (32, 2048)
        for gps, (a, b) in enumerate(product(("native", "torch", "opencl"), ("native", "flat", "opencl")), 1)
    ]
    found = verdict("PRL-F8", tmp_path, *backends).finding
    assert found.outcome is Outcome.NOT_RUN
    assert "OpenCL device that is not this CPU" in found.needs


def test_a_replay_manager_on_the_learners_gpu(tmp_path: Path) -> None:
    def rows(shared: float) -> list[Measurement]:
        pairs = (
            ("torch:cuda-cuda-cpu", shared),
            ("torch:cuda-native-cpu", 100.0),
            ("native-native-cpu", 500.0),
        )
        return [mapped(mapping, gps, 2048) for mapping, gps in pairs]

    found = verdict("MAP-F13-sharing", tmp_path, *rows(70)).finding
    assert found.outcome is Outcome.REPRODUCED
    assert found.ours[0].value == pytest.approx(30)
    assert verdict("MAP-F13-sharing", tmp_path, *rows(50)).finding.outcome is Outcome.IN_KIND
    assert verdict("MAP-F13-sharing", tmp_path, *rows(130)).finding.outcome is Outcome.NOT_REPRODUCED
    assert verdict("MAP-F13-sharing", tmp_path, *rows(101)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(99)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(70)[1:]).finding.outcome is Outcome.NOT_RUN


def test_each_device_assignment_has_a_line(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *grid(32, 1.2, 3.0), *grid(2048, 3.0, 1.2))
    found = points(figure_8.draw(frame))
    assert len(found) == 4
    assert set(found.values()) == {2}
