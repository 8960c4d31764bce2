"""The exported files."""

import csv
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.number import Number
from placerl.harness.report import export, reading, text_tables
from placerl.harness.report.baseline_versions import baseline_versions
from placerl.harness.report.hardware_agent import hardware_agent, time_to_learn
from placerl.harness.store.store import Store
from tests.harness.papers.rows import frame_of, predicted, trained
from tests.harness.report import sample


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample.write(tmp_path_factory.mktemp("export") / "store.sqlite")


@pytest.fixture(scope="module")
def folder(store: Path) -> Path:
    export.write(store, store.parent / "export")
    return store.parent / "export"


def test_csv_and_parquet_hold_the_same(folder: Path) -> None:
    names = {path.stem for path in folder.iterdir()}
    assert {"measurements", "verdicts", "predictions", "comparisons", "primitives", "curves"} <= names
    assert {path.name for path in folder.iterdir()} == {n + s for n in names for s in (".csv", ".parquet")}
    for name in names:
        csv, parquet = pd.read_csv(folder / f"{name}.csv"), pd.read_parquet(folder / f"{name}.parquet")
        assert list(csv.columns) == list(parquet.columns)
        assert len(csv) == len(parquet)


def test_the_recorded_agent_is_exported(folder: Path) -> None:
    run, curve = hardware_agent()
    episodes, numbers = (pd.read_csv(folder / f"{name}.csv") for name in ("agent_curve", "agent"))
    assert list(episodes["environment_step"]) == run.steps
    assert list(episodes["value"]) == run.returns
    assert list(numbers["value"]) == [*(n.value for n in time_to_learn()), curve.last.value]


def test_every_value_has_unit_and_provenance(folder: Path) -> None:
    for path in folder.glob("*.csv"):
        table = pd.read_csv(path)
        for column in [c for c in table if c.endswith("provenance")]:
            prefix = column.removesuffix("provenance")
            value = prefix.rstrip("_") or "value"
            with_its_unit = f"{prefix}mhz"  # whose name says the unit
            has_value = table[value if value in table else with_its_unit].notna()
            assert table.loc[has_value, column].isin(["measured", "simulated", "modelled", "published"]).all()
            # A rate that a prediction achieved has the unit of the row.
            unit = f"{prefix}unit" if f"{prefix}unit" in table else "unit"
            assert table.loc[has_value, unit].notna().all()


def test_versions_and_settings_stand_with_where_they_were_the_same(folder: Path) -> None:
    table = pd.read_csv(folder / "baseline_versions.csv")
    assert table["system"].tolist() == ["placerl", "sb3", "sb3"]
    ours, usual, other = table.itertuples()
    assert ours.workloads == "cartpole-ddpg; cartpole-dqn; hopper-ddpg"
    assert (usual.workloads, other.workloads) == ("cartpole-ddpg; hopper-ddpg", "cartpole-dqn")
    assert usual.versions == "python 3.11.7; torch 2.13.0+cpu; stable-baselines3 2.9.2"
    assert (usual.tasks, usual.settings) == ("training", "replay: uniform")
    assert other.settings == f"replay: uniform; loss: Huber's: {sample.HOSTILE}"
    named = (
        pd.read_csv(folder / "measurements.csv").set_index("row").loc[list(map(int, usual.rows.split("; ")))]
    )
    assert set(named["who"]) == {"sb3"}


def test_versions_that_a_stranger_wrote_otherwise_are_left_out(tmp_path: Path) -> None:
    odd = [
        trained(1.0, suite="compare", backend=f"b{n}", details={"versions": v, "notes": v})
        for n, v in enumerate((None, "2.9", ["x"], {"x": None}))
    ]
    found = baseline_versions(frame_of(tmp_path, *odd))
    assert [(b.system, b.versions, b.settings) for b in found] == [
        ("b0", (), ()),
        ("b1", (), ()),
        ("b2", (), ()),
        ("b3", ("x None",), ("x: None",)),
    ]


def test_measurements_can_be_repeated_from(folder: Path) -> None:
    table = pd.read_csv(folder / "measurements.csv")
    assert table["row"].tolist() == list(range(len(table)))
    returns = table[table["quantity"] == "episode_return"].iloc[0]
    assert len(json.loads(returns["samples"])) == 120
    assert returns["seed"] == 0


