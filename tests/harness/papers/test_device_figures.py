"""The tables of several machines, joined figure by figure."""

from pathlib import Path

from placerl.harness.papers import device_figures
from placerl.harness.papers.machines import joint
from tests.harness.papers.device_rows import on
from tests.harness.papers.rows import frame_of

FIGURES = [
    "MAP-F11",
    "MAP-F12-sampling",
    "MAP-T5",
    "PRL-F6",
    "PRL-F7",
    "PRL-F8",
    "PPO-T2",
    "FIX-F8",
    "FIX-F10",
]


def test_the_figures_about_devices_are_those_of_the_papers() -> None:
    assert [some[0].key for some in device_figures.by_figure()] == FIGURES
    by_key = {claim.key: some for some in device_figures.by_figure() for claim in some}
    assert [claim.key for claim in by_key["FIX-F10"]] == ["FIX-F10", "FIX-F10-rate"], "all of its statements"


def test_numbers_name_their_machine_and_cycles_count_once(tmp_path: Path) -> None:
    cycles = on("fpga", "learner.step", 32, 1e-6)
    frames = {
        "a": frame_of(tmp_path / "a", on("cpu", "learner.step", 32, 1e-4), cycles),
        "b": frame_of(
            tmp_path / "b", on("cpu", "learner.step", 32, 2e-4), on("cuda", "learner.step", 32, 1e-5), cycles
        ),
    }
    verdicts = {
        machine: [claim.evaluate(frame) for some in device_figures.by_figure() for claim in some]
        for machine, frame in frames.items()
    }
    tables = [device_figures.tables_of(machine, frame) for machine, frame in frames.items()]
    figure, *_ = device_figures.figures(tables, joint(verdicts))
    assert (figure.key, figure.place) == ("MAP-F11", "MAP VII-C, Fig. 11")
    hopper = figure.tables[0]
    at = {
        kind: [(one.number.value, one.machine) for one in hopper.at(kind, 32)]
        for kind in ("cpu", "cuda", "fpga")
    }
    assert at == {"cpu": [(1e-4, "a"), (2e-4, "b")], "cuda": [(1e-5, "b")], "fpga": [(1e-6, "")]}
    assert hopper.stated == {32: "FPGA", 2048: "GPU", 16384: "GPU"}
    assert list(figure.claims[0].by_machine) == ["a", "b"]
