"""What commands print on screens of 60 and 80 columns: whole, and no wider than the screen."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.table import Table

from placerl.harness.cli import app, calibrate_command, compare_command, training_lines, validation_tables
from placerl.harness.cli.common import out
from placerl.harness.cli.screen import WIDE, Screen
from placerl.harness.core.row import Row
from placerl.harness.plan.calibration import CalibrationFinding
from placerl.harness.store.rows import ComparisonResult
from placerl.harness.store.store import Store
from tests.harness.cli.command_line import Placerl, stored
from tests.harness.cli.test_validate import off
from tests.harness.machines.example_cards import a_card
from tests.harness.machines.honest_bundles import honest
from tests.harness.report import sample

NARROW = (60, 80)
PRINTED = """
--version
bench --list
bench fpga-tables placement
card --show FOLDER/card.json
check FOLDER/honest.json FOLDER/edited.json
claims --results FOLDER/sample
diff FOLDER/a FOLDER/b --all
doctor
explore ppo hopper-ppo --device u200
export --results FOLDER/sample --out FOLDER/exported --format csv --table primitives
map hopper-ddpg --platform map-tpds23 --against pal21
merge FOLDER/a FOLDER/b --results FOLDER/merged
profile cartpole-dqn --device fpga:u200 --results FOLDER/profiled
report --results FOLDER/sample
reproduce --plan --results FOLDER/sample
rtl --list
rtl fixar --list
""".strip().splitlines()
MEASURE = {"baselines", "calibrate", "compare", "cycles", "gpu-claims", "learn", "run", "validate"}
"""Commands that train, build or measure for longer than a test; `SHOWS` has what prints the answers of most of them."""
ELSEWHERE = {"bundle", "predict", "rent", "why"}
"""Commands whose own tests need more of a machine than is here, and look at 60 columns."""


def too_wide(text: str, columns: int) -> list[str]:
    """Return the lines that are wider than a screen, or cut; a word by itself, such as a path, may be wider."""
    return [
        line for line in text.splitlines() if (len(line) > columns and " " in line.strip()) or "…" in line
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of every kind of row, two short stores, a card and bundles."""
    folder = tmp_path_factory.mktemp("s")
    sample.write(folder / "sample" / "placerl.sqlite")
    stored(folder / "a", "r1", rose=1.0, stayed=1.0)
    stored(folder / "b", "r2", rose=2.0, stayed=1.01)
    a_card().write(folder / "card.json")
    honest(1).write(folder / "honest.json")
    (folder / "edited.json").write_text((folder / "honest.json").read_text().replace('"ok"', '"too_noisy"'))
    return folder


@pytest.fixture(params=NARROW)
def columns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The columns of the screen."""
    columns: int = request.param
    monkeypatch.setattr(out, "width", columns)
    return columns


@pytest.mark.usefixtures("pages_not_written")
@pytest.mark.parametrize("line", PRINTED)
def test_a_command_prints_whole_words_in_narrow_lines(
    placerl: Placerl, folder: Path, columns: int, line: str
) -> None:
    outcome = placerl(*line.replace("FOLDER", str(folder)).split())
    assert outcome.status != 2, outcome.err
    assert outcome.out
    assert not too_wide(outcome.out, columns)


def test_every_command_is_walked() -> None:
    walked = {line.split()[0] for line in PRINTED}
    assert walked - {"--version"} | MEASURE | ELSEWHERE == set(app.commands())


def finding(what: str) -> CalibrationFinding:
    return CalibrationFinding(what, 3, 100, 0.01, 0.09, "at most 5%", met=True)


SHOWS: dict[str, Callable[[Sequence[Row]], object]] = {
    "calibrate": lambda rows: out.print(calibrate_command.table([finding("slowdowns of 3% that are found")])),
    "compare": lambda rows: out.print(
        compare_command.side_by_side([row for row in rows if isinstance(row, ComparisonResult)])
    ),
    "run": lambda rows: [out.print(line) for line in training_lines.lines(rows, 475.0)],
    "validate": lambda _: validation_tables.show_answer([off(0.01, 0.0, 0.02, "a"), off(0.2, 0.1, 0.3, "b")]),
    "validate --all": lambda _: validation_tables.show_strategies([off(0.01, 0.0, 0.02, "a")]),
}


@pytest.mark.parametrize("command", SHOWS)
def test_what_is_shown_of_stored_rows_is_whole_and_narrow(
    folder: Path, columns: int, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with Store.open(folder / "sample" / "placerl.sqlite", read_only=True) as store:
        rows = store.measurements()
    SHOWS[command](rows)
    printed = capsys.readouterr().out
    assert printed
    assert not too_wide(printed, columns)


def test_nothing_goes_to_standard_output_past_the_screen() -> None:
    allowed = {
        "common.py",
        "screen.py",
        "asv_bench.py",
    }  # JSON and paths; the screen itself; another tool's output
    for path in app.FOLDER.rglob("*.py"):
        calls = re.findall(
            r"(?<![.\w])(?:typer\.echo|print)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)",
            path.read_text(encoding="utf-8"),
        )
        assert path.name in allowed or not [call for call in calls if "err=True" not in call], path


def table() -> Table:
    table = Table("mapping", "steps/s", "why", title="Two mappings")
    table.add_row("torch:cuda-native-cuda", "1,552.8", "the fastest")
    table.add_row("fpga-fpga-fpga", "898.0", "")
    return table


def printed(columns: int, capsys: pytest.CaptureFixture[str], *objects: object) -> str:
    Screen(width=columns).print(*objects)
    return capsys.readouterr().out


def test_a_table_that_fits_stays_one_and_becomes_a_list_where_a_word_would_be_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "┃" in printed(60, capsys, table())
    assert printed(24, capsys, table()).splitlines() == [
        "Two mappings",
        "torch:cuda-native-cuda",
        "  steps/s: 1,552.8; why:",
        "    the fastest",
        "fpga-fpga-fpga",
        "  steps/s: 898.0",
    ]


def test_a_path_is_not_broken_and_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a/folder/with/a-long-name/report/index.html"
    assert printed(20, capsys, f"Report: {path} [bold]").splitlines() == ["Report:", f"  {path}", "  [bold]"]


def test_markdown_stays_as_it_is_on_a_wide_screen_and_is_a_table_on_a_narrow_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ["## Rates", "", "| block | cycles |", "|---|---|", "| gemm-core | 41 |", "", "Goal: met."]
    Screen(width=WIDE).markdown(lines)
    assert capsys.readouterr().out.splitlines() == lines
    Screen(width=40).markdown(lines)
    narrow = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert narrow == ["## Rates", "", "block     cycles", "gemm-core 41", "", "Goal: met."]
