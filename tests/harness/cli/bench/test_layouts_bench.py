"""The layout ablation runs over every fanout, aligned and not, and stores what it found."""

from pathlib import Path

from placerl.harness.cli.bench import layouts_bench
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl


def test_every_layout_of_a_small_tree(placerl: Placerl, tmp_path: Path) -> None:
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    options = ["--rounds", "5", "--capacities", "500", "--batch-size", "2048"]
    outcome = placerl("bench", "layouts", *folders, *options)
    assert outcome.status == 0
    text = (tmp_path / "out" / "table.md").read_text()
    assert text in outcome.out
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        measurements = store.measurements(suite="bench-layouts")
    assert len(measurements) == 2 * 2 * len(layouts_bench.FANOUTS)
    assert all(m.status in ("ok", "too_noisy") for m in measurements), measurements
    assert all(f"K={fanout}, not aligned" in text for fanout in layouts_bench.FANOUTS)
