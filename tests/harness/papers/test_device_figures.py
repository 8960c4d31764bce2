"""The tables of several machines, joined figure by figure."""

from pathlib import Path

from placerl.harness.core.outcome import Outcome
from placerl.harness.papers import device_figures
from placerl.harness.papers.machines import joint
from placerl.harness.profile import simulated
from tests.harness.papers.device_rows import on
from tests.harness.papers.rows import frame_of, profiled

FIGURES = [
    "MAP-F11",
    "MAP-F12-sampling",
    "MAP-T5",
    "PRL-F6",
    "PRL-F7",
    "PRL-F8",
    "PPO-T2",
    "PPO-F11",
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
    verdicts, printed = (
        joint({machine: judge(frame) for machine, frame in frames.items()})
        for judge in (device_figures.verdicts_of, device_figures.as_in_the_papers)
    )
    tables = [device_figures.tables_of(machine, frame) for machine, frame in frames.items()]
    figure, *_ = device_figures.figures(tables, verdicts, printed)
    assert (figure.key, figure.place) == ("MAP-F11", "MAP VII-C, Fig. 11")
    hopper = figure.tables[0]
    at = {
        kind: [(one.number.value, one.machine) for one in hopper.at(kind, 32)]
        for kind in ("cpu", "cuda", "fpga")
    }
    assert at == {"cpu": [(1e-4, "a"), (2e-4, "b")], "cuda": [(1e-5, "b")], "fpga": [(1e-6, "")]}
    began = {name: frame["started_at"].iloc[0] for name, frame in frames.items()}
    runs = {kind: [one.run for one in hopper.at(kind, 32)] for kind in ("cpu", "fpga")}
    assert runs == {"cpu": [began["a"], began["b"]], "fpga": [""]}
    assert hopper.stated == {32: "FPGA", 2048: "GPU", 16384: "GPU"}
    assert list(figure.claims[0].by_machine) == ["a", "b"]


def test_a_second_finding_is_of_implementations_that_the_paper_has(tmp_path: Path) -> None:
    """A native learner is faster than the FPGA's pipeline, and PyTorch, which MAP has, is slower."""
    pipeline = [on("fpga", simulated.PIPELINE, size, 1e-5, "cartpole-ddpg") for size in (32, 512)]
    others = [
        profiled("learner.step", time_s, size, workload="cartpole-ddpg", backend=backend, device=device)
        for backend, device, time_s in (
            ("native", "cpu", 1e-6),
            ("torch", "cpu", 1e-3),
            ("torch", "cuda", 1e-4),
        )
        for size in (32, 512)
    ]
    frame = frame_of(tmp_path, *pipeline, *others)
    tables, here = [device_figures.tables_of("a", frame)], {"a": device_figures.verdicts_of(frame)}
    printed = {"a": device_figures.as_in_the_papers(frame)}
    figure, *_ = device_figures.figures(tables, joint(here), joint(printed))
    (best,) = (one.outcome for one in figure.claims if one.claim.key == "MAP-F11-CartPole")
    words, as_in_the_paper = figure.second_findings["MAP-F11-CartPole"]
    assert (best, as_in_the_paper) == (Outcome.NOT_REPRODUCED, Outcome.CONSISTENT)
    assert "PyTorch" in words
    assert set(figure.second_findings) == {"MAP-F11", "MAP-F11-Pong", "MAP-F11-CartPole"}
