"""The replay benchmark: every tree is checked before it is timed, and one that fails is a row that says why."""

import sys
from pathlib import Path

import pytest

from placerl.harness.cli.bench import replay_bench, tree_rows
from placerl.harness.cli.bench.replay_bench import measure
from placerl.harness.cli.bench.replay_table import (
    FLOOR_RATIO,
    NULL_RATIO,
    PAL_RATIO,
    PEER_GAIN,
    TreeResult,
    judged,
    table,
)
from placerl.harness.cli.bench.tree_rows import (
    FLOORS,
    NULL,
    PAL,
    WORKER,
    TreeRow,
    floor_rows,
    own_rows,
    pal_rows,
    peer_rows,
)
from placerl.harness.measure.rows import summary_row
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused

TREE = """
VERSION, NOTE = "1", ""
class create:
    def __init__(self, capacity): self.capacity = capacity
    def fill(self, priorities): pass
    def update(self, indices, priorities): pass
    def sample(self, size, rng): return rng.integers(0, self.capacity, size)
"""
BROKEN = {"crashes": "raise SystemExit(3)", "draws wrongly": TREE}


def row_of(name: str, source: str, folder: Path) -> TreeRow:
    """A peer whose `tree.py` has this source."""
    script = folder / f"{name.replace(' ', '_')}.py"
    script.write_text(source)
    return TreeRow(name, [sys.executable, str(WORKER), str(script)], peer=True)


def closing(rows: list[TreeRow]) -> None:
    for row in rows:
        row.close()


def test_times_ours_beside_peers_that_fail(tmp_path: Path) -> None:
    ours = [row for row in own_rows() if row.name in ("native", NULL, "binary")]
    broken = [row_of(name, source, tmp_path) for name, source in BROKEN.items()]
    (missing,) = peer_rows(["no_such_peer"])
    rows = [*ours, *broken, missing]
    rows += [*pal_rows(), *floor_rows()]
    try:
        measured = measure(5000, [32, 256], 15, rows, lambda *_: None)
    finally:
        closing(rows)
    times = [m for m in measured if m.quantity == "time_per_call"]
    assert len(times) == 3 * 2 * len(rows)
    for m in times:
        if m.backend in ("native", "binary", *PAL, *FLOORS):
            assert m.status in ("ok", "too_noisy"), m.reason
            assert len(m.samples) == 15
        else:
            assert m.status == ("not_run" if m.backend == "no_such_peer" else "failed")
    for quantity in (NULL_RATIO, PAL_RATIO, FLOOR_RATIO):
        assert sum(m.quantity == quantity for m in measured) == 6
    assert not any(m.quantity == PEER_GAIN for m in measured)
    assert "exit status 3" in broken[0].failure
    assert "drawn too seldom" in broken[1].failure
    assert missing.failure.startswith("not run: needs")
    text = table(measured)
    assert "| native (A/A null) |" in text
    assert "drawn too seldom" in text


class Slow(TreeRow):
    """A tree whose calls take as long as it says."""

    call_s = 0.5

    def fill(self, capacity: int) -> None:
        pass

    def block(self, operation: str, batch_size: int, calls: int, seed: int) -> float:
        return self.call_s * calls


def test_a_slow_tree_takes_part_in_as_many_rounds_as_its_limit_holds(monkeypatch) -> None:
    rows = [Slow("slow", [], peer=True), Slow("slower", [], peer=True), Slow("fast", [], peer=True)]
    rows[1].call_s, rows[2].call_s = 2.0, 1e-3
    found = {
        row.backend: row
        for row in measure(8, [8], 15, rows, lambda *_: None)
        if row.primitive == "sum_tree.sample"
    }
    assert [len(found[row.name].samples) for row in rows] == [6, 1, 15]
    assert found["slower"].status == "too_noisy"
    assert "1 samples in the time given, where 5 are the fewest" in found["slower"].reason


def test_an_answer_that_takes_too_long_is_not_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tree_rows, "FILL_LIMIT_S", 0.2)
    row = row_of("sleeps", f"import time; time.sleep(60)\n{TREE}", tmp_path)
    first, *_ = measure(100, [32], 15, [row], lambda *_: None)
    assert row.failure == "not run: capacity 100 takes longer than 0.2 s, the benchmark's limit"
    assert (first.status, first.reason) == ("not_run", row.failure)


