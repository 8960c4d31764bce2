"""The experiment on MAP's Algorithm 2, and both verdicts, from its own and from made-up rows."""

from pathlib import Path

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import algorithm_2, printed_tree
from placerl.harness.papers.map.algorithm_2 import (
    ATOMIC,
    BATCH_SIZES,
    EXPERIMENT,
    FANOUTS,
    FORMS,
    LEVELS,
    ROOTLESS,
    UPDATE,
    RootAdditionsLimitUpdates,
    UpdateLeavesSumsRight,
    sides,
)
from tests.harness.old_form import details_of, row_of
from tests.harness.papers.rows import frame_of
from tests.marks import needs_opencl


def row(device: str, quantity: str, value: float, samples: tuple[float, ...] = (), **more: object) -> Row:
    size = more.pop("batch_size", 2048)
    return row_of(
        suite="claim",
        primitive=UPDATE,
        backend="printed",
        device=device,
        batch_size=size,  # type: ignore[arg-type]
        quantity=quantity,
        provenance=Provenance.MEASURED,
        value=value,
        samples=samples,
        details={"experiment": EXPERIMENT} | more,
    )


def error_rows(wrong: set[str], repeated_wrong: set[str] = frozenset()) -> list[Row]:  # type: ignore[assignment]
    return [
        row("opencl", "relative_error", error, form=form, node=node, repeated=repeated)
        for form in FORMS
        for repeated in (False, True)
        for node in ("leaf", "root")
        for error in [0.5 if form in (repeated_wrong if repeated else wrong) else 0.0]
    ]


def timed_rows(device: str, times_us: dict[str, float], fanout: int | None = None) -> list[Row]:
    """The timed forms, of trees of one K if it is given."""
    made = []
    for side in sides((device,)):
        if fanout not in (None, side.fanout):
            continue
        time_s = times_us[side.form] * 1e-6
        samples = tuple(time_s * (1 + 0.01 * (7 * i % 30) / 30) for i in range(30))
        details = {"form": side.form, "fanout": side.fanout, "null": side.null}
        made.append(row(device, "time_per_call", time_s, samples, batch_size=side.batch_size, **details))
    return made


@needs_opencl
def test_the_experiment_as_a_whole(tmp_path: Path) -> None:
    made = algorithm_2.measured(0.0, silent, capacity=5000)
    assert {each.status for each in made} <= {"ok", "too_noisy"}
    errors = [each for each in made if each.quantity == "relative_error"]
    devices = len(printed_tree.device_names())
    assert len(errors) == devices * len(FORMS) * 4
    assert len(made) - len(errors) == devices * len(FANOUTS) * len(BATCH_SIZES) * 4
    finding = UpdateLeavesSumsRight().judge(frame_of(tmp_path, *made))
    # Whether items with the same index read the same old priority depends on the device.
    corrected = [each.value or 0.0 for each in errors if details_of(each)["form"] == "with both"]
    wrong = max(corrected) > algorithm_2.RIGHT
    assert finding.outcome is (Outcome.NOT_REPRODUCED if wrong else Outcome.CONSISTENT)
    assert finding.explanation.startswith("As printed, an update leaves a wrong tree")
    assert len(finding.ours) == len(errors)


def test_without_a_device_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithm_2, "device_names", tuple)
    (only,) = algorithm_2.measured(1.0, silent)
    assert (only.status, only.reason) == ("not_run", "no CUDA or OpenCL device")


@needs_opencl
def test_errors_of_one_update() -> None:
    tree = printed_tree.PrintedSumTree(64, 4, printed_tree.device("opencl"))
    leaf, root = algorithm_2.errors(tree, np.arange(8), np.random.default_rng(0))
    assert leaf > 0.1
    assert root > 1e-3
    tree.fixes = printed_tree.Fixes.ALL
    assert algorithm_2.errors(tree, np.arange(8), np.random.default_rng(0)) == (0, 0)


@pytest.mark.parametrize(
    ("wrong", "repeated_wrong", "outcome"),
    [
        (set(FORMS) - {ATOMIC}, set(FORMS) - {ATOMIC}, Outcome.NOT_REPRODUCED),
        # What the copy has lost may be the sign and the root, and can not make up for repeated indices.
        ({"as printed"}, {"as printed"}, Outcome.CONSISTENT),
        ({"as printed"}, {"as printed", "with both"}, Outcome.NOT_REPRODUCED),
        (set(), {"as printed", "with both"}, Outcome.NOT_REPRODUCED),
        (set(), set(), Outcome.REPRODUCED),
        (set(FORMS), set(), Outcome.NO_VERDICT),
        ({"as printed"}, {ATOMIC}, Outcome.NO_VERDICT),
    ],
)
def test_the_verdict_on_the_tree(
    wrong: set[str], repeated_wrong: set[str], outcome: Outcome, tmp_path: Path
) -> None:
    finding = UpdateLeavesSumsRight().judge(frame_of(tmp_path, *error_rows(wrong, repeated_wrong)))
    assert finding.outcome is outcome
    assert len(finding.ours) == 4 * len(FORMS)


