"""Which kind of device is first, from rows that should and should not say."""

from itertools import permutations, product
from pathlib import Path

from placerl.harness.papers import Outcome
from placerl.harness.papers.device_order import outcome_of, outcome_with_copies, told
from tests.harness.papers.device_rows import exact, on, replay, steps
from tests.harness.papers.rows import claim_of, frame_of, verdict


def test_intervals_that_overlap_order_nothing(tmp_path: Path) -> None:
    """At batch 32 the FPGA takes 32 us, and the GPU 31.9 to 32.6 us."""
    rows = [row for row in steps() if (row.device, row.batch_size) != ("cuda", 32)]
    rows.append(on("cuda", "learner.step", 32, 32.2e-6))
    found = verdict("MAP-F11", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "32 not told apart" in found.explanation


def test_cycles_are_exact_and_a_time_without_an_interval_orders_nothing(tmp_path: Path) -> None:
    counted = [exact(row) if row.backend == "fpga" else row for row in steps()]
    assert verdict("MAP-F11", tmp_path / "counted", *counted).finding.outcome is Outcome.CONSISTENT
    for device in ("cpu", "cuda"):
        bare = [exact(row) if row.device == device else row for row in steps()]
        assert verdict("MAP-F11", tmp_path / device, *bare).finding.outcome is Outcome.NO_VERDICT
    rows, claim = replay("sum_tree.update", {32: 90, 16384: 12}), claim_of("MAP-F12-update")
    assert claim.judge(frame_of(tmp_path / "update", *rows)).outcome is Outcome.CONSISTENT
    bare = [exact(row) for row in rows]
    assert claim.judge(frame_of(tmp_path / "bare", *bare)).outcome is Outcome.NO_VERDICT


def test_one_other_kind_first_refutes_and_one_unknown_leaves_it_open() -> None:
    for first, expected in permutations(("cpu", "cuda", "fpga"), 2):
        assert outcome_of([(expected, expected), (None, first), (first, expected)]) is Outcome.NOT_REPRODUCED
        assert outcome_of([(expected, expected), (None, first)]) is Outcome.NO_VERDICT
        assert outcome_of([(expected, expected), (first, first)]) is Outcome.IN_KIND


def test_what_copies_may_explain_is_consistent_at_most() -> None:
    """The GPU's calls copy, and the FPGA's times have no link: both favour the FPGA."""
    assert outcome_with_copies([("fpga", "fpga"), ("cuda", "cuda")]) is Outcome.CONSISTENT
    assert outcome_with_copies([("fpga", "fpga"), (None, "cuda")]) is Outcome.NO_VERDICT
    assert outcome_with_copies([("cuda", "fpga"), (None, "cuda")]) is Outcome.NOT_REPRODUCED


def test_an_fpga_without_its_link_refutes_no_gpu() -> None:
    kinds = ("cpu", "cuda", "fpga", None)
    for first, expected in product(kinds, ("cuda", "fpga")):
        assert told(first, expected) == (None if (first, expected) == ("fpga", "cuda") else first)


def test_an_fpga_that_is_first_at_large_batches_too_is_no_verdict(tmp_path: Path) -> None:
    found = verdict("MAP-F11", tmp_path, *steps(fpga_s=1e-9)).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "4096 FPGA. The GPU's calls copy their data from the host and back" in found.explanation
