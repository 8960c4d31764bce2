"""The benchmark of threads on one replay measures every side, stores the rows and writes a table."""

from pathlib import Path

from placerl.harness.papers.pal.figure_9_locks import SHARINGS
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused


def test_stores_every_side_and_writes_a_table(placerl: Placerl, tmp_path: Path) -> None:
    options = ["--batch-sizes", "16", "--threads", "1,2", "--capacity", "512", "--rounds", "15"]
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    outcome = placerl("bench", "replay-threads", *options, "--budget-s", "0", *folders)
    assert outcome.status == 0
    text = (tmp_path / "out" / "table.md").read_text()
    assert text in outcome.out
    assert "| two locks over one lock, binary tree |" in text
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        rows = store.measurements(suite="claim")
    assert len(rows) == 2 * (len(SHARINGS) + 1)
    assert all(len(row.samples) == 15 and row.unit == "s" for row in rows)


def test_threads_are_whole_numbers_from_1(placerl: Placerl) -> None:
    refused(placerl("bench", "replay-threads", "--threads", "1,two"), "--threads: found 'two'")