def test_verdicts_name_rows_that_are_there(folder: Path) -> None:
    verdicts = pd.read_csv(folder / "verdicts.csv")
    rows = {int(row) for cell in verdicts["rows"].dropna() for row in str(cell).replace(".0", "").split()}
    assert rows
    assert rows <= set(pd.read_csv(folder / "measurements.csv")["row"])


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    store = sample.write(tmp_path / "store.sqlite")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="can be written"):
        export.write(store, tmp_path / "file" / "export")
    with pytest.raises(UserError, match="no such file"):
        export.write(tmp_path / "none.sqlite", tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_broken_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def broken(target: Path) -> None:
        target.write_text("half")
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_atomically(path, broken)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]


def test_markdown_and_latex_say_unit_and_provenance(tmp_path: Path) -> None:
    store = sample.write(tmp_path / "store.sqlite")
    written = export.write(store, tmp_path / "export", ["markdown", "latex"])
    assert {path.suffix for path in written} == {".md", ".tex"}
    text = (tmp_path / "export" / "comparisons.md").read_text(encoding="utf-8")
    assert "| cartpole-ddpg | 64 | sb3 | gradient steps | 2,160/s [2,138, 2,182] (measured) |" in text
    header, rule, *rows = text.splitlines()[2:]
    assert {line.replace("\\|", "").count("|") for line in (header, *rows)} == {rule.count("|")}
    latex = (tmp_path / "export" / "primitives.tex").read_text(encoding="utf-8")
    assert r"learner.step & fpga & fpga & 256 & 90 \textmu{}s [89.1, 90.9] (simulated) \\" in latex
    assert r"sum\_tree.sample" in latex
    assert r"\$\_\{'" in latex, "a name with LaTeX's own characters stays text"
    for name, mark in (
        ("primitives.md", "(measured), too noisy |"),
        ("primitives.tex", r"(measured), too noisy \\"),
    ):
        assert (tmp_path / "export" / name).read_text(encoding="utf-8").count(mark) == 1, name
    text = (tmp_path / "export" / "learning.md").read_text(encoding="utf-8")
    assert "| cartpole-dqn | placerl | 120 [118.8, 121.2] (measured) | 430 [" in text
    with pytest.raises(UserError, match="--format: found pdf"):
        export.write(store, tmp_path / "other", ["pdf"])
    assert not (tmp_path / "other").exists()


def test_a_rate_that_is_too_noisy_is_marked_beside_its_prediction(tmp_path: Path) -> None:
    noisy = {"status": "too_noisy", "reason": "its interval is 40% wide"}
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("a", [trained(120.0, **noisy), predicted(130.0), predicted(140.0, workload="other")])
    export.write(tmp_path / "store.sqlite", tmp_path / "export", list(export.FORMATS))
    for name, mark in (
        ("predictions.md", "(measured), too noisy |"),
        ("predictions.tex", "(measured), too noisy &"),
    ):
        assert (tmp_path / "export" / name).read_text(encoding="utf-8").count(mark) == 1, name
    statuses = pd.read_csv(tmp_path / "export" / "predictions.csv")["achieved_status"]
    assert sorted(statuses) == ["not_run", "too_noisy"]


def test_a_latex_table_of_many_rows_breaks_over_pages_and_wraps_its_cells(tmp_path: Path) -> None:
    store = sample.write(tmp_path / "store.sqlite")
    export.write(store, tmp_path / "export", ["latex"])
    tables = {path: path.read_text(encoding="utf-8") for path in (tmp_path / "export").glob("*.tex")}
    assert [path.stem for path, text in tables.items() if "{longtable}" not in text] == ["portability"]
    for text in (text for path, text in tables.items() if path.stem != "portability"):
        (begin,) = [line for line in text.splitlines() if line.startswith(r"\begin{longtable}")]
        widths = [float(share) for share in re.findall(r"p\{\\dimexpr([\d.]+)\\linewidth", begin)]
        heading = text.partition("\\toprule\n")[2].splitlines()[0]
        assert len(widths) == heading.count(" & ") + 1
        assert sum(widths) == pytest.approx(1, abs=0.005), "no wider than the page"
        assert r"\begin{table}" not in text, "a float ends at its first page"


