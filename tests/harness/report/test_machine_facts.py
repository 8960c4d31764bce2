"""The noise of a run and the speed of its cores, counted from rows with known details."""

import re
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.report import export, machine_facts, pages
from placerl.harness.report.reading import read
from placerl.harness.store.store import RunRecord, Store
from tests.harness.papers.rows import frame_of, measurement, profiled

NOISY = {"status": "too_noisy", "reason": "its interval is 40% wide"}
TIMED = [
    profiled("round.sample", 1.0, **NOISY),
    profiled("round.learn", 1.0),
    profiled("cold_round.learn", 1.0),
    profiled("learner.step", 1.0, 32, **NOISY),
    profiled("learner.step", 1.0, 64),
]
OTHERS = [
    profiled("learner.step", 1.0, 128, provenance=Provenance.SIMULATED, **NOISY),
    profiled("learner.step", 1.0, 128, quantity="null_ratio", **NOISY),
    measurement(1.0, suite="claim", primitive="learner.step", **NOISY),
    measurement(None, suite="profile", primitive="learner.step", status="not_run", reason="no driver"),
]


def paced(share: float, **fields: Any) -> Row:
    """A profile row of which that share of the pieces ran at full speed."""
    pace = {"known": True, "full_speed_share": share, "blocks": 20}
    return profiled("round.sample", 1.0, details={"pace": pace}, **fields)


def test_noisy_rows_are_counted_by_kind(tmp_path: Path) -> None:
    found = list(machine_facts.noisy_rows(frame_of(tmp_path, *TIMED, *OTHERS)))
    assert [(one.kind, one.timed.value, one.noisy.value, one.share.value) for one in found] == [
        ("cold_round", 1, 0, 0),
        ("learner", 2, 1, 50),
        ("round", 2, 1, 50),
        ("all", 5, 2, 40),
    ]
    assert [(one.timed.unit, one.noisy.unit, one.share.unit) for one in found] == [
        ("count", "count", "%")
    ] * 4
    assert [one.share.rows for one in found] == [(2,), (3, 4), (0, 1), (0, 1, 2, 3, 4)]


def test_without_timed_rows_none_are_counted(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, *OTHERS)
    assert not list(machine_facts.noisy_rows(frame))
    assert not list(machine_facts.noise(frame))
    assert not list(machine_facts.core_speed(frame))


def test_parts_that_are_known_to_a_hundredth_of_their_round_alone_are_counted(tmp_path: Path) -> None:
    rows = [
        profiled("round.insert", 1.0, low=0.8, high=1.2),
        profiled("round.learn", 1.0, low=0.96, high=1.05),
        profiled("round.sample", 1.0, low=0.5, high=1.5, **NOISY),
    ]
    found = {one.quantity: one for one in machine_facts.noise(frame_of(tmp_path, *rows))}
    (parts,) = (
        one for name, one in found.items() if name.startswith("interval wider than 10%, but at most 1%")
    )
    assert (parts.value, parts.unit, parts.rows) == (1, "count", (0,))


def test_core_speed_is_that_of_the_rows_that_state_it(tmp_path: Path) -> None:
    unread = profiled("learner.step", 1.0, details={"pace": {"known": False, "blocks": 20}})
    rows = [*TIMED, paced(0.25), paced(1.0), unread, paced(0.75, **NOISY), paced(0.65)]
    others = [paced(0.0, suite="claim"), paced(0.0, provenance=Provenance.SIMULATED)]
    found = list(machine_facts.core_speed(frame_of(tmp_path, *rows, *others)))
    assert {n.quantity: (pytest.approx(n.value), n.unit) for n in found} == {
        "timed rows whose core speed was read": (4, "count"),
        "of them partly run below full speed, and converted to it": (3, "count"),
        "pieces at full speed, median row": (70, "%"),
        "pieces at full speed, lowest row": (25, "%"),
        "pieces at full speed, highest row": (100, "%"),
    }
    assert {n.rows for n in found} == {(5, 6, 8, 9)}


