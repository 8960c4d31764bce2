"""Stores and reference runs of schema 1 are read as rows of their kinds, number by number."""

import gzip
import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness.core.row import HowTimed, Row
from placerl.harness.core.suites import Suite
from placerl.harness.store import migration, reference, tables
from placerl.harness.store.rows import ClaimRow, ComparisonResult, OfStrategy, OtherResult
from placerl.harness.store.store import Store

OLD = Path(__file__).with_name("schema_1.sqlite.gz")
"""A store that the last version with schema 1 wrote, with rows of every suite."""
LISTS = {"environment_steps": "steps", "episodes": "episodes"}
"""Numbers whose list, one entry a seed or a stretch, has a column of its own."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "old.sqlite"
    found.write_bytes(gzip.decompress(OLD.read_bytes()))
    return found


def old_rows(path: Path) -> list[dict[str, Any]]:
    """What a store of schema 1 holds, read without the program."""
    query = f"SELECT {', '.join(migration.COLUMNS)} FROM measurement ORDER BY id"
    with closing(sqlite3.connect(path)) as database:
        found = [dict(zip(migration.COLUMNS, one, strict=True)) for one in database.execute(query)]
    return [one | {name: json.loads(one[name]) for name in ("samples", "details")} for one in found]


def saved_rows(path: Path) -> Iterator[dict[str, Any]]:
    """What a reference of schema 1 holds, read without the program."""
    table = pd.read_parquet(path)
    for one in table.astype(object).where(table.notna(), None).to_dict("records"):
        size = one["batch_size"]
        yield one | {
            "batch_size": None if size is None else int(size),
            **{name: json.loads(one[name]) for name in ("samples", "details")},
        }


def entries(row: Row) -> dict[str, Any]:
    """Everything that a row states beyond the shared columns, by the name of its column."""
    own = {name: getattr(row, name) for name in tables.columns(type(row))}
    timed = {one.name: getattr(row.timed, one.name) for one in fields(HowTimed)}
    spread = own.pop("parameters", None) or {}
    return {**timed, **row.notes, **spread, **own, "precisions": list(row.precisions), "ray_node": row.node}


SLOW = {
    "latency_us": "slow_link_us",
    "gps": "slow_gps",
    "chosen": "slow_chosen",
    "stays_chosen": "slow_chosen",
}
VALIDATIONS = (Suite.VALIDATION, Suite.PRECISION_VALIDATION)
CALLS = ("sample", "update", "insert")
OF_DESIGNS = {
    None: {"learner.core_step": "learner.step"}
    | {f"sum_tree.single_{one}": f"sum_tree.{one}" for one in CALLS},
    True: {"learner.step": "learner.pipeline_step"}
    | {f"sum_tree.{one}": f"sum_tree.banked_{one}" for one in CALLS},
}
"""New names of primitives on a simulated device in validations, by whether mappings use the design."""


def check(old: Mapping[str, Any], row: Row) -> None:
    """Every entry of a row of schema 1 is in the row of its kind, unchanged and under its declared name."""
    for name in migration.SHARED:
        expected = tuple(map(float, old[name])) if name == "samples" else old[name]
        if name == "primitive" and old["suite"] in VALIDATIONS and old["backend"] == "fpga":
            expected = OF_DESIGNS.get(old["details"].get("mapped"), {}).get(expected, expected)
        assert getattr(row, name) == expected
    assert (row.who, row.where) == (old["backend"], old["device"])
    renamed, found = migration.RENAMED.get(type(row), {}), entries(row)
    details = dict(old["details"])
    if isinstance(row, OfStrategy):
        details |= {SLOW[name]: value for name, value in (details.pop("slow_links", None) or {}).items()}
    for name, value in details.items():
        place = renamed.get(name, name)
        if isinstance(value, list) and name in LISTS and place not in found:
            place = name
        if name == "device" and old["suite"] == Suite.SIMULATED_PREDICTION:
            place = "simulated_device"
        by = [
            other
            for other in (f"{LISTS.get(name)}_by_seed", f"{LISTS.get(name)}_by_stretch")
            if other in found
        ]
        if isinstance(value, list) and by:
            (place,) = by
        assert found[place] == value, f"{type(row).__name__}: {name}"


@pytest.mark.parametrize("saved", sorted(reference.FOLDER.glob("*.parquet")), ids=lambda path: path.stem)
def test_a_reference_keeps_every_number(saved: Path) -> None:
    if "kind" in pd.read_parquet(saved).columns:
        pytest.skip("saved with this schema")
    _, found = reference.read_rows(saved)
    old = list(saved_rows(saved))
    assert len(old) == len(found) > 1000
    for one, row in zip(old, found, strict=True):
        check(one, row)
        assert not isinstance(row, OtherResult)


def test_an_old_store_keeps_every_number_and_is_not_changed_by_reading(path: Path) -> None:
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    old = old_rows(path)
    newer = {"bench-settings", "bench-gpu", "bench-cards", "bench-rent", "bench-why", "bench-time-to-return"}
    assert {one["suite"] for one in old} == set(map(str, Suite)) - newer
    with Store.open(path, read_only=True) as store:
        found = store.measurements()
        assert len(store.frame()) == len(found) == len(old)
        assert [run.revision for run in store.runs()] == ["r1", "r2"]
    for one, row in zip(old, found, strict=True):
        check(one, row)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_run_in_an_old_store_goes_on_in_a_new_one(path: Path) -> None:
    with Store.open(path, read_only=True) as store:
        before = store.measurements()
    with Store.open(path) as store:
        run = store.begin_run("quick", "r2", {"fingerprint": "f00d"})
        assert run.finished("more")
        run.finish("after", before[:1])
    with Store.open(path, read_only=True) as store:
        assert store.measurements() == [*before, before[0]]
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (tables.VERSION,)


def test_an_old_store_is_merged_into_a_new_one(path: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "new.sqlite") as new, Store.open(path, read_only=True) as old:
        assert new.copy_from(old) == len(old.cells(1)) + len(old.cells(2))
        assert new.measurements() == old.measurements()
        assert new.copy_from(old) == 0


@pytest.mark.parametrize(
    "spoilt", ["details = '[]'", "unit = ''", "samples = '{}'", "provenance = 'guessed'"]
)
def test_an_old_store_of_other_content_is_refused(path: Path, spoilt: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE measurement SET {spoilt}")
    with pytest.raises(Exception, match="store content"):
        Store.open(path, read_only=True)


def test_an_old_store_with_a_trigger_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TRIGGER t AFTER INSERT ON cell BEGIN DELETE FROM measurement; END")
    with pytest.raises(Exception, match="other tables"):
        Store.open(path, read_only=True)


def old_row(**stated: Any) -> dict[str, Any]:
    """A row of schema 1 with the given columns."""
    plain = dict.fromkeys(migration.COLUMNS, "") | {"batch_size": None, "low": None, "high": None}
    plain |= {"samples": [], "details": {}, "value": 1.0, "unit": "1", "primitive": "training"}
    return plain | {"provenance": "measured", "status": "ok", "quantity": "failure", **stated}


def test_a_row_keeps_what_it_called_parameters_itself() -> None:
    details = {"experiment": "X", "parameters": {"depth": 3}, "a": 1}
    row = migration.typed(old_row(suite="claim", quantity="cycles", details=details))
    assert row.parameters == {"depth": 3, "a": 1}


@pytest.mark.parametrize(
    ("suite", "quantity"),
    [("prediction", "gradient_steps_per_s"), ("validation", "regret"), ("learn", "final_return")],
)
def test_a_row_without_a_backend_opens(suite: str, quantity: str) -> None:
    assert migration.typed(old_row(suite=suite, quantity=quantity)).who == ""


@pytest.mark.parametrize("suite", ["run", "cluster"])
def test_a_training_that_failed_keeps_its_mapping(suite: str) -> None:
    failed = {"backend": "placerl", "device": "native-native-cpu", "status": "failed", "reason": "x"}
    row = migration.typed(old_row(suite=suite, value=None, **failed))
    assert row.where == "native-native-cpu"


def test_a_suite_that_is_not_known_holds_other_results() -> None:
    assert migration.kind_of("claim", "cycles") is ClaimRow
    for suite in ("a", "claims", "zzz"):
        assert migration.kind_of(suite, "cycles") is OtherResult


def test_a_comparison_names_its_baseline_or_was_measured_in_it() -> None:
    fields = {"suite": "compare", "quantity": "gradient_steps_per_s", "unit": "1/s", "backend": "placerl"}
    stated = migration.typed(old_row(**fields, details={"baseline": "sb3"}))
    assert isinstance(stated, ComparisonResult)
    assert (stated.system, stated.baseline) == ("placerl", "sb3")
    bare = migration.typed(old_row(**fields | {"backend": "sb3"}))
    assert isinstance(bare, ComparisonResult)
    assert (bare.system, bare.baseline) == ("sb3", "sb3")
