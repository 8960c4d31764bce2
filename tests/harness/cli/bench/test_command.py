"""What the benchmarks share: lists in options, where their tables go, and what is not run."""

from pathlib import Path

import pytest
import typer

from placerl.harness.cli.bench.command import Session, chosen, joined, not_run, numbers, section
from placerl.harness.core.errors import UserError


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


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--out"):
        Session.begin(tmp_path / "file", tmp_path / "results", "quick")
    assert not (tmp_path / "results").exists()


def test_a_folder_that_takes_no_file_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--out"):
        Session.begin(Path("/proc/self"), tmp_path / "results", "quick")  # not even root creates a file there
    assert not (tmp_path / "results").exists()


def test_a_table_that_cannot_be_written_any_more_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session.begin(tmp_path / "out", tmp_path / "results", "quick")
    session.out.rmdir()
    session.out.write_text("in the way")
    with pytest.raises(UserError, match="a folder that can be written"):
        session.write("the table")
    assert capsys.readouterr().out == "the table\n"