@pytest.mark.parametrize(
    "details",
    [{}, {"pace": "fast"}, {"pace": {}}, {"pace": {"full_speed_share": "most"}}],
    ids=["older", "no table", "empty", "no number"],
)
def test_rows_that_do_not_state_the_core_speed_say_nothing_of_it(
    details: dict[str, object], tmp_path: Path
) -> None:
    frame = frame_of(tmp_path, profiled("round.sample", 1.0, details=details))
    assert not list(machine_facts.core_speed(frame))


def test_a_processor_that_opencl_lists_too_does_not_read_as_an_accelerator() -> None:
    def device(name: str, place: str, *, usable: bool = True) -> dict[str, object]:
        return {"kind": place.partition(":")[0], "device": place, "name": name, "usable": usable}

    listed = [device("AMD EPYC", "opencl:0"), device("H100", "cuda:0"), device("B", "opencl:1", usable=False)]
    machine: dict[str, object] = {"cpu": {"model": "AMD EPYC", "usable_cores": 2, "memory_bytes": 2**34}}
    line = "AMD EPYC, 2 cores, 16 GiB, accelerators: "
    assert machine_facts.in_a_line(machine) == f"{line}none"
    machine |= {"accelerators": listed}
    assert machine_facts.in_a_line(machine) == f"{line}OpenCL on the CPU (opencl:0), H100 (cuda:0)"


def test_the_page_and_the_files_show_the_kinds_and_the_core_speed(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Store.open(path) as store:
        run = store.begin_run("quick", "r", {"fingerprint": "f"})
        run.finish("a", TIMED)
        older = pages.render(read(path), "machine")
        run.finish("b", [paced(0.5)])
    content = read(path)
    page = pages.render(content, "machine")
    assert "core speed in this run" not in older
    (section,) = re.findall("<h3>core speed in this run</h3>.*?</section>", page, re.DOTALL)
    assert "<dt>pieces at full speed, median row</dt>" in section
    assert '<data value="50.0">50</data>%' in section
    assert "the more this machine was shared" in section
    (table,) = re.findall("Timed rows too noisy for a verdict</h3>.*?</table>", page, re.DOTALL)
    named = re.findall('<th scope="row">(.*?)</th>', table)
    assert named == ["in the loop, caches cold", "learner", "in the loop", "all"]
    assert '<data value="6.0">6</data>' in table.partition(">all<")[2]
    tables = export.tables(content)
    assert tables["noisy_rows"]["kind"].tolist() == ["cold_round", "learner", "round", "all"]
    assert tables["noisy_rows"]["noisy"].tolist() == [0, 1, 1, 2]
    assert tables["core_speed"]["value"].tolist() == [1, 1, 50, 50, 50]


def test_small_tables_are_named_by_what_they_are_in_whatever_order_they_were_stored() -> None:
    link = {"bytes_per_s": 8e9, "source": "cpu", "target": "cuda:0"}
    backend = {"available": True, "name": "torch", "primitive": "learner", "reason": ""}
    (described,) = machine_facts.facts({"links": [link]})
    assert (described.name, described.value) == ("cpu cuda:0", "speed: 8 GB/s")
    (described,) = machine_facts.facts({"backends": [backend]})
    assert (described.name, described.value) == ("learner torch", "available: yes")
    (described,) = machine_facts.facts({"others": [{"size": 3}]})
    assert (described.name, described.value) == ("3", "yes")


def test_machines_beyond_26_have_a_letter_and_a_number() -> None:
    runs = [
        RunRecord(number, f"k{number}", "quick", "r", f"m{number}", f"2026-01-{31 - number:02}", {})
        for number in range(28)
    ]
    found = machine_facts.letters(runs)
    assert [found[f"m{number}"] for number in (0, 25, 26, 27)] == ["A", "Z", "A1", "B1"]
