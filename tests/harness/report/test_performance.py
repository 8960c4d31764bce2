"""The tables of throughput and of portability, and their files."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import Loop, Mapping
from placerl.harness.report import export, performance, text_tables
from placerl.harness.report.reading import read
from placerl.harness.report.rows.trainings import Portability
from placerl.harness.store.store import Store
from placerl.harness.validate import rows as validation_rows
from tests.harness.papers.rows import MACHINE, finish_each, frame_of, trained

MAPPINGS = {"native-native-cpu": 400.0, "torch-native-cpu": 100.0}
FPGA = "fpga:u200-fpga:u200-fpga:u200"
NOISY = {"status": "too_noisy", "reason": "its interval is 40% wide"}
SIZE = 256
OVER = validation_rows.OVER_DEVICES


def validated(mapping: str, gps: float, loop: Loop = Loop.FUSED, **fields: Any) -> Row:
    base = {"suite": "validation", "backend": "placerl", "device": mapping, "workload": "cartpole-dqn"}
    return trained(gps, SIZE, details={"mapping": mapping, "loop": str(loop)}, **(base | fields))


def failed(mapping: str) -> Row:
    row = validated(mapping, 1.0)
    return replace(row, value=None, low=None, high=None, status="failed", reason="worker ended")


def side(part: str, backend: str, gps: float, **fields: Any) -> Row:
    details = {"baseline": "sb3", "part": part, "mapping": "native-native-cpu"}
    base = {"suite": "compare", "backend": backend, "workload": "cartpole-dqn", "details": details}
    return trained(gps, SIZE, **(base | fields))


def rows(noisy: str = "", **baselines: float) -> Iterator[Row]:
    """A validation of two mappings here and a simulated one, after comparisons with baselines."""
    yield side("ours", "placerl", 500.0)
    for name, gps in baselines.items():
        state = NOISY if name == noisy else {}
        yield side("theirs", name, gps, **state)
    ran = []
    for mapping, gps in (*MAPPINGS.items(), (FPGA, 900.0)):
        simulated = {"provenance": Provenance.SIMULATED} if mapping == FPGA else {}
        row = validated(mapping, gps, **(NOISY if mapping == noisy else {}), **simulated)
        ran.append(validation_rows.Achieved(Mapping.parse(mapping), Loop.FUSED, row, {}))
        yield row
    yield validated("torch-native-cpu", 90.0, Loop.STRICT, **NOISY)
    yield from validation_rows.portabilities(
        {"workload": "cartpole-dqn", "batch_size": SIZE},
        ran,
        {(name, "cpu"): gps for name, gps in baselines.items()},
        "dqn",
        {},
    )


@pytest.mark.parametrize(("algorithm", "lines"), [("dqn", {"rllib"}), ("ddpg", {"rllib_2_6_3"})])
def test_portability_is_asked_of_the_baselines_that_train_the_algorithm(
    algorithm: str, lines: set[str]
) -> None:
    row = validated("torch-native-cpu", 100.0)
    ran = [validation_rows.Achieved(Mapping.parse("torch-native-cpu"), Loop.FUSED, row, {})]
    fields = {"workload": "w", "batch_size": SIZE}
    found = {one.who for one in validation_rows.portabilities(fields, ran, {}, algorithm, {})}
    assert found == {"placerl", "sb3", *lines}


def store(path: Path, *machines: list[Row]) -> Path:
    with Store.open(path / "store.sqlite") as opened:
        for number, found in enumerate(machines):
            run = opened.begin_run("quick", "r", MACHINE | {"fingerprint": f"machine {number}"}, fresh=True)
            finish_each(opened, run, found)
    return path / "store.sqlite"


def portabilities(path: Path, *machines: list[Row]) -> dict[tuple[str, str, str], Portability]:
    """Of the first machine, and of all of them."""
    with Store.open(store(path, *machines), read_only=True) as opened:
        frame = opened.frame()
    found = performance.portabilities(frame[frame["run"] == 1], frame)
    return {(one.system, one.over, one.among): one for one in found}


def test_throughput_is_of_every_mapping_and_of_the_baselines_beside_them(tmp_path: Path) -> None:
    run = {"workload": "cartpole-dqn", "details": {"mapping": "torch-native-cpu", "options": {"actors": 4}}}
    frame = frame_of(tmp_path, *rows(sb3=50.0), trained(70.0, SIZE, **run))
    found = {(t.system, t.mapping, t.suite, t.loop): t for t in performance.throughputs(frame)}
    values = {place: t.value.value for place, t in found.items() if t.value}
    assert values == {
        ("placerl", "native-native-cpu", "compare", ""): 500,
        ("sb3", "", "compare", ""): 50,
        ("placerl", "native-native-cpu", "validation", "fused"): 400,
        ("placerl", "torch-native-cpu", "validation", "fused"): 100,
        ("placerl", "torch-native-cpu", "validation", "strict"): 90,
        ("placerl", FPGA, "validation", "fused"): 900,
        ("placerl", "torch-native-cpu", "run", ""): 70,
    }
    assert found["placerl", "torch-native-cpu", "validation", "strict"].status == "too_noisy"
    assert found["placerl", "native-native-cpu", "compare", ""].beside == "sb3"
    assert found["placerl", "torch-native-cpu", "run", ""].options == ("actors=4",)


def test_what_failed_has_a_row_without_a_rate(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, failed("torch-native-cpu"))
    (found,) = performance.throughputs(frame)
    assert (found.value, found.status, found.reason) == (None, "failed", "worker ended")


def test_portability_over_devices_counts_choices_and_what_is_lacking(tmp_path: Path) -> None:
    found = portabilities(tmp_path, list(rows(sb3=50.0)))
    ours = found["placerl", OVER, "here"]
    assert ours.value
    assert ours.value.value == pytest.approx(SIZE * 400)
    assert (ours.choices, ours.unsupported, ours.status) == (1, 0, "ok"), (
        "the strict loop's noise is not in it, and two backends are one device"
    )
    both = found["placerl", OVER, "here and simulated"]
    assert both.value
    assert (both.choices, both.value.provenance) == (2, Provenance.SIMULATED)
    assert both.value.value == pytest.approx(SIZE * 2 / (1 / 400 + 1 / 900))
    sb3 = found["sb3", OVER, "here and simulated"]
    assert sb3.value
    assert (sb3.value.value, sb3.choices, sb3.unsupported, sb3.status) == (0, 2, 1, "ok")
    rllib = found["rllib", OVER, "here"]
    assert (rllib.value, rllib.unsupported, rllib.status) == (None, None, "not_run")
    assert {over for _, over, _ in found} == {OVER}, "one machine is no platforms"


@pytest.mark.parametrize(
    ("noisy", "among"),
    [
        ("native-native-cpu", {"here", "here and simulated"}),
        ("torch-native-cpu", set()),  # not the fastest of its device
        (FPGA, {"here and simulated"}),
    ],
)
def test_portability_of_rates_that_are_too_noisy_is_marked(
    noisy: str, among: set[str], tmp_path: Path
) -> None:
    found = portabilities(tmp_path, list(rows(noisy, sb3=50.0)))
    marked = {place for place, one in found.items() if one.status == "too_noisy"}
    assert marked == {("placerl", OVER, devices) for devices in among}


def test_portability_over_machines_is_of_this_project_and_of_baselines(tmp_path: Path) -> None:
    one = [validated("native-native-cpu", 100.0), side("ours", "placerl", 100.0), side("theirs", "sb3", 50.0)]
    other = [validated("torch-native-cpu", 300.0), side("ours", "placerl", 400.0)]
    other.append(side("theirs", "sb3", 100.0, **NOISY))
    found = portabilities(tmp_path, one, other)
    best = found["placerl", "machines", "best mapping of each"]
    beside = "those with a comparison with sb3"
    ours, theirs = found["placerl", "machines", beside], found["sb3", "machines", beside]
    values = [each.value.value for each in (best, ours, theirs) if each.value]
    expected = [2 / (1 / 100 + 1 / 300), 2 / (1 / 100 + 1 / 400), 2 / (1 / 50 + 1 / 100)]
    assert values == pytest.approx([SIZE * value for value in expected])
    assert [(each.choices, each.unsupported) for each in (best, ours, theirs)] == [(2, 0)] * 3
    assert [each.status for each in (best, ours, theirs)] == ["ok", "ok", "too_noisy"]
    assert best.value
    assert best.value.rows == (0, 3)
    assert best.value.low == pytest.approx(0.99 * best.value.value)


def test_a_machine_on_which_all_failed_counts_as_unsupported(tmp_path: Path) -> None:
    mapping = "native-native-cpu"
    found = portabilities(tmp_path, [validated(mapping, 100.0)], [failed(mapping)])
    best = found["placerl", "machines", "best mapping of each"]
    assert best.value
    assert (best.value.value, best.choices, best.unsupported, best.value.rows) == (0, 2, 1, (0, 1))


def test_a_stranger_that_tells_no_details_or_impossible_rates_stops_nothing(tmp_path: Path) -> None:
    fields = {"suite": "validation", "backend": "placerl", "workload": "cartpole-dqn", "details": {}}
    negative = {"spread": -0.01}
    found = portabilities(
        tmp_path,
        [trained(9.0, SIZE, quantity="portability", **fields), trained(-5.0, SIZE, **negative, **fields)],
        [trained(0.0, SIZE, **fields), *(side(part, "sb3", -5.0, **negative) for part in ("theirs", "ours"))],
        [replace(trained(5.0, SIZE, **fields), batch_size=None), trained(5.0, SIZE, **fields)],
        [trained(5.0, SIZE, spread=2, **fields), replace(side("ours", "placerl", 5.0), batch_size=None)],
    )
    assert found["placerl", "mappings", ""].choices is None
    assert found["placerl", "machines", "best mapping of each"].choices == 3


@pytest.mark.parametrize("name", ["throughput", "portability"])
def test_unit_and_provenance_are_columns_in_every_format(name: str, tmp_path: Path) -> None:
    path = store(tmp_path, list(rows("native-native-cpu", sb3=50.0)))
    export.write(path, tmp_path / "export", list(export.FORMATS))
    stem = tmp_path / "export" / name
    for table in (pd.read_csv(f"{stem}.csv"), pd.read_parquet(f"{stem}.parquet")):
        there = table[table["value"].notna()]
        assert set(there["unit"]) == {"1/s"}
        assert set(there["provenance"]) == {"measured", "simulated"}
        assert "too_noisy" in set(table["status"])
    head, _, *lines = stem.with_suffix(".md").read_text(encoding="utf-8").splitlines()[2:]
    columns = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *lines)]
    begin, _, body = stem.with_suffix(".tex").read_text(encoding="utf-8").rpartition("\\endlastfoot\n")
    heading = begin.partition("\\toprule\n")[2].splitlines()[0]
    latex = [heading, *(line for line in body.splitlines() if line.endswith(r"\\"))]
    assert len(latex) == len(columns)
    split = [[cell.strip() for cell in line.removesuffix(r"\\").split("&")] for line in latex]
    for names, *cells in (columns, split):
        texts = {key: [row[place] for row in cells] for place, key in enumerate(names)}
        assert set(texts["unit"]) <= {"1/s", ""}
        assert set(texts["provenance"]) - {""} == {"measured", "simulated"}
        assert "too noisy" in texts["status"]
        value = texts[{"throughput": "gradient steps", "portability": "mean"}[name]]
        assert all(re.fullmatch(r"[\d,.]*( \[[\d,.]+, [\d,.]+\])?", cell) for cell in value)


def test_latex_columns_fit_the_page(tmp_path: Path) -> None:
    """Each column is as wide as its longest word, at the widths of the largest real cells."""
    one = [
        *rows("torch-native-cpu", sb3=50.0),
        validated("torch:cuda-native-cpu", 123_456.7, Loop.OVERLAPPED),
    ]
    path = store(tmp_path, one, [validated("torch-native-cpu", 3e4), *rows(sb3=50.0)])
    tables = {table.name: table for table in text_tables.text_tables(read(path))}
    for name in ("throughput", "portability"):
        table = tables[name]
        for place, share in enumerate(text_tables.column_shares(table)):
            cells = [table.columns[place], *(str(row[place]) for row in table.rows)]
            longest = max((word for cell in cells for word in re.split(r"\s|(?<=-)", cell)), key=len)
            assert share * 80 >= len(longest) + 1, (name, table.columns[place], longest)
