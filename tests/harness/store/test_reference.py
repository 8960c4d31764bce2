"""Reference runs."""

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.row import Row
from placerl.harness.report import pages, reading
from placerl.harness.store import reference
from placerl.harness.store.rows import ClaimRow
from placerl.harness.store.store import Store
from tests.harness.papers.rows import measurement, profiled, trained
from tests.harness.report import sample


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample.write(tmp_path_factory.mktemp("store") / "store.sqlite")


def test_a_reference_comes_back_as_it_was(store: Path, tmp_path: Path) -> None:
    reference.save(store, "standard", tmp_path)
    (loaded,) = reference.load(tmp_path)
    with Store.open(store, read_only=True) as opened:
        run = opened.runs()[-1]
        assert list(loaded.measurements) == opened.measurements(run=run.id)
    assert (loaded.name, loaded.run) == ("standard", run)


def test_the_command_line_saves_a_reference_and_prints_its_files(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save = reference.save
    monkeypatch.setattr(reference, "save", lambda store, name: save(store, name, tmp_path))
    reference.main([str(store), "mine"])
    written = capsys.readouterr().out.split()
    assert sorted(written) == sorted(str(path) for path in tmp_path.iterdir())
    assert {Path(path).stem for path in written} == {"mine"}


def test_of_two_references_that_are_as_near_the_shorter_name_is_first(store: Path, tmp_path: Path) -> None:
    for name in ("with-gpu-validation", "with-gpu"):
        reference.save(store, name, tmp_path)
    assert [one.name for one in reference.load(tmp_path)] == ["with-gpu", "with-gpu-validation"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: STORE, NAME"),
        (["none.sqlite", "mine"], "none.sqlite"),
        (["none.sqlite", "../up"], "name: found"),
        (["none.sqlite", "mine", "more"], "unrecognized arguments: more"),
        (["none.sqlite", "mine", "--all"], "unrecognized arguments: --all"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        reference.main(arguments)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_a_run_is_never_beside_itself_and_rather_of_its_own_machine(store: Path, tmp_path: Path) -> None:
    reference.save(store, "standard", tmp_path)
    with Store.open(store, read_only=True) as opened:
        old, new = opened.runs()
    loaded = reference.load(tmp_path)
    assert reference.beside(new, loaded) is None
    assert reference.beside(old, loaded) is loaded[0]
    other = new.__class__(9, "k", "quick", "r", "other", {}, "")
    elsewhere = dataclasses.replace(loaded[0], name="elsewhere", run=other)
    assert reference.beside(old, [elsewhere, *loaded]) is loaded[0]
    counts = dataclasses.replace(loaded[0], measurements=())
    assert reference.beside(old, [counts, elsewhere]) is elsewhere, "counts are nothing to compare with"


def test_a_damaged_reference_is_named(store: Path, tmp_path: Path) -> None:
    _, record = reference.save(store, "standard", tmp_path)
    record.write_text("{}")
    with pytest.raises(UserError, match=r"standard\.json: id: found nothing; allowed: a committed run: NAME"):
        reference.load(tmp_path)
    reference.save(store, "standard", tmp_path)
    (tmp_path / "standard.parquet").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"standard\.parquet"):
        reference.load(tmp_path)
    (tmp_path / "standard.parquet").unlink()
    with pytest.raises(
        UserError, match=r"standard\.parquet: file: found no such file; allowed: a committed run"
    ):
        reference.load(tmp_path)
    with pytest.raises(UserError, match="name: found"):
        reference.save(store, "../up", tmp_path)


def test_files_of_two_runs_are_refused(tmp_path: Path) -> None:
    """As a process leaves them that is killed between the two."""
    with Store.open(tmp_path / "store.sqlite") as store:
        for tier in ("quick", "standard"):
            run = store.begin_run(tier, "revision", {"fingerprint": "here"})
            run.finish("a", [profiled("sum_tree.sample", 1.0)])
            reference.save(store.path, tier, tmp_path)
    (tmp_path / "quick.parquet").replace(tmp_path / "standard.parquet")
    (tmp_path / "quick.json").unlink()
    with pytest.raises(UserError, match=r"standard\.parquet: found measurements of run"):
        reference.load(tmp_path)


def test_measurements_that_name_no_run_are_read(store: Path, tmp_path: Path) -> None:
    """References that were saved by earlier versions."""
    table_path, _ = reference.save(store, "standard", tmp_path)
    (named,) = reference.load(tmp_path)
    table = pd.read_parquet(table_path)
    table.attrs = {}
    table.to_parquet(table_path, index=False)
    (loaded,) = reference.load(tmp_path)
    assert loaded.measurements == named.measurements


def test_no_folder_is_no_reference(tmp_path: Path) -> None:
    assert reference.load(tmp_path / "none") == []


def test_the_committed_references_can_be_read() -> None:
    for found in reference.load():
        assert found.measurements


def samples_of(value: float, **fields: Any) -> Row:
    """A profile row with samples, as a verdict needs them."""
    return profiled(
        "sum_tree.sample", value, samples=tuple(value * (1 + i / 1000) for i in range(20)), **fields
    )


def test_of_very_many_samples_it_keeps_some_evenly_and_says_so(tmp_path: Path) -> None:
    many = tuple(float(step) for step in range(5001))
    details: dict[str, Any] = {"environment_step": [10 * step for step in range(5001)], "seeds": [0, 1]}
    with Store.open(tmp_path / "store.sqlite") as opened:
        run = opened.begin_run("standard", "revision", {"fingerprint": "here"})
        run.finish("run", [trained(1.0, quantity="episode_return", unit="1", samples=many, details=details)])
    reference.save(tmp_path / "store.sqlite", "standard", tmp_path)
    ((row,),) = (found.measurements for found in reference.load(tmp_path))
    assert len(row.samples) == reference.MOST_SAMPLES
    assert (row.samples[0], row.samples[-1], row.value) == (0.0, 5000.0, 1.0)
    assert max(later - sooner for sooner, later in pairwise(row.samples)) <= 6
    assert row.episode_ends == [10 * step for step in row.samples]
    assert row.highs == [step + 9.5 for step in range(4982)], (
        "each mean of 20 in a row is higher than all before"
    )
    assert row.high_ends == [10 * (step + 19) for step in range(4982)]
    assert (row.notes["seeds"], row.notes["samples_measured"]) == ([0, 1], 5001)


def test_of_a_timed_row_it_keeps_what_was_moved_to_full_speed(tmp_path: Path) -> None:
    pace = {"slope": 0.7, "exposure": [0.5, 0.25], "clock_s": [1.0, 2.0]}
    row = profiled("learner.step", 1.0, samples=(1 / 3, 1.0), details={"pace": pace, "target": "native"})
    of_a_claim = dataclasses.replace(row, suite="claim")
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "r", {"fingerprint": "f"}).finish("a", [row, of_a_claim])
    reference.save(tmp_path / "store.sqlite", "quick", tmp_path)
    ((loaded, paired),) = (each.measurements for each in reference.load(tmp_path))
    assert paired.timed.pace == {"slope": 0.7, "exposure": [0.5, 0.25]}
    assert (loaded.timed.pace, loaded.target) == ({"slope": 0.7}, "native")
    assert loaded.samples == (0.333333, 1.0)
    assert (loaded.value, loaded.low, loaded.high) == (row.value, row.low, row.high)


def test_a_reference_of_another_machine_gives_no_verdict(tmp_path: Path) -> None:
    for name, machine, value in (("here", sample.MACHINE, 1.0), ("there", {"fingerprint": "other"}, 5.0)):
        with Store.open(tmp_path / f"{name}.sqlite") as made:
            made.begin_run("quick", name, machine).finish("cell", [samples_of(value)])
    reference.save(tmp_path / "there.sqlite", "there", tmp_path / "references")
    read = reading.read(tmp_path / "here.sqlite", references=reference.load(tmp_path / "references"))
    (change,) = read.changes
    assert change.ratio is not None
    assert (change.verdict, change.reason) == ("no verdict", "the reference was measured on another machine")
    page = pages.render(read, pages.CHANGES)
    assert "No verdict between different machines." in page


def test_only_last_attempts_are_compared_and_saved(tmp_path: Path) -> None:
    with Store.open(tmp_path / "old.sqlite") as made:
        run = made.begin_run("quick", "old", sample.MACHINE)
        run.finish("cell", [samples_of(9.0)])
        run.finish("cell#2", [samples_of(1.0)])
    reference.save(tmp_path / "old.sqlite", "old", tmp_path)
    (loaded,) = reference.load(tmp_path)
    assert list(loaded.measurements) == [samples_of(1.0)]
    with Store.open(tmp_path / "new.sqlite") as made:
        run = made.begin_run("quick", "new", sample.MACHINE)
        run.finish("cell", [samples_of(5.0)])
        run.finish("cell#2", [samples_of(1.0)])
    (change,) = reading.read(tmp_path / "new.sqlite", references=[loaded]).changes
    assert change.ratio is not None
    assert change.ratio.value == 1.0


@pytest.mark.parametrize("cells", [(), ("memory/quick/1",)], ids=["nothing", "its peak memory"])
def test_a_run_that_was_interrupted_at_once_hides_no_results(cells: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path) as made:
        made.begin_run("quick", "measured", sample.MACHINE).finish("cell", [samples_of(1.0)])
        interrupted = made.begin_run("quick", "interrupted", sample.MACHINE)
        for cell in cells:
            peak = {"suite": "memory", "primitive": "main process", "quantity": "peak_memory", "unit": "B"}
            interrupted.finish(cell, [measurement(1e9, **peak)])
    shown = reading.read(path)
    assert shown.run is not None
    assert (shown.run.revision, len(shown.runs), len(shown.primitives)) == ("measured", 2, 1)
    reference.save(path, "standard", tmp_path)
    (saved,) = reference.load(tmp_path)
    assert saved.run.revision == "measured"
    assert list(saved.measurements) == [samples_of(1.0)]


def test_a_later_run_replaces_what_it_measured_again_and_the_reference_itself_is_no_part(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path) as made:
        made.begin_run("standard", "new", sample.MACHINE).finish("cell", [samples_of(9.0)])
    reference.save(path, "standard", tmp_path)
    with Store.open(path) as made:
        made.begin_run("quick", "new", sample.MACHINE).finish("cell", [samples_of(3.0)])
        made.begin_run("bench", "new", sample.MACHINE).finish("cell", [samples_of(18.0)])
    (change,) = reading.read(path, references=reference.load(tmp_path)).changes
    assert change.before is not None
    assert change.after is not None
    assert (change.before.value, change.after.value) == (9.0, 18.0)


def test_the_page_shows_what_changed(store: Path, tmp_path: Path) -> None:
    reference.save(store, "standard", tmp_path)
    later = tmp_path / "later.sqlite"
    with Store.open(store, read_only=True) as opened:
        rows = opened.measurements(run=opened.runs()[-1].id)
    with Store.open(later) as made:
        made.begin_run("quick", "later", sample.MACHINE).finish("all", rows)
    read = reading.read(later, references=reference.load(tmp_path))
    assert read.reference is not None
    assert read.reference.name == "standard"
    times = [c for c in read.changes if c.before and c.after]
    assert times
    assert all(c.before.value == c.after.value for c in times if c.before and c.after)
    page = pages.render(read, pages.CHANGES)
    assert "Compared with the reference run" in page
    assert "standard" in page


def test_lists_with_an_entry_a_sample_are_thinned_with_the_samples() -> None:
    many = 3 * reference.MOST_SAMPLES
    row = ClaimRow(
        suite="claim",
        primitive="training",
        quantity="episode_return",
        provenance="measured",
        value=1.0,
        samples=range(many),
        experiment="X",
        parameters={"steps": list(range(many)), "seed": 0},
        notes={"lengths": list(range(many))},
    )
    kept = reference._thinned(row)
    assert list(kept.samples) == kept.parameters["steps"] == kept.notes["lengths"]
    assert len(kept.samples) == reference.MOST_SAMPLES
    assert kept.parameters["seed"] == 0
    assert kept.notes["samples_measured"] == many


def test_a_reference_of_a_tier_s_name_is_its_last_run_and_grows_with_it(tmp_path: Path) -> None:
    machine = {"fingerprint": "here"}
    with Store.open(tmp_path / "store.sqlite") as store:
        night = store.begin_run("night", "revision", machine)
        night.finish("a", [profiled("sum_tree.sample", 1.0)])
        store.begin_run("quick", "revision", machine).finish("b", [profiled("sum_tree.sample", 2.0)])
        reference.save(store.path, "night", tmp_path)
        (before,) = reference.load(tmp_path)
        night.finish("c", [profiled("sum_tree.sample", 3.0)])
        reference.save(store.path, "night", tmp_path)
    (after,) = reference.load(tmp_path)
    assert (before.cells, after.cells) == (("a",), ("a", "c"))
    assert before.run == after.run
