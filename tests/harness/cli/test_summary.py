"""The last lines of `placerl reproduce` and `placerl report`: the answers first, and never more than 40 lines."""

import json
from pathlib import Path

import pytest

from placerl.harness.cli import summary
from placerl.harness.papers import Outcome
from placerl.harness.report import reading
from tests.harness.cli.command_line import Placerl
from tests.harness.report import sample

MOST = 40


@pytest.mark.usefixtures("pages_not_written")
def test_the_answers_come_first_and_the_report_last(placerl: Placerl, tmp_path: Path) -> None:
    sample.write(tmp_path / "placerl.sqlite")
    outcome = placerl("report", "--results", str(tmp_path))
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) <= MOST
    assert lines[0].startswith("Fastest mapping")
    best = next(line for line in lines if line.startswith("pendulum-td3  32 "))
    assert best.split()[2:4] == ["native-native-cpu", "900"]
    assert best.rstrip().endswith("best: its interval is above that of torch-native-cpu")
    assert "(measured)" in best
    next_to = next(line for line in lines if line.startswith("cartpole-ddpg "))
    assert "2.4x [" in next_to
    assert next_to.rstrip().endswith("faster")
    assert "off in the median, 6 of 6 within 5% (modelled)\n  on measured devices; " in outcome.out
    assert "with a simulated FPGA" not in outcome.out
    assert f"`placerl claims --verdict 'not run' --results {tmp_path}`" in outcome.out
    assert lines[-1] == f"Report: {tmp_path / 'report' / 'index.html'}"

    verdicts = reading.read(tmp_path / "placerl.sqlite").verdicts
    heading = next(line for line in lines if line.startswith("paper "))
    assert [outcome for outcome in Outcome if str(outcome) not in heading] == []
    for paper in ("MAP", "FIX"):
        counted = next(line for line in lines if line.startswith(f"{paper} "))
        assert sum(map(int, counted.split()[1:])) == sum(verdict.paper == paper for verdict in verdicts)


@pytest.mark.usefixtures("pages_not_written")
def test_the_commands_that_say_more_name_the_folder_unless_it_is_the_default(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("results", "my results"):
        (tmp_path / folder).mkdir()
        sample.write(tmp_path / folder / "placerl.sqlite")
    monkeypatch.chdir(tmp_path)
    summary.write_report(Path("results"), as_json=False)
    assert "numbers: `placerl claims`" in capsys.readouterr().out
    summary.write_report(Path("my results"), as_json=False)
    assert "numbers: `placerl claims --results 'my results'`" in capsys.readouterr().out


@pytest.mark.usefixtures("pages_not_written")
def test_many_workloads_are_cut_short(placerl: Placerl, tmp_path: Path) -> None:
    rows = [
        row
        for number in range(20)
        for part in (sample.validation(f"w{number}"), sample.comparison(f"w{number}", 2.0, "faster"))
        for row in part
    ]
    with sample.Store.open(tmp_path / "placerl.sqlite") as store:
        store.begin_run("quick", "r1", sample.MACHINE).finish("a", rows)
    lines = placerl("report", "--results", str(tmp_path)).out.splitlines()
    assert len(lines) <= MOST
    assert [line.strip() for line in lines if line.startswith("  and ")] == [
        f"and {40 - summary.MOST_MAPPINGS} more in the report",
        f"and {20 - summary.MOST_COMPARISONS} more in the report",
    ]


@pytest.mark.usefixtures("pages_not_written")
def test_of_a_paper_alone_its_verdicts_are_printed_and_no_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sample.write(tmp_path / "placerl.sqlite")
    summary.write_report(tmp_path, as_json=False, only="MAP-F13")
    printed = capsys.readouterr().out
    assert "Fastest mapping" not in printed
    verdicts = [v for v in reading.read(tmp_path / "placerl.sqlite").verdicts if v.key.startswith("MAP-F13")]
    heads = [line for line in printed.splitlines() if line.startswith("MAP-")]
    assert heads == [f"{verdict.key}: {verdict.finding.outcome}" for verdict in verdicts]
    assert all(f"  {verdict.statement}\n" in printed for verdict in verdicts)
    summary.write_report(tmp_path, as_json=True, only="MAP-F13")
    stored = json.loads(capsys.readouterr().out)["verdicts"]
    assert [verdict["key"] for verdict in stored] == [verdict.key for verdict in verdicts]
