"""PAL's sum tree: what is measured, and verdicts from rows that should and should not carry them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.measure.statistics import FEWEST_PAIRS
from placerl.harness.papers import Outcome
from placerl.harness.papers.pal import figure_9_tree
from placerl.harness.papers.tree_layouts import TreeLayout
from tests.harness.old_form import replace
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import frame_of, profiled, verdict


class Asked(Exception):
    """Ends an experiment where it would begin to measure."""


def test_fanouts_are_those_of_the_paper_each_next_to_its_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """PAL VI-D: every power of two from 2 to 256, over three buffers."""
    asked: list[Any] = []

    def measure(*arguments: object, **_: object) -> None:
        asked.extend(arguments)
        raise Asked

    monkeypatch.setattr(figure_9_tree, "measure", measure)
    with pytest.raises(Asked):
        figure_9_tree.fanout(7.0, silent)
    cases, protocol = asked
    assert [case.name for case in cases] == [
        f"{capacity} leaves, K={2**power}{null}"
        for capacity in (1000, 10_000, 100_000)
        for power in range(1, 9)
        for null in ("", " (null)")
    ]
    assert (protocol.budget_s, protocol.warm_up_s, protocol.threads) == (7.0, 5e-3, 1)


def test_a_tree_that_is_not_aligned_says_so() -> None:
    assert figure_9_tree._name(TreeLayout(10, 4, aligned=False)) == "10 leaves, K=4, not aligned"


def test_a_call_draws_from_all_leaves() -> None:
    case = figure_9_tree.case(TreeLayout(1, 2), "one leaf")
    tree = case.setup()
    uniform, indices, updated = case.inputs(tree, np.random.default_rng(0))
    assert (indices.tolist(), updated.shape, uniform.shape) == ([0] * 64, (64,), (64,))
    case.call(tree, (uniform, indices, updated))
    assert tree.get([0])[0] == updated[-1]


def tree_rows(capacity: int, fanout: int, time_s: float, null_s: float = 0.0, **details: object) -> list[Row]:
    """A row of the sum tree experiments and its A/A null, which takes as long unless told otherwise."""
    return [
        tree_row(capacity, fanout, time_s, null=False, **details),
        tree_row(capacity, fanout, null_s or time_s, null=True, **details),
    ]


def tree_row(capacity: int, fanout: int, time_s: float, **details: object) -> Row:
    """A row of the sum tree experiments, with 30 samples that vary by 2%."""
    known = {"experiment": "fanout", "capacity": capacity, "fanout": fanout, "aligned": True}
    samples = tuple(time_s * (0.98 + 0.04 * ((7 * i + 11 * fanout) % 30) / 29) for i in range(30))
    return profiled(
        figure_9_tree.PRIMITIVE,
        time_s,
        64,
        suite="claim",
        backend="scalar",
        workload="",
        samples=samples,
        details=known | details,
    )


@pytest.mark.parametrize(
    ("ours_s", "null_s", "binary_s", "outcome"),
    [
        (10e-6, 10e-6, 20e-6, Outcome.IN_KIND),
        (20e-6, 20e-6, 10e-6, Outcome.NOT_REPRODUCED),
        (10e-6, 10e-6, 10e-6, Outcome.NO_VERDICT),
        (10e-6, 25e-6, 20e-6, Outcome.NO_VERDICT),  # the same tree differs from itself by more
        (20e-6, 8e-6, 10e-6, Outcome.NO_VERDICT),
    ],
)
def test_k_ary_tree_against_binary(
    ours_s: float, null_s: float, binary_s: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*tree_rows(1000, 16, ours_s, null_s), *tree_rows(1000, 2, binary_s)]
    found = verdict("PAL-F9", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert found.finding.ours[0].value == pytest.approx(binary_s / ours_s, rel=0.02)
    assert found.rows == (0, 1, 2)
    assert verdict("PAL-F9", tmp_path, *rows[:2]).finding.outcome is Outcome.NOT_RUN
    assert verdict("PAL-F9", tmp_path, *rows[::2]).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("best", "advantage", "itself", "outcome"),
    [
        ((256, 128, 64), 2.0, 1.0, Outcome.REPRODUCED),
        ((64, 16, 16), 2.0, 1.0, Outcome.IN_KIND),
        ((64, 16, 16), 2.0, 2.5, Outcome.NO_VERDICT),
        ((64, 16, 16), 1.0001, 1.0, Outcome.NO_VERDICT),
        ((16, 64, 256), 2.0, 1.0, Outcome.NOT_REPRODUCED),
        ((16, 16, 16), 2.0, 1.0, Outcome.NOT_REPRODUCED),
        ((64, 128, 16), 2.0, 1.0, Outcome.NOT_REPRODUCED),  # falls in the end, having risen
    ],
)
def test_best_fanout(
    best: tuple[int, int, int], advantage: float, itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    times_s = [
        (n, fanout, 1e-6 * (1 if fanout == chosen else advantage if fanout in best else 3))
        for n, chosen in zip((1_000, 10_000, 100_000), best, strict=True)
        for fanout in (2, 16, 64, 128, 256)
    ]
    rows = [row for n, k, time_s in times_s for row in tree_rows(n, k, time_s, itself * time_s)]
    found = verdict("PAL-F9-fanout", tmp_path, *rows)
    assert found.finding.outcome is outcome
    assert [number.value for number in found.finding.ours[:3]] == list(best)
    against = found.finding.explanation.startswith("The best fanout does not fall as the buffer grows. ")
    assert against == (outcome is Outcome.NOT_REPRODUCED)
    assert verdict("PAL-F9-fanout", tmp_path, *rows[:-1]).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize("seed", range(4))
def test_fanouts_that_noise_alone_orders_give_no_verdict(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = [
        replace(row, samples=tuple(row.samples[0] * np.exp(rng.normal(0, 0.1, 30))))
        for capacity in (1_000, 10_000, 100_000)
        for fanout in (2, 4, 8, 16, 32, 64, 128, 256)
        for row in tree_rows(capacity, fanout, 1e-6 * (1 + 2e-3 * rng.random()))
    ]
    found = verdict("PAL-F9-fanout", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "not told apart" in found.explanation


def test_a_best_fanout_that_is_not_told_apart_from_another_may_still_fall(tmp_path: Path) -> None:
    """Of two alike in the small buffer either is above the one of the large buffer."""
    slow = {(1_000, 2): 3, (1_000, 16): 3, (1_000, 32): 3, (100_000, 64): 2, (100_000, 128): 2}
    slow |= {(capacity, k): 3 for capacity in (10_000, 100_000) for k in (2, 32)} | {(10_000, 16): 2}
    rows = [
        row
        for capacity in (1_000, 10_000, 100_000)
        for k in (2, 16, 32, 64, 128)
        for row in tree_rows(capacity, k, 1e-6 * slow.get((capacity, k), 1))
    ]
    found = verdict("PAL-F9-fanout", tmp_path, *rows).finding
    assert found.outcome is Outcome.IN_KIND
    assert "buffer of 1,000: 64, 128;" in found.explanation


def minimum(best: dict[int, int], itself: float = 1.0) -> list[Row]:
    """Rows of three buffers whose least time is at the given K, twice as long elsewhere."""
    return [
        row
        for capacity, chosen in best.items()
        for k in (2, 16, 64, 128, 256)
        for row in tree_rows(capacity, k, 1e-6 * (1 if k == chosen else 2), itself * 1e-6)
    ]


@pytest.mark.parametrize(
    ("best", "itself", "outcome"),
    [
        ((16, 16, 64), 1.0, Outcome.IN_KIND),
        ((16, 16, 256), 1.0, Outcome.NOT_REPRODUCED),
        ((2, 16, 64), 1.0, Outcome.NOT_REPRODUCED),
        ((16, 16, 64), 3.0, Outcome.NO_VERDICT),
    ],
)
def test_the_cost_has_a_minimum_between_the_ends(
    best: tuple[int, int, int], itself: float, outcome: Outcome, tmp_path: Path
) -> None:
    rows = minimum(dict(zip((1_000, 10_000, 100_000), best, strict=True)), itself)
    found = verdict("PAL-F9-minimum", tmp_path, *rows).finding
    assert found.outcome is outcome
    at_an_end = int(outcome is Outcome.NOT_REPRODUCED)
    assert f"at {at_an_end} the smallest or the largest K is the fastest" in found.explanation
    assert verdict("PAL-F9-minimum", tmp_path, *rows[:-1]).finding.outcome is Outcome.NOT_RUN


def test_rows_of_the_compiled_tree_are_not_pals(tmp_path: Path) -> None:
    rows = [replace(row, backend="native") for k in (2, 16) for row in tree_rows(1000, k, 1e-6 * (18 - k))]
    assert verdict("PAL-F9", tmp_path, *rows).finding.outcome is Outcome.NOT_RUN


def cut(rows: list[Row], pairs: int) -> list[Row]:
    """The rows with fewer samples."""
    return [replace(row, samples=row.samples[:pairs]) for row in rows]


@pytest.mark.parametrize("pairs", [FEWEST_PAIRS - 1, FEWEST_PAIRS])
def test_too_few_rounds_give_no_verdict(pairs: int, tmp_path: Path) -> None:
    best = {1_000: 256, 10_000: 128, 100_000: 64}
    rows = [
        row
        for capacity, chosen in best.items()
        for k in (2, 16, 64, 128, 256)
        for row in tree_rows(capacity, k, 1e-6 if k == chosen else 3e-6)
    ]
    found = verdict("PAL-F9-fanout", tmp_path / "fanout", *cut(rows, pairs)).finding
    assert found.outcome is (Outcome.REPRODUCED if pairs == FEWEST_PAIRS else Outcome.NO_VERDICT)
    assert (f"Only {pairs} rounds" in found.explanation) == (pairs < FEWEST_PAIRS)
    assert {len(number.rows) for number in found.ours} == {5}
    rows = [
        row
        for time_s, aligned in ((1e-6, True), (1.01e-6, False))
        for row in tree_rows(1_000_000, 16, time_s, experiment="layout", aligned=aligned)
    ]
    found = verdict("PAL-VI-H-layout", tmp_path / "layout", *cut(rows, pairs)).finding
    assert found.outcome is (Outcome.IN_KIND if pairs == FEWEST_PAIRS else Outcome.NO_VERDICT)
    assert found.ours[0].value == pytest.approx(1.0)


def test_every_buffer_size_counts_and_a_slower_one_refutes(tmp_path: Path) -> None:
    def times(small_s: float, large_s: float) -> list[Row]:
        return [
            row
            for capacity, time_s in ((1_000, small_s), (10_000, large_s))
            for row in (*tree_rows(capacity, 16, time_s), *tree_rows(capacity, 2, 20e-6))
        ]

    for name, large_s, outcome in (
        ("both", 10e-6, Outcome.IN_KIND),
        ("one", 20e-6, Outcome.NO_VERDICT),
        ("slower", 40e-6, Outcome.NOT_REPRODUCED),
    ):
        found = verdict("PAL-F9", tmp_path / name, *times(10e-6, large_s)).finding
        assert found.outcome is outcome
        assert len(found.ours) == 2


def test_rows_of_one_experiment_carry_no_other(tmp_path: Path) -> None:
    rows = [*tree_rows(1_000, 16, 1e-6, experiment="layout"), *tree_rows(1_000, 2, 2e-6, experiment="layout")]
    assert verdict("PAL-F9", tmp_path / "layout", *rows).finding.outcome is Outcome.NOT_RUN
    rows = [*tree_rows(1_000, 16, 1e-6), *tree_rows(1_000, 16, 2e-6, aligned=False)]
    assert verdict("PAL-VI-H-layout", tmp_path / "fanout", *rows).finding.outcome is Outcome.NOT_RUN


def test_a_point_is_a_fanout_of_a_buffer_and_not_its_null(tmp_path: Path) -> None:
    rows = [row for n in (1000, 10_000) for k in (2, 16, 64) for row in tree_rows(n, k, 1e-6 * k)]
    frame = frame_of(tmp_path, *rows, *tree_rows(1000, 32, 1e-6, experiment="layout"))
    figure = figure_9_tree.WideTreeIsFaster().draw(frame)
    assert points(figure) == {"buffer of 1,000": 3, "buffer of 10,000": 3}
    assert figure is not None
    assert list(figure.axes[0].containers[0][0].get_xdata()) == [2, 16, 64]
