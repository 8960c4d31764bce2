"""The figures about CPU, GPU and FPGA over the machines of a store and of the committed runs."""

from pathlib import Path

import pytest

from placerl.harness.papers import machines
from placerl.harness.papers.device_figures import by_figure
from placerl.harness.report import devices, pages, reading
from placerl.harness.report.devices import Evidence
from placerl.harness.store.store import Store, as_frame
from tests.harness.papers.device_rows import on, steps

RUN = "0" * 40
GPU_MACHINE = {
    "fingerprint": "gpu-machine",
    "cpu": {"model": "Big CPU"},
    "accelerators": [{"kind": "cuda", "name": "Some GPU", "usable": True}],
}


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evidence:
    """A committed run of a machine with a GPU, in place of the many rows of the real ones."""
    with Store.open(tmp_path / "committed.sqlite") as store:
        run = store.begin_run("quick", RUN, GPU_MACHINE)
        run.finish("profile", [row for row in steps() if row.device != "fpga:u200"])
        found = devices.evidence(store.frame(), store.runs())
        runs = tuple(store.runs())
    monkeypatch.setattr(devices, "_committed", lambda: (found, runs))
    monkeypatch.setattr(machines, "committed", lambda: as_frame([]))
    return found


@pytest.mark.usefixtures("plots_not_drawn")
def test_a_report_shows_the_numbers_of_machines_that_are_not_here(
    tmp_path: Path, committed: Evidence
) -> None:
    here = {"fingerprint": "laptop", "cpu": {"model": "Small <b>CPU</b>"}}
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "1" * 40, here)
        run.finish("profile", [on("cpu", "learner.step", 32, 5e-3)])
        run.finish("cycles", [on("fpga", "learner.step", 32, 1e-6)])
    content = reading.read(tmp_path / "store.sqlite")
    shown = devices.of_content(content)
    assert shown.letters == {"laptop": "A", "gpu-machine": "B"}, "the last run's machine is the first"
    assert len(shown.figures) == len(by_figure())
    hopper = shown.figures[0].tables[0]
    at_32 = {
        kind: [shown.machine(one, kind) for one in hopper.at(kind, 32)] for kind in ("cpu", "cuda", "fpga")
    }
    assert at_32 == {"cpu": ["A Small <b>CPU</b>", "B Big CPU"], "cuda": ["B Some GPU"], "fpga": [""]}
    page = pages.render(content, "devices")
    assert "A</b> Small &lt;b&gt;CPU&lt;/b&gt;, accelerators: none <b>(this machine)</b>" in page
    assert "torch; B Some GPU" in page
    assert "FPGA not run at 64, 256, 512, 2,048, 4,096, 16,384: <code>placerl profile hopper-ddpg" in page
    assert page.count("<section") == len(by_figure()) + 1


def test_a_store_without_rows_shows_the_committed_ones(tmp_path: Path, committed: Evidence) -> None:
    with Store.open(tmp_path / "store.sqlite"):
        pass
    content = reading.read(tmp_path / "store.sqlite")
    assert devices.of_content(content).letters == {"gpu-machine": "A"}


def test_a_machine_whose_run_is_committed_counts_once(tmp_path: Path, committed: Evidence) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "1" * 40, GPU_MACHINE).finish("new", [on("cuda", "learner.step", 32, 7e-5)])
    shown = devices.of_content(reading.read(tmp_path / "store.sqlite"))
    assert list(shown.machines) == ["gpu-machine"]
    (entry,) = shown.figures[0].tables[0].at("cuda", 32)
    assert entry.number.value == 7e-5


def test_without_any_run_the_papers_numbers_stand_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a copy of the code without `results/reference`."""
    monkeypatch.setattr(devices.reference, "load", lambda **_: [])
    monkeypatch.setattr(machines, "committed", lambda: as_frame([]))
    monkeypatch.setattr(devices, "_committed", devices._committed.__wrapped__)  # without its cache
    with Store.open(tmp_path / "store.sqlite"):
        pass
    shown = devices.of_content(reading.read(tmp_path / "store.sqlite"))
    assert len(shown.figures) == len(by_figure())
    assert not shown.letters
    (platform,) = next(one for one in shown.figures if one.key == "FIX-F8").tables
    assert [entry.number.value for entry in platform.published["fpga"][64]] == [13_210]
    assert next(platform.gaps()).startswith("CPU not run at 64, 128, 256, 512: ")
