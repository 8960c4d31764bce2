"""`placerl report`, `placerl diff` and `placerl merge`: what reads finished stores."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.core.revision import store_path
from placerl.harness.store import reference
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, refused, stored
from tests.harness.papers.rows import measurement, profiled
from tests.harness.report import sample


def test_a_folder_where_the_store_should_be_is_named_as_such(placerl: Placerl, tmp_path: Path) -> None:
    (tmp_path / "placerl.sqlite").mkdir()
    refused(placerl("report", "--results", str(tmp_path)), "found something that is no file")


@pytest.mark.usefixtures("plots_not_drawn", "one_claim_s_page")
def test_a_report_as_json_has_every_verdict(placerl: Placerl, tmp_path: Path) -> None:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "r1", {"fingerprint": "f"})
    outcome = placerl("report", "--results", str(tmp_path), "--json")
    assert outcome.status == 0
    answer = json.loads(outcome.out)
    assert Path(answer["report"]).is_file()
    assert {verdict["key"] for verdict in answer["verdicts"]} == {claim.key for claim in papers.claims()}
    assert all(verdict["ours"] for verdict in answer["verdicts"] if verdict["verdict"] != "not run")


@pytest.mark.usefixtures("pages_not_written")
def test_a_report_says_how_many_timed_rows_are_too_noisy(placerl: Placerl, tmp_path: Path) -> None:
    with Store.open(tmp_path / "placerl.sqlite") as store:
        run = store.begin_run("quick", "r1", {"fingerprint": "f"})
        run.finish("a", [measurement(1.0, suite="claim", primitive="p")])
        untimed = placerl("report", "--results", str(tmp_path))
        noisy = {"status": "too_noisy", "reason": "its interval is 40% wide"}
        run.finish("b", [profiled("round.learn", 1.0), profiled("round.sample", 1.0, **noisy)])
        run.finish("c", [profiled("learner.step", 1.0)])
    timed = placerl("report", "--results", str(tmp_path))
    answer = json.loads(placerl("report", "--results", str(tmp_path), "--json").out)
    assert (untimed.status, timed.status) == (0, 0)
    assert "timed rows" not in untimed.out
    assert "1 of 3 timed rows too noisy (33.3%)" in timed.out.splitlines()
    assert (answer["timed_rows"], answer["too_noisy_rows"]) == (3, 1)


def test_a_report_of_no_run_is_refused(placerl: Placerl, tmp_path: Path) -> None:
    refused(placerl("report", "--results", str(tmp_path / "none")), "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("place", ["nowhere", "file", "empty"])
def test_a_report_compared_with_what_holds_no_reference_is_refused(
    placerl: Placerl, tmp_path: Path, place: str
) -> None:
    stored(tmp_path / "results", "r1", rate=1.0)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no folder")
    compare = str(tmp_path / place)
    outcome = placerl("report", "--results", str(tmp_path / "results"), "--compare", compare)
    refused(outcome, f"--compare: found {compare}; allowed: a folder with a reference run")
    assert not (tmp_path / "results" / "report").exists()


def test_diff_says_which_way_each_quantity_went(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path, "r1", rose=1.0, fell=1.0, stayed=1.0)
    stored(tmp_path, "r2", rose=2.0, fell=0.5, stayed=1.01)
    outcome = placerl("diff", f"{tmp_path}#1", str(tmp_path), "--all", "--json")
    assert outcome.status == 0
    verdicts = {row["key"]["primitive"]: row["verdict"] for row in json.loads(outcome.out)}
    assert verdicts == {"rose": "better", "fell": "worse", "stayed": "no verdict"}
    assert "better: 1, worse: 1, no verdict: 1" in placerl("diff", f"{tmp_path}#1", f"{tmp_path}#2").out
    refused(placerl("diff", f"{tmp_path}#3", str(tmp_path)), "RUN", "#3", "1, 2")


def test_diff_takes_the_last_run_that_holds_results(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path, "r1", rate=1.0)
    stored(tmp_path, "r2", rate=2.0)
    with Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "interrupted", {"fingerprint": "f"})
    assert "better: 1, worse: 0, no verdict: 0" in placerl("diff", f"{tmp_path}#1", str(tmp_path)).out


def test_diff_of_two_machines_gives_no_verdict(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", "laptop", rose=1.0)
    stored(tmp_path / "b", "r1", "server", rose=2.0)
    assert (
        "better: 0, worse: 0, no verdict: 1" in placerl("diff", str(tmp_path / "a"), str(tmp_path / "b")).out
    )


@pytest.mark.parametrize(
    ("rate", "asked", "status"),
    [
        (0.5, None, 0),
        (0.5, "worse", 1),
        (0.5, "changed", 1),
        (2.0, "worse", 0),
        (2.0, "changed", 1),
        (1.01, "changed", 0),  # within the drift of a machine
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_diff_fails_a_ci_on_what_it_is_asked_to(
    placerl: Placerl, tmp_path: Path, rate: float, asked: str | None, status: int, as_json: bool
) -> None:
    stored(tmp_path, "r1", rate=1.0)
    stored(tmp_path, "r2", rate=rate)
    options = [*(["--fail-on", asked] if asked else []), *(["--json"] if as_json else [])]
    assert placerl("diff", f"{tmp_path}#1", f"{tmp_path}#2", *options).status == status


def test_a_quantity_that_is_missing_fails_a_ci(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path, "r1", rate=1.0, lost=1.0)
    stored(tmp_path, "r2", rate=1.0)
    outcome = placerl("diff", f"{tmp_path}#1", f"{tmp_path}#2", "--fail-on", "worse")
    assert outcome.status == 1
    assert "#2: 1 quantities" in outcome.err
    assert placerl("diff", f"{tmp_path}#2", f"{tmp_path}#1", "--fail-on", "worse").status == 0, "a new one"


def test_a_ci_does_not_pass_where_nothing_was_compared(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", "laptop", rate=1.0)
    stored(tmp_path / "b", "r1", "server", rate=1.0)
    two = str(tmp_path / "a"), str(tmp_path / "b")
    refused(placerl("diff", *two, "--fail-on", "worse"), "--fail-on", "different machines", "on one machine")
    stored(tmp_path / "c", "r1", "laptop", other=1.0)
    one = str(tmp_path / "a"), str(tmp_path / "c")
    refused(placerl("diff", *one, "--fail-on", "worse"), "--fail-on", "no quantity in common")
    refused(placerl("diff", *one, "--fail-on", "better"), "--fail-on")


def test_merge_takes_in_each_run_once(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", "laptop", rate=1.0)
    stored(tmp_path / "b", "r1", "server", rate=2.0)
    arguments = ("merge", str(tmp_path / "a"), str(tmp_path / "b"), "--results", str(tmp_path / "merged"))
    for _ in range(2):
        assert placerl(*arguments).status == 0
    again = json.loads(placerl(*arguments, "--json").out)
    assert again["taken_in"] == [
        {"path": str(tmp_path / name / "placerl.sqlite"), "cells": 0} for name in ("a", "b")
    ]
    with Store.open(tmp_path / "merged" / "placerl.sqlite", read_only=True) as store:
        assert [run.fingerprint for run in store.runs()] == ["laptop", "server"]
        assert [row.value for row in store.measurements()] == [1.0, 2.0]


def test_merge_of_a_missing_store_writes_nothing(placerl: Placerl, tmp_path: Path) -> None:
    stored(tmp_path / "a", "r1", rate=1.0)
    arguments = (str(tmp_path / "a"), str(tmp_path / "none"), "--results", str(tmp_path / "merged"))
    refused(placerl("merge", *arguments), "none")
    assert not (tmp_path / "merged").exists()
    refused(placerl("merge", str(tmp_path / "a"), "--results", str(tmp_path / "a")), "RUN", "other than")


def test_merge_takes_in_a_reference_run_once_and_claims_read_it(placerl: Placerl, tmp_path: Path) -> None:
    saved = sample.write(tmp_path / "a" / "placerl.sqlite")
    record, table = reversed(reference.save(saved, "saved", tmp_path / "references"))
    into = ("--results", str(tmp_path / "merged"))
    for source, taken in ((record, True), (table, False)):
        outcome = placerl("merge", str(source), *into)
        assert outcome.status == 0, outcome.err
        assert ("0 cells taken in" in outcome.out) is not taken
    with Store.open(saved, read_only=True) as store, Store.open(store_path(tmp_path / "merged")) as merged:
        last = store.runs()[-1]
        (run,) = merged.runs()
        assert (run.key, run.fingerprint, run.started_at) == (last.key, last.fingerprint, last.started_at)
        assert set(merged.cells(run.id)) == set(reference.last_attempts(store, last.id))
    assert placerl("claims", *into).status == 0


def test_merge_of_a_damaged_reference_writes_nothing(placerl: Placerl, tmp_path: Path) -> None:
    saved = sample.write(tmp_path / "a" / "placerl.sqlite")
    table, record = reference.save(saved, "saved", tmp_path / "references")
    table.write_bytes(b"nothing")
    arguments = ("merge", str(tmp_path / "a"), str(record), "--results", str(tmp_path / "merged"))
    refused(placerl(*arguments), "saved.parquet")
    assert not (tmp_path / "merged").exists()


def test_merge_of_a_store_with_damaged_rows_writes_nothing(placerl: Placerl, tmp_path: Path) -> None:
    for name in ("a", "b"):
        stored(tmp_path / name, "r1", name, rate=1.0)
    with closing(sqlite3.connect(tmp_path / "b" / "placerl.sqlite")) as database, database:
        database.execute("UPDATE measurement SET notes = CAST(x'ff' AS TEXT)")
    arguments = (str(tmp_path / "a"), str(tmp_path / "b"), "--results", str(tmp_path / "merged"))
    refused(placerl("merge", *arguments), "UTF-8", "allowed: an undamaged PlaceRL store")
    assert not (tmp_path / "merged").exists()
