"""PRL's composition, portability and user code: verdicts from rows that should and should not carry them."""

import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import papers
from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome
from harness.papers.number import Number
from harness.papers.prl import portability
from harness.report import site
from harness.store.store import Store
from tests.harness.papers.rows import compared, trained
from tests.harness.papers.test_verdicts import verdict


def mapped(mapping: str, gps: float, size: int, assignment: str = "", **fields: Any) -> Measurement:
    base = {"suite": "validation", "workload": "cartpole-dqn", "backend": "placerl", "device": mapping}
    stated = {"assignment": assignment} if assignment else {}
    return trained(gps, size, details={"mapping": mapping, **stated}, **(base | fields))


def grid(size: int, learner: float, replay: float) -> list[Measurement]:
    """Four device assignments; the better learner's device and the better replay management's gain so much."""
    return [
        mapped(f"{a}-{b}-cpu", 100 * x * y, size)
        for a, x in (("torch:cuda", learner), ("native", 1.0))
        for b, y in (("cuda", replay), ("native", 1.0))
    ]


@pytest.mark.parametrize(
    ("small", "large", "outcome"),
    [
        ((1.2, 3.0), (3.0, 1.2), Outcome.IN_KIND),
        ((3.0, 1.2), (3.0, 1.2), Outcome.NOT_REPRODUCED),
        ((1.2, 3.0), (1.2, 3.0), Outcome.NOT_REPRODUCED),
        ((1.2, 3.0), (1.21, 1.2), Outcome.NO_VERDICT),  # their intervals overlap
    ],
)
def test_what_decides_at_small_and_at_large_batches(
    small: tuple[float, float], large: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PRL-F8", tmp_path, *grid(32, *small), *grid(2048, *large)).finding
    assert found.outcome is outcome
    assert sorted(n.value for n in found.ours) == pytest.approx(sorted((*small, *large)))
    assert verdict("PRL-F8", tmp_path, *grid(32, *small)).finding.outcome is Outcome.NOT_RUN
    noisy = {"status": "too_noisy", "reason": "the interval is 40% of the median"}
    unsure = mapped("torch:cuda-cuda-cpu", 100 * small[0] * small[1], 32, **noisy)
    rows = (unsure, *grid(32, *small)[1:], *grid(2048, *large))
    assert verdict("PRL-F8", tmp_path / "noisy", *rows).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("large", "outcome"), [((3.0, 1.2), Outcome.CONSISTENT), ((1.2, 3.0), Outcome.NO_VERDICT)]
)
def test_devices_whose_rates_a_formula_gives_reproduce_nothing(
    large: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    rows = [*grid(32, 1.2, 3.0), *grid(2048, *large)]
    modelled = [replace(row, provenance=Provenance.MODELLED) for row in rows]
    assert verdict("PRL-F8", tmp_path, *modelled).finding.outcome is outcome


def test_a_modelled_rate_refutes_nothing_beside_measured_ones(tmp_path: Path) -> None:
    def rows(large: list[Measurement]) -> list[Measurement]:
        return [*grid(32, 1.2, 3.0), *large]

    def told(gains: tuple[float, float]) -> list[Measurement]:
        return [replace(row, provenance=Provenance.MODELLED) for row in grid(2048, *gains)]

    refuted = verdict("PRL-F8", tmp_path / "measured", *rows(grid(2048, 1.2, 3.0))).finding
    assert refuted.outcome is Outcome.NOT_REPRODUCED
    denied = verdict("PRL-F8", tmp_path / "modelled", *rows(told((1.2, 3.0)))).finding
    assert denied.outcome is Outcome.NO_VERDICT
    assert "Modelled rates refute nothing" in denied.explanation
    agrees = verdict("PRL-F8", tmp_path / "agrees", *rows(told((3.0, 1.2)))).finding
    assert agrees.outcome is Outcome.IN_KIND
    assert "refute" not in agrees.explanation


def test_backends_of_one_device_decide_nothing(tmp_path: Path) -> None:
    backends = [
        mapped(f"{a}-{b}-cpu", gps, size)
        for size in (32, 2048)
        for gps, (a, b) in enumerate(product(("native", "torch", "opencl"), ("native", "flat", "opencl")), 1)
    ]
    found = verdict("PRL-F8", tmp_path, *backends).finding
    assert found.outcome is Outcome.NOT_RUN
    assert "OpenCL device that is not this CPU" in found.needs


def test_a_replay_manager_on_the_learners_gpu(tmp_path: Path) -> None:
    def rows(shared: float) -> list[Measurement]:
        pairs = (
            ("torch:cuda-cuda-cpu", shared),
            ("torch:cuda-native-cpu", 100.0),
            ("native-native-cpu", 500.0),
        )
        return [mapped(mapping, gps, 2048) for mapping, gps in pairs]

    found = verdict("MAP-F13-sharing", tmp_path, *rows(70)).finding
    assert found.outcome is Outcome.REPRODUCED
    assert found.ours[0].value == pytest.approx(30)
    assert verdict("MAP-F13-sharing", tmp_path, *rows(50)).finding.outcome is Outcome.IN_KIND
    assert verdict("MAP-F13-sharing", tmp_path, *rows(130)).finding.outcome is Outcome.NOT_REPRODUCED
    assert verdict("MAP-F13-sharing", tmp_path, *rows(101)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(99)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(70)[1:]).finding.outcome is Outcome.NOT_RUN


DEVICES = "PRL-T3-device-portability"
ON_CPU = [mapped("native-native-cpu", 100.0, 64), mapped("opencl-flat-cpu", 50.0, 64)]
SIMULATED = {"provenance": Provenance.SIMULATED}
ON_BOARD = [
    mapped("fpga-native-cpu", 200.0, 64, **SIMULATED),
    mapped("native-fpga-cpu", 120.0, 64, **SIMULATED),
    mapped("fpga-fpga-fpga", 400.0, 64, **SIMULATED),
    mapped("fpga-fpga-cpu", 300.0, 64, **SIMULATED),  # the same assignment: storage is none
]
ON_GPU = [mapped("torch:cuda-native-cpu", 150.0, 64), mapped("torch:cuda-cuda-cpu", 300.0, 64)]


def library(gps: float = 10.0) -> Measurement:
    details = {"baseline": "sb3", "part": "theirs"}
    return trained(gps, 64, suite="compare", workload="cartpole-dqn", details=details)


def failing(mapping: str) -> Measurement:
    return replace(
        mapped(mapping, 1.0, 64), value=None, low=None, high=None, status="failed", reason="no memory"
    )


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([*ON_CPU, *ON_GPU], Outcome.REPRODUCED),
        ([*ON_CPU, *ON_GPU, *ON_BOARD], Outcome.REPRODUCED),
        ([*ON_CPU, *ON_GPU[:1], failing("torch:cuda-cuda-cpu")], Outcome.NOT_REPRODUCED),
        ([*ON_CPU, ON_GPU[0]], Outcome.NOT_REPRODUCED),  # a learner's device alone: the library has that
        ([*ON_CPU, *ON_BOARD], Outcome.CONSISTENT),  # where it could not come out otherwise
        ([*ON_CPU, mapped("opencl-native-cpu", 5.0, 64, "opencl-cpu")], Outcome.REPRODUCED),
        (ON_CPU, Outcome.NOT_RUN),  # many backends, one device
    ],
)
def test_portability_is_over_devices_and_not_over_backends(
    rows: list[Measurement], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict(DEVICES, tmp_path, *rows, library()).finding
    assert found.outcome is outcome
    if outcome is Outcome.NOT_RUN:
        assert found.needs.startswith("a second device")
    assert verdict(DEVICES, tmp_path / "alone", *rows).finding.outcome is Outcome.NOT_RUN


def test_portability_takes_the_fastest_mapping_of_every_assignment(tmp_path: Path) -> None:
    found = verdict(DEVICES, tmp_path, *ON_CPU, *ON_BOARD, library())
    ours, theirs = found.finding.ours
    assert ours.value == pytest.approx(64 * 4 / (1 / 100 + 1 / 200 + 1 / 120 + 1 / 400))
    assert ours.provenance is Provenance.SIMULATED
    assert ours.rows == (0, 2, 3, 4)
    assert theirs.value == 0
    assert "reproduces nothing" in found.finding.explanation
    on_gpu = verdict(DEVICES, tmp_path / "gpu", *ON_CPU, *ON_GPU, *ON_BOARD, library()).finding
    assert on_gpu.ours[0].provenance is Provenance.MEASURED, "devices that are here are enough"


def rates(ours: float, theirs: float) -> list[Measurement]:
    return [
        trained(gps, 64, suite="compare", workload="cartpole-dqn", details={"baseline": "sb3", "part": part})
        for part, gps in (("ours", ours), ("theirs", theirs))
    ]


def merged(path: Path, *machines: list[Measurement]) -> pd.DataFrame:
    with Store.open(path) as store:
        for number, rows in enumerate(machines):
            run = store.begin_run("quick", "revision", {"fingerprint": f"machine-{number}"})
            for index, row in enumerate(rows):
                run.finish(f"cell/{index}", [row])
        return store.frame()


def test_portability_over_the_machines_of_a_merged_store(tmp_path: Path) -> None:
    frame = merged(tmp_path / "two.sqlite", rates(100, 50), rates(400, 100))
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.IN_KIND
    # Harmonic means: 2 / (1/100 + 1/400) = 160 over 2 / (1/50 + 1/100) = 66.7.
    assert found.finding.ours[0].value == pytest.approx(2.4)
    assert len(found.rows) == 4
    one = merged(tmp_path / "one.sqlite", rates(100, 50))
    (alone,) = papers.evaluate(one, "PRL-T3-platform-portability")
    assert alone.finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [((100, 400), Outcome.IN_KIND), ((51, 101), Outcome.NO_VERDICT), ((40, 90), Outcome.NOT_REPRODUCED)],
)
def test_portability_over_machines_counts_beyond_the_noise(
    ours: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    frame = merged(tmp_path / "two.sqlite", rates(ours[0], 50), rates(ours[1], 100))
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is outcome
    (number,) = found.finding.ours
    assert number.low is not None
    assert number.high is not None
    assert number.low == pytest.approx(number.value * 0.99 / 1.01)


def test_its_page_shows_the_rows_of_both_machines(tmp_path: Path) -> None:
    merged(tmp_path / "two.sqlite", rates(100, 50), rates(400, 100))
    site.write(tmp_path / "two.sqlite", tmp_path / "report")
    page = (tmp_path / "report" / "claims" / "PRL-T3-platform-portability.html").read_text()
    assert page.count('data-label="Batch size"') == 4


@pytest.mark.parametrize(
    ("gain", "word", "outcome"),
    [
        (1.3, "faster", Outcome.REPRODUCED),  # 21% to 55% are published
        (1.21, "faster", Outcome.IN_KIND),  # its interval reaches below
        (300.0, "faster", Outcome.IN_KIND),
        (0.8, "slower", Outcome.NOT_REPRODUCED),
        (1.3, "no verdict", Outcome.NO_VERDICT),
    ],
)
def test_gains_on_the_same_gpu(gain: float, word: str, outcome: Outcome, tmp_path: Path) -> None:
    key = "PRL-T3-same-hardware"
    details = {"baseline": "sb3", "verdict": word, "mapping": "torch:cuda-native-cpu"}
    on_gpu = compared(gain, word, details=details)
    assert verdict(key, tmp_path, on_gpu).finding.outcome is outcome
    assert verdict(key, tmp_path / "cpu", compared(1.3, "faster")).finding.outcome is Outcome.NOT_RUN


def test_portability_over_machines_of_noisy_rates_gives_no_verdict(tmp_path: Path) -> None:
    noisy = {"status": "too_noisy", "reason": "the interval is 40% of the median"}
    second = [replace(row, **noisy) for row in rates(400, 100)]
    frame = merged(tmp_path / "two.sqlite", rates(100, 50), second)
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.NO_VERDICT


def test_an_algorithm_of_ones_own_changes_in_the_mappings_name_alone(tmp_path: Path) -> None:
    found = verdict("PRL-T4", tmp_path).finding
    assert found.outcome is Outcome.CONSISTENT
    assert len(found.ours) == 4
    for lines, divergence in zip(found.ours[::2], found.ours[1::2], strict=True):
        assert 12 < lines.value < 100
        assert 0 < divergence.value < 4 / lines.value  # one line of each side is its own


@pytest.mark.parametrize(
    ("last", "low"),
    [((100.0, 0.01), True), ((100.0, 1.0), False), (None, False)],  # 0 within an interval, and no interval
)
def test_a_harmonic_mean_has_an_interval_only_of_rates_above_0(
    last: tuple[float, float] | None, low: bool
) -> None:
    def rate(value: float, spread: float) -> Number:
        return Number(
            "rate", value, "1/s", Provenance.MEASURED, "", value * (1 - spread), value * (1 + spread)
        )

    bare = replace(rate(100.0, 0.01), low=None, high=None)
    mean = portability.harmonic_mean([rate(50.0, 0.01), bare if last is None else rate(*last)])
    assert mean.value == pytest.approx(2 / (1 / 50 + 1 / 100))
    assert (mean.low is not None, mean.high is not None) == (low, low)
    if low:
        assert (mean.low, mean.high) == pytest.approx((0.99 * mean.value, 1.01 * mean.value))
    assert portability.harmonic_mean([rate(50.0, 0.01), None]).value == 0.0


@pytest.mark.parametrize(
    ("more", "outcome"), [("", Outcome.CONSISTENT), ("import os\nprint(os)\n", Outcome.NO_VERDICT)]
)
def test_files_that_differ_in_more_than_the_mapping_are_not_portable(
    more: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(portability.EXAMPLES, tmp_path / "examples")
    with (tmp_path / "examples" / "policy_gradient_fpga.py").open("a") as file:
        file.write(more)
    monkeypatch.setattr(portability, "EXAMPLES", tmp_path / "examples")
    assert verdict("PRL-T4", tmp_path).finding.outcome is outcome
