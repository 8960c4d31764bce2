"""The engine of the benchmarks: what is measured again, where tables go, and what the options' lists hold."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from placerl.harness.cli.bench.command import (
    Bench,
    as_command,
    carry_out,
    cell,
    chosen,
    joined,
    not_run,
    numbers,
    section,
)
from placerl.harness.compare import registry
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.store.rows import OtherResult
from placerl.harness.store.store import Store


def test_numbers_are_separated_by_commas() -> None:
    assert numbers("--threads", "1, 20") == [1, 20]
    assert numbers("--threads", joined((3, 4))) == [3, 4]


@pytest.mark.parametrize("text", ["", "0", "-1", "1,,2", "1.5", "x"])
def test_what_is_no_positive_number_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--threads: found"):
        numbers("--threads", text)


def test_names_are_among_those_allowed() -> None:
    assert chosen("--peers", "b, a", ("a", "b")) == ["b", "a"]
    assert chosen("--peers", "none", ("a", "b")) == []
    with pytest.raises(UserError, match="found 'c'; allowed: a, b, none"):
        chosen("--peers", "a,c", ("a", "b"))


def test_what_cannot_be_run_is_said_and_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    not_run("")
    with pytest.raises(typer.Exit) as stopped:
        not_run("no compiler")
    assert stopped.value.exit_code == 1
    assert capsys.readouterr().err == "not run: no compiler\n"


def test_a_section_is_a_table_under_its_title() -> None:
    assert section("T", ("a", "b"), [["1", "x|y"]]) == [
        "## T",
        "",
        "| a | b |",
        "|---|---|",
        r"| 1 | x\|y |",
        "",
    ]


def row(value: float) -> Row:
    return OtherResult(
        suite=Suite.SOAK,
        primitive="training",
        backend="placerl",
        quantity="threads",
        provenance=Provenance.MEASURED,
        value=value,
    )


class Numbers:
    """A benchmark of two cells, which counts what is measured, and whose second cell may fail."""

    def __init__(self) -> None:
        self.measured: list[str] = []
        self.broken = False
        self.closed = 0

    def bench(self, which: str = "first,second", factor: int = 1) -> Bench[Row]:
        """Measure numbers."""

        def measure(name: str, report: Report) -> Sequence[Row]:
            self.measured.append(name)
            if self.broken and name == "second":
                raise RuntimeError("no number")
            return [row(len(name) * factor)]

        def close() -> None:
            self.closed += 1

        return Bench(
            "numbers",
            Row,
            [cell(f"numbers/{name}", partial(measure, name)) for name in which.split(",")],
            lambda rows: f"# Numbers\n\n{[row.value for row in rows]}",
            selecting=("which",),
            close=close,
        )


@pytest.fixture
def numbers_bench() -> Numbers:
    return Numbers()


def run(bench: Numbers, folder: Path, *arguments: str) -> Result:
    app = typer.Typer()
    app.command()(as_command(bench.bench))
    places = ["--out", str(folder / "out"), "--results", str(folder)]
    return CliRunner().invoke(app, [*arguments, *places])


def test_the_table_stands_beside_the_store_by_default(numbers_bench: Numbers, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(as_command(numbers_bench.bench))
    outcome = CliRunner().invoke(app, ["--results", str(tmp_path)])
    assert outcome.exit_code == 0, outcome.stderr
    assert [path.parent.parent for path in tmp_path.rglob("table.md")] == [tmp_path]


def test_a_benchmark_goes_on_where_it_stopped(numbers_bench: Numbers, tmp_path: Path) -> None:
    numbers_bench.broken = True
    first = run(numbers_bench, tmp_path)
    assert first.exit_code == 1
    assert "Failed, 1: numbers/second; the next run tries them again." in first.stderr
    assert "[5.0]" in first.stdout
    assert "- numbers/second: RuntimeError: no number" in first.stdout
    numbers_bench.broken = False
    second = run(numbers_bench, tmp_path)
    assert second.exit_code == 0
    assert "[5.0, 6.0]" in second.stdout
    assert numbers_bench.measured == ["first", "second", "second"]
    assert (tmp_path / "out" / "table.md").read_text() in second.stdout
    assert re.search(
        r"^Run begun 20.*, revision `[\w-]+`, machine `\w+`: .+ cores?, ", second.stdout, re.MULTILINE
    )
    third = run(numbers_bench, tmp_path)
    assert "[5.0, 6.0]" in third.stdout
    assert "--again" in third.stderr
    assert len(numbers_bench.measured) == 3
    assert numbers_bench.closed == 3
    run(numbers_bench, tmp_path, "--which", "first", "--again")
    assert numbers_bench.measured[3:] == ["first"]


def test_other_options_are_other_cells(numbers_bench: Numbers, tmp_path: Path) -> None:
    run(numbers_bench, tmp_path)
    assert "[10.0, 12.0]" in run(numbers_bench, tmp_path, "--factor", "2").stdout
    assert "[5.0]" in run(numbers_bench, tmp_path, "--which", "first").stdout
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        assert store.cells(1) == [
            "numbers/first", "numbers/second", "numbers/first/factor=2", "numbers/second/factor=2",
        ]  # fmt: skip


def test_rows_are_printed_as_json(numbers_bench: Numbers, tmp_path: Path) -> None:
    outcome = run(numbers_bench, tmp_path, "--json")
    assert outcome.exit_code == 0
    assert [found["value"] for found in json.loads(outcome.stdout)] == [5.0, 6.0]


def test_the_libraries_that_are_built_are_measured_again(
    numbers_bench: Numbers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    monkeypatch.setattr(registry, "build_baselines", lambda names: built.extend(names) or {})
    stated = numbers_bench.bench()
    missing = replace(row(0), status="not_run", value=None, reason="needs its environment")
    answers = [[row(1), row(2)], [row(1), missing]]
    bench = replace(stated, cells=[cell("numbers/one", lambda _: answers.pop())], builds=["library"])
    for _ in range(3):
        carry_out(bench, {}, out=tmp_path / "out", results=tmp_path)
    assert built == ["library"] * 3
    assert not answers, "measured twice"


@pytest.mark.parametrize("out", ["file", "/proc/self"])  # not even root creates a file in the second
def test_a_folder_that_takes_no_file_is_refused_before_anything_is_stored(
    numbers_bench: Numbers, tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--out"):
        carry_out(numbers_bench.bench(), {}, out=tmp_path / out, results=tmp_path / "results")
    assert not (tmp_path / "results").exists()
    assert not numbers_bench.measured


def test_a_table_that_cannot_be_written_any_more_is_printed(
    tmp_path: Path, numbers_bench: Numbers, capsys: pytest.CaptureFixture[str]
) -> None:
    def in_the_way() -> None:
        (tmp_path / "out").rmdir()
        (tmp_path / "out").write_text("")

    bench = replace(numbers_bench.bench(), close=in_the_way)
    with pytest.raises(UserError, match="a folder that can be written"):
        carry_out(bench, {}, out=tmp_path / "out", results=tmp_path)
    assert "[5.0, 6.0]" in capsys.readouterr().out
