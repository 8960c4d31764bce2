"""PRL Fig. 8 from rows of a validation."""

from itertools import product
from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import figure_8
from tests.harness.old_form import replace
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import TOO_FEW, frame_of, mapped, verdict


def grid(size: int, learner: float, replay: float) -> list[Row]:
    """Four device assignments; the better learner's device and the better replay management's gain so much."""
    return [
        mapped(f"{a}-{b}-cpu", 100 * x * y, size)
        for a, x in (("torch:cuda", learner), ("native", 1.0))
        for b, y in (("cuda", replay), ("native", 1.0))
    ]


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
    assert f"Replay management decides in {small == (1.2, 3.0):d} of 1 cases" in found.explanation
    assert f"the learner in {large == (3.0, 1.2):d} of 1 from" in found.explanation
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


def test_a_modelled_device_hides_no_two_measured_ones(tmp_path: Path) -> None:
    """The slowest learner is on the simulated FPGA, where its cycles are modelled."""
    for size, rows in ((32, grid(32, 3.0, 1.2)), (2048, grid(2048, 1.2, 3.0))):
        board = mapped("fpga-native-cpu", 1.0, size, provenance=Provenance.MODELLED)
        other = grid(2048 if size == 32 else 32, 1.2, 3.0)
        found = verdict("PRL-F8", tmp_path / str(size), *rows, board, *other).finding
        assert found.outcome is Outcome.NOT_REPRODUCED
        assert max(n.value for n in found.ours) == pytest.approx(3.0)


def test_a_modelled_pair_decides_nothing_next_to_measured_ones(tmp_path: Path) -> None:
    small, agrees, denies = grid(32, 1.2, 3.0), grid(2048, 3.0, 1.2), grid(2048, 1.2, 3.0)

    def modelled(rows: list[Row]) -> list[Row]:
        return [replace(row, provenance=Provenance.MODELLED, workload="pong-dqn") for row in rows]

    for name, more in (("agrees", agrees), ("denies", denies)):
        with_more = verdict("PRL-F8", tmp_path / f"both-{name}", *small, *agrees, *modelled(more)).finding
        assert with_more.outcome is Outcome.IN_KIND
        assert "decide nothing" in with_more.explanation
        assert len(with_more.ours) == 6
    refuted = verdict("PRL-F8", tmp_path / "refuted", *small, *denies, *modelled(agrees)).finding
    assert refuted.outcome is Outcome.NOT_REPRODUCED
    # Of one of the two sizes nothing is measured: a formula agrees with the statement, or it does not.
    one = verdict("PRL-F8", tmp_path / "one", *small, *modelled(agrees)).finding
    assert one.outcome is Outcome.CONSISTENT
    unlike = verdict("PRL-F8", tmp_path / "unlike", *small, *modelled(denies)).finding
    assert unlike.outcome is Outcome.NO_VERDICT
    contradicted = verdict("PRL-F8", tmp_path / "contradicted", *grid(32, 3.0, 1.2), *modelled(agrees))
    assert contradicted.finding.outcome is Outcome.NOT_REPRODUCED


def test_rates_of_virtual_time_without_an_interval_are_not_exact(tmp_path: Path) -> None:
    rows = [*grid(32, 3.0, 1.2), *grid(2048, 1.2, 3.0)]
    few = [replace(row, provenance=Provenance.SIMULATED, **TOO_FEW) for row in rows]
    assert verdict("PRL-F8", tmp_path, *few).finding.outcome is Outcome.NO_VERDICT


def test_workloads_of_other_papers_are_not_judged(tmp_path: Path) -> None:
    denies = [*grid(32, 3.0, 1.2), *grid(2048, 1.2, 3.0)]
    others = [replace(row, workload=name) for row in denies for name in ("hopper-ddpg", "cartpole-ddpg")]
    alone = verdict("PRL-F8", tmp_path / "alone", *others).finding
    assert alone.outcome is Outcome.NOT_RUN
    assert not alone.ours
    assert (
        "cartpole-dqn, mountaincar-ddpg or pong-dqn run up to batch size 32 and from batch size 512 on"
        in (alone.needs)
    )
    both = verdict("PRL-F8", tmp_path / "both", *others, *grid(32, 1.2, 3.0), *grid(2048, 3.0, 1.2)).finding
    assert both.outcome is Outcome.IN_KIND


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
    def rows(shared: float) -> list[Row]:
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
    assert verdict("MAP-F13-sharing", tmp_path, *rows(130)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(101)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(99)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(70)[1:]).finding.outcome is Outcome.NOT_RUN


def test_each_device_assignment_has_a_line(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *grid(32, 1.2, 3.0), *grid(2048, 3.0, 1.2))
    found = points(figure_8.BatchDecidesWhichDeviceMatters().draw(frame))
    assert len(found) == 4
    assert set(found.values()) == {2}
    (panel,) = figure_8.BatchDecidesWhichDeviceMatters().panels(frame)
    assert (panel.log_x, panel.log_y) == (True, True)
    assert [place for _, place in panel.published_x] == [32, 512]