@pytest.mark.parametrize(
    ("wrong", "distinct", "repeated"),
    [
        ({"as printed"}, "a right tree", "a right one"),
        ({"as printed", "with both"}, "a wrong tree", "a wrong one"),
    ],
)
def test_what_both_corrections_give_is_said(
    wrong: set[str], distinct: str, repeated: str, tmp_path: Path
) -> None:
    said = UpdateLeavesSumsRight().judge(frame_of(tmp_path, *error_rows(wrong, wrong))).explanation
    assert distinct in said
    assert repeated in said
    assert "whose operator the available copy has lost" in said


def test_of_the_timed_forms_one_lacks_the_root_s_additions_alone() -> None:
    assert FORMS[ATOMIC] & ~FORMS[ROOTLESS] == printed_tree.Fixes.ROOT
    assert FORMS[ROOTLESS] & ~FORMS[ATOMIC] == printed_tree.Fixes.NONE


def test_additions_that_take_no_time_are_no_negative_share(tmp_path: Path) -> None:
    rows = timed_rows("cuda", {LEVELS: 20, ATOMIC: 10, ROOTLESS: 11})
    assert (
        "take at least 0% of its time"
        in RootAdditionsLimitUpdates().judge(frame_of(tmp_path, *rows)).explanation
    )


def test_without_errors_the_tree_is_not_judged(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *timed_rows("opencl", {LEVELS: 1, ATOMIC: 1, ROOTLESS: 1}))
    assert UpdateLeavesSumsRight().judge(frame).needs == algorithm_2.NEEDS


@pytest.mark.parametrize(
    ("levels", "atomic", "rootless", "outcome"),
    [
        (5, 10, 5, Outcome.NOT_REPRODUCED),  # the additions are avoided
        (20, 10, 11, Outcome.NOT_REPRODUCED),  # the root's take no time
        (20, 10, 5, Outcome.IN_KIND),
        (10, 10, 5, Outcome.NO_VERDICT),
        (20, 10, 10, Outcome.NO_VERDICT),
    ],
)
def test_the_verdict_on_atomic_additions(
    levels: float, atomic: float, rootless: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = timed_rows("cuda", {LEVELS: levels, ATOMIC: atomic, ROOTLESS: rootless})
    finding = RootAdditionsLimitUpdates().judge(frame_of(tmp_path, *rows))
    assert finding.outcome is outcome
    each = len(FANOUTS) * len(BATCH_SIZES)
    values = [number.value for number in finding.ours]
    assert values == pytest.approx(each * [atomic / levels] + each * [atomic / rootless])


def test_trees_of_another_fanout_than_map_s_decide_nothing(tmp_path: Path) -> None:
    """On the wider tree the update without atomic additions is faster, on MAP's slower."""
    wide = timed_rows("cuda", {LEVELS: 5, ATOMIC: 10, ROOTLESS: 5}, fanout=16)
    map_s = timed_rows("cuda", {LEVELS: 20, ATOMIC: 10, ROOTLESS: 5}, fanout=2)
    both = RootAdditionsLimitUpdates().judge(frame_of(tmp_path / "both", *wide, *map_s))
    assert both.outcome is Outcome.IN_KIND
    assert "K = 2, the update without atomic additions is slower than Algorithm 2" in both.explanation
    alone = RootAdditionsLimitUpdates().judge(frame_of(tmp_path / "wide", *wide))
    assert (alone.outcome, alone.ours) == (Outcome.NOT_RUN, ())


def test_another_device_only_stands_in(tmp_path: Path) -> None:
    finding = RootAdditionsLimitUpdates().judge(
        frame_of(tmp_path, *timed_rows("opencl", {LEVELS: 5, ATOMIC: 10, ROOTLESS: 5}))
    )
    assert (finding.outcome, finding.needs) == (Outcome.NOT_RUN, "a CUDA device")
    assert len(finding.ours) == 2 * len(FANOUTS) * len(BATCH_SIZES)
    assert "stand in" in finding.explanation
    assert RootAdditionsLimitUpdates().judge(frame_of(tmp_path / "none")).ours == ()


def test_a_size_without_one_of_its_sides_is_left_out(tmp_path: Path) -> None:
    rows = timed_rows("cuda", {LEVELS: 20, ATOMIC: 10, ROOTLESS: 5})
    del rows[1]  # the null of K = 2 at the smallest batch
    assert (
        len(RootAdditionsLimitUpdates().judge(frame_of(tmp_path, *rows)).ours)
        == 2 * len(FANOUTS) * len(BATCH_SIZES) - 2
    )