def test_latex_prints_text_as_it_stands() -> None:
    text = "a < b | `learn --alone --all` for -2.5% [-3, 1], x-2 and 1-2"
    latex = text_tables.as_latex(text_tables.TextTable("t", "T", ("a", "b"), ((text, "c"),), "placerl run"))
    assert (
        r"a \textless{} b \textbar{} \texttt{learn -{}-alone -{}-all} for $-$2.5\% [$-$3, 1], x-2 and 1-2 & c \\"
        in latex
    )


DOCUMENT = r"""
\documentclass{article}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage{array,booktabs,longtable,textcomp}
\begin{document}
%s
\end{document}
"""


@pytest.mark.skipif(
    shutil.which("pdflatex") is None,
    reason="no LaTeX here: `apt-get install texlive-latex-base texlive-latex-recommended` (Debian) brings it",
)
@pytest.mark.parametrize("measured", [True, False])
def test_a_paper_takes_the_tables_in(measured: bool, tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    if measured:
        sample.write(store)
    else:
        Store.open(store).close()
    tables = export.write(store, tmp_path / "export", ["latex"])
    assert len(tables) == 8
    strange = text_tables.TextTable("t", "T", ("a", "b"), (("日本 µ × ß ` \\ # {", "--"),), "placerl run")
    inputs = [*(path.read_text(encoding="utf-8") for path in tables), text_tables.as_latex(strange)]
    (tmp_path / "paper.tex").write_text(DOCUMENT % "\n\n".join(inputs), encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "paper.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=800
    )
    assert done.returncode == 0, done.stdout[-1000:]
    too_wide = [float(found) for found in re.findall(r"Overfull \\hbox \((\d+\.\d+)pt", done.stdout)]
    assert max(too_wide, default=0) < 2, "beyond the page"


def test_latex_columns_hold_their_longest_word() -> None:
    heads = ("workload", "batch size", "baseline", "this project", "ratio", "verdict")
    rows = (
        ("cartpole-ddpg", "256", "sb3", "38,632/s [37,222, 39,859] (measured), too noisy", "1.02", "x" * 90),
    )
    *shares, last = text_tables.column_shares(text_tables.TextTable("t", "T", heads, rows, "placerl run"))
    for share, word in zip(shares, ("cartpole-", "batch", "baseline", "(measured),", "ratio"), strict=True):
        assert share / last >= len(word) / 90, word
    *shares, last = text_tables.column_shares(
        text_tables.TextTable("t", "T", heads, ((*rows[0][:5], "faster"),), "placerl run")
    )
    for share, word in zip(shares, ("cartpole-", "batch", "baseline", "(measured),", "ratio"), strict=True):
        assert share * 80 >= len(word) + 1, word


def test_a_latex_row_with_many_numbers_can_break_over_pages(tmp_path: Path) -> None:
    store = sample.write(tmp_path / "store.sqlite")
    export.write(store, tmp_path / "export", ["latex"])
    lines = (tmp_path / "export" / "verdicts.tex").read_text(encoding="utf-8").splitlines()
    (place,) = (n for n, line in enumerate(lines) if line.startswith("PAL-F8 & "))
    assert lines[place].count(" & ") == 5
    assert lines[place].count("smallest gain over RLlib") == 1
    assert lines[place + 1] == r" &  &  & largest gain over RLlib: 10.8$\times$ (published) &  &  \\"


def test_published_numbers_say_what_they_are_and_that_they_are_published(tmp_path: Path) -> None:
    store = sample.write(tmp_path / "store.sqlite")
    export.write(store, tmp_path / "export", ["markdown"])
    lines = (tmp_path / "export" / "verdicts.md").read_text(encoding="utf-8").splitlines()[4:]
    published = [line.split(" | ")[3] for line in lines]
    assert any(cell.count("(published); ") > 1 for cell in published)
    for cell in published:
        assert cell == "not in the text" or (": " in cell and cell.endswith(" (published)")), cell


def test_an_impossible_number_keeps_its_mark_in_text() -> None:
    one = Number("speedup", 9.0, "ratio", Provenance.MEASURED)
    assert text_tables.number_text(one) == "9× (measured)"
    assert text_tables.number_text(replace(one, suspect="9 times on 2 cores")) == "9× (measured, suspect)"


def test_no_text_of_a_stranger_is_a_formula_in_csv(tmp_path: Path) -> None:
    texts = ("=HYPERLINK(1)", "+1", "-2+3", "@SUM(1)", "it = 1")
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        for text in texts:
            noisy = {"status": "too_noisy", "reason": f"{text}!"}
            run.finish(text, [trained(1.0, workload=text, spread=2, unit="%", **noisy)])
    export.write(tmp_path / "store.sqlite", tmp_path / "export")
    for path in (tmp_path / "export").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        armed = {cell for cell in cells if cell.startswith(export.FORMULA)}
        assert all(float(cell) < 0 for cell in armed), f"{path.name}: numbers alone begin with a sign"
    read = pd.read_csv(tmp_path / "export" / "measurements.csv", lineterminator="\n")
    read = read[read["run"] > 0]  # the others are of committed runs
    assert [text.lstrip("'") for text in read["workload"]] == list(texts)
    assert "it = 1" in set(read["workload"])
    assert read["low"].notna().all()
    kept = pd.read_parquet(tmp_path / "export" / "measurements.parquet")
    assert list(kept["workload"][kept["run"] > 0]) == list(texts)


def test_a_seed_that_no_file_holds_is_left_out(tmp_path: Path) -> None:
    details = {"mapping": "torch-native-cpu", "seed": 10**20, "environment_step": [1, 2]}
    returns = trained(1.5, quantity="episode_return", unit="1", samples=(1.0, 2.0), details=details)
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("a", [trained(120.0, details=details), returns])
    export.write(tmp_path / "store.sqlite", tmp_path / "export")
    for name in ("training", "throughput", "curves", "curve_summaries"):
        seeds = pd.read_parquet(tmp_path / "export" / f"{name}.parquet")["seed"]
        assert len(seeds), name
        assert seeds.isna().all(), name


def test_an_empty_store_has_files_with_columns(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite"):
        pass
    for path in export.write(tmp_path / "store.sqlite", tmp_path / "export", ["csv"]):
        assert len(pd.read_csv(path).columns) > 1, path.name


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("markdown", "not run: needs `placerl validate`"),
        ("latex", r"not run: needs \texttt{placerl validate}"),
    ],
)
def test_a_table_without_rows_says_what_it_needs(form: str, said: str, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite"):
        pass
    written = {
        path.stem: path for path in export.write(tmp_path / "store.sqlite", tmp_path / "export", [form])
    }
    text = written["portability"].read_text(encoding="utf-8")
    assert said in text
    assert "Portability: " in text
    assert "choices lacking" not in text


def test_named_tables_alone_are_written(store: Path, tmp_path: Path) -> None:
    written = export.write(store, tmp_path / "export", only=["primitives", "choices"])
    names = sorted(path.name for path in written if path.parent == tmp_path / "export")
    assert names == ["choices.csv", "choices.parquet", "primitives.csv", "primitives.parquet"]
    with pytest.raises(UserError, match=r"--table: found 'primitive'.*did you mean primitives"):
        export.write(store, tmp_path / "other", only=["primitive"])
    assert not (tmp_path / "other").exists()


def test_a_claim_comes_with_the_measurements_behind_it(store: Path, tmp_path: Path) -> None:
    everything = reading.read(store)
    rows = {v.key: {row for number in v.finding.ours for row in number.rows} for v in everything.verdicts}
    key = max(rows, key=lambda key: len(rows[key]))
    assert rows[key]
    export.write(store, tmp_path / "export", ["csv"], claim=key)
    assert {path.name for path in (tmp_path / "export").iterdir()} == {"verdicts.csv", "measurements.csv"}
    assert set(pd.read_csv(tmp_path / "export" / "verdicts.csv")["key"]) == {key}
    assert set(pd.read_csv(tmp_path / "export" / "measurements.csv")["row"]) == rows[key]
    with pytest.raises(UserError, match="--claim: found 'MAP-T55'"):
        export.write(store, tmp_path / "other", claim="MAP-T55")