def cell(
    native_us: float, peer_us: float, floor_us: float, null_us: float = 0.0, size: int = 256
) -> list[TreeResult]:
    """Rows of one cell, with 30 samples each that vary by 1%."""

    def timed(name: str, time_us: float, peer: bool = False) -> TreeResult:
        seconds = tuple(time_us * 1e-6 * (1 + 0.01 * (7 * i % 30) / 30) for i in range(30))
        return summary_row(
            TreeResult, seconds, suite="bench-replay", primitive="sum_tree.sample", quantity="time_per_call",
            backend="native" if name == NULL else name, null=name == NULL, peer=peer, batch_size=size, capacity=1000,
        )  # fmt: skip

    return [
        timed("native", native_us),
        timed(NULL, null_us or native_us),
        timed("slow", 10 * peer_us, peer=True),
        timed("fast", peer_us, peer=True),
        timed("pal 16", 2 * floor_us),
        timed("pal 1024", 1.5 * floor_us),
        timed("load_independent", floor_us),
        timed("load_dependent", 2 * floor_us),
    ]


@pytest.mark.parametrize(
    ("peer_us", "floor_us", "null_us", "over_peer", "over_floor", "over_pal"),
    [
        (10.0, 1.5, 2.0, "met", "met", "met"),
        (6.0, 0.5, 2.0, "missed", "missed", "missed"),
        (9.0, 1.2, 3.0, "no verdict", "no verdict", "no verdict"),  # it differs from itself by half
    ],
)
def test_the_verdict_is_against_the_fastest_peer_and_floor(
    peer_us: float, floor_us: float, null_us: float, over_peer: str, over_floor: str, over_pal: str
) -> None:
    rows = {m.quantity: m for m in judged(cell(2.0, peer_us, floor_us, null_us))}
    assert rows[PEER_GAIN].against == "fast"
    assert rows[PEER_GAIN].value == pytest.approx(peer_us / 2)
    assert rows[PEER_GAIN].verdict == over_peer
    assert rows[FLOOR_RATIO].against == "load_independent"
    assert rows[FLOOR_RATIO].value == pytest.approx(2 / floor_us)
    assert rows[FLOOR_RATIO].verdict == over_floor
    assert rows[PAL_RATIO].against == "pal 1024"
    assert rows[PAL_RATIO].verdict == over_pal
    assert rows[NULL_RATIO].value == pytest.approx(2 / null_us)


def test_a_cell_that_misses_says_what_bounds_it() -> None:
    rows = cell(2.0, 6.0, 0.5)
    text = table([*rows, *judged(rows)])
    assert "3.00x [3.00, 3.00] fast; target 4x: MISSED" in text
    assert "sample, B=256, capacity 1,000" in text
    assert "Bound by instructions within nodes" in text
    small = cell(2.0, 6.0, 0.5, size=32)
    text = table([*small, *judged(small)])
    assert "no target" in text
    assert "Bound by the call itself" in text


def test_stores_its_rows(placerl: Placerl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [row for row in own_rows() if row.name in ("native", NULL)]
    monkeypatch.setattr(replay_bench, "own_rows", lambda: few)
    options = ["--rounds", "15", "--capacities", "1000", "--batch-sizes", "32", "--peers", "none"]
    outcome = placerl("bench", "replay", "--out", str(tmp_path / "out"), "--results", str(tmp_path), *options)
    assert outcome.status == 0
    assert (tmp_path / "out" / "table.md").read_text() in outcome.out
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        assert store.cells(1) == ["bench-replay/1000/rounds=15/batch_sizes=32/peers=none"]
        rows = store.measurements(suite="bench-replay")
    assert {m.provenance for m in rows} == {"measured"}
    assert {m.primitive for m in rows} == {f"sum_tree.{name}" for name in replay_bench.OPERATIONS}


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--rounds", "1", "greater than or equal to 15"),
        ("--capacities", "8,0", "whole numbers of at least 1, separated by commas"),
        ("--batch-sizes", "x", "whole numbers of at least 1, separated by commas"),
        ("--peers", "cprb", "cpprb, "),
    ],
)
def test_a_wrong_option_is_refused(
    placerl: Placerl, option: str, value: str, allowed: str, tmp_path: Path
) -> None:
    outcome = placerl("bench", "replay", option, value, "--results", str(tmp_path / "none"))
    refused(outcome, f"{option}: found '{value.split(',')[-1]}'; allowed: ", allowed)
    assert not (tmp_path / "none").exists()


def test_own_trees_find_the_modules_that_this_process_finds(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('found').touch()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    row = next(row for row in own_rows() if row.name == "native")
    try:
        row.fill(4096)
        assert (tmp_path / "found").exists()
        assert not row.failure
    finally:
        row.close()
