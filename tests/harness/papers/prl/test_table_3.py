"""PRL Table 3, from rows of validations, comparisons and merged stores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness import papers
from placerl.harness.compare.parts import OurSide, label
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome, claims
from placerl.harness.papers.prl.benchmarks import WORKLOADS
from placerl.harness.report import reading
from placerl.harness.store.store import Store
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import TOO_FEW, compared, finish_each, mapped, trained, verdict
from tests.harness.report.sample import claim_page

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


def on_all(value: float = 1.5, word: str = "faster", **fields: Any) -> list[Row]:
    """Comparisons with both libraries on each of PRL's benchmarks; of RLlib the version that trains the algorithm."""
    lines = {name: "rllib_2_6_3" if name.endswith("ddpg") else "rllib" for name in WORKLOADS}
    return [
        compared(value, word, baseline, workload=name, **fields)
        for name, line in lines.items()
        for baseline in ("sb3", line)
    ]


def library(gps: float = 10.0) -> Row:
    details = {"baseline": "sb3", "part": "theirs"}
    return trained(gps, 64, suite="compare", workload="cartpole-dqn", details=details)


def test_a_library_s_rate_is_of_its_device(tmp_path: Path) -> None:
    """It has both assignments, and was run on the CPU alone, or on both devices."""
    tried, here = [*ON_CPU, ON_GPU[0]], library(10.0)
    alone = verdict(DEVICES, tmp_path / "alone", *tried, here).finding.ours[-1]
    assert (alone.value, alone.provenance) == (pytest.approx(640), Provenance.MEASURED)
    assert alone.quantity.endswith("over 2 device assignments, run on cpu alone")
    both = verdict(
        DEVICES, tmp_path / "both", *tried, here, replace(library(30.0), device="cuda:0")
    ).finding.ours[-1]
    assert both.value == pytest.approx(2 / (1 / 640 + 1 / 1920))
    assert both.quantity.endswith("over 2 device assignments")


def failing(mapping: str) -> Row:
    return replace(
        mapped(mapping, 1.0, 64), value=None, low=None, high=None, status="failed", reason="no memory"
    )


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([*ON_CPU, *ON_GPU], Outcome.CONSISTENT),
        ([*ON_CPU, *ON_GPU, *ON_BOARD], Outcome.CONSISTENT),
        ([*ON_CPU, *ON_GPU[:1], failing("torch:cuda-cuda-cpu")], Outcome.NOT_REPRODUCED),
        ([*ON_CPU, ON_GPU[0]], Outcome.NOT_REPRODUCED),  # a learner's device alone: the library has that
        ([*ON_CPU, ON_GPU[0], *ON_BOARD], Outcome.NOT_REPRODUCED),  # and on no simulated board it is judged
        ([*ON_CPU, *ON_BOARD], Outcome.CONSISTENT),  # where it could not come out otherwise
        ([*ON_CPU, mapped("opencl-native-cpu", 5.0, 64, "opencl-cpu")], Outcome.CONSISTENT),
        (ON_CPU, Outcome.NOT_RUN),  # many backends, one device
    ],
)
def test_portability_is_over_devices_and_not_over_backends(
    rows: list[Row], outcome: Outcome, tmp_path: Path
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
    assert (theirs.value, theirs.provenance) == (0, Provenance.MODELLED), "it was not measured"
    assert "reproduces nothing" in found.finding.explanation
    on_gpu = verdict(DEVICES, tmp_path / "gpu", *ON_CPU, *ON_GPU, *ON_BOARD, library()).finding
    assert on_gpu.ours[0].provenance is Provenance.MEASURED, "devices that are here are enough"


ALL = tuple((str(details_of(row)["baseline"]), row.workload or "") for row in on_all())


def rates(ours: float, theirs: float, on: Sequence[tuple[str, str]] = ALL) -> list[Row]:
    """Rates beside libraries on workloads: on all of PRL's benchmarks, unless others are named."""
    return [
        trained(gps, 64, suite="compare", workload=workload, details={"baseline": name, "part": part})
        for name, workload in on
        for part, gps in (("ours", ours), ("theirs", theirs))
    ]


def merged(path: Path, *machines: list[Row]) -> pd.DataFrame:
    with Store.open(path) as store:
        for number, rows in enumerate(machines):
            run = store.begin_run("quick", "revision", {"fingerprint": f"machine-{number}"})
            finish_each(store, run, rows)
        return store.frame()


def test_portability_over_the_machines_of_a_merged_store(tmp_path: Path) -> None:
    frame = merged(tmp_path / "two.sqlite", rates(100, 50), rates(400, 100))
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.IN_KIND
    # Harmonic means: 2 / (1/100 + 1/400) = 160 over 2 / (1/50 + 1/100) = 66.7.
    assert found.finding.ours[0].value == pytest.approx(2.4)
    assert len(found.rows) == 4 * len(ALL)
    one = merged(tmp_path / "one.sqlite", rates(100, 50))
    (alone,) = papers.evaluate(one, "PRL-T3-platform-portability")
    assert alone.finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("on", "missing"),
    [
        (ALL[:1], "RLlib on cartpole-dqn, Stable-Baselines3 on mountaincar-ddpg"),
        ((*ALL[:-1], ("pfrl", "pong-dqn")), "RLlib on pong-dqn."),
        ((*ALL[:-1], ("rllib", "hopper-ppo")), "RLlib on pong-dqn."),
    ],
)
def test_portability_over_machines_is_judged_on_both_libraries_and_all_benchmarks(
    on: Sequence[tuple[str, str]], missing: str, tmp_path: Path
) -> None:
    frame = merged(tmp_path / "two.sqlite", rates(100, 50, on), rates(400, 100, on))
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.NO_VERDICT
    assert missing in found.finding.explanation


def test_one_pair_of_portability_over_machines_refutes(tmp_path: Path) -> None:
    frame = merged(tmp_path / "two.sqlite", rates(40, 50, ALL[:1]), rates(90, 100, ALL[:1]))
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.NOT_REPRODUCED
    assert "RLlib on pong-dqn." in found.finding.explanation


OWN_ENVIRONMENTS = label("sb3", ours=OurSide(native_environments=True))


@pytest.mark.parametrize(
    "other", [("pfrl", "pong-dqn"), ("sb3", "hopper-ppo"), (OWN_ENVIRONMENTS, "cartpole-dqn")]
)
def test_portability_over_machines_lists_what_it_does_not_judge(
    other: tuple[str, str], tmp_path: Path
) -> None:
    machines = [[*rates(ours, 50), *rates(10, 50, [other])] for ours in (100.0, 400.0)]
    frame = merged(tmp_path / "two.sqlite", *machines)
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.IN_KIND
    assert len(found.finding.ours) == len(ALL) + 1
    alone = merged(tmp_path / "alone.sqlite", *[rates(10, 50, [other])] * 2)
    (found,) = papers.evaluate(alone[alone["run"] == 1], "PRL-T3-platform-portability", everywhere=alone)
    assert found.finding.outcome is Outcome.NOT_RUN


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
    number = found.finding.ours[0]
    assert number.low is not None
    assert number.high is not None
    assert number.low == pytest.approx(number.value * 0.99 / 1.01)


@pytest.mark.usefixtures("plots_not_drawn")
def test_its_page_shows_the_rows_of_both_machines(tmp_path: Path) -> None:
    merged(tmp_path / "two.sqlite", rates(100, 50), rates(400, 100))
    page = claim_page(reading.read(tmp_path / "two.sqlite"), "PRL-T3-platform-portability")
    assert page.count('data-label="Batch size"') == 4 * len(ALL)


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
    """One gain of this value; the others are as published."""
    key, on_gpu = "PRL-T3-same-hardware", {"device": "cuda"}
    rows = [*on_all(1.3, **on_gpu)[:-1], compared(gain, word, "rllib", workload="pong-dqn", **on_gpu)]
    assert verdict(key, tmp_path, *rows).finding.outcome is outcome
    # Whose networks are on the CPU is compared on other hardware; Hopper is no benchmark of PRL.
    more = [compared(0.5, "slower"), compared(0.5, "slower", workload="hopper-ddpg", **on_gpu)]
    assert verdict(key, tmp_path / "more", *rows, *more).finding.outcome is outcome
    assert verdict(key, tmp_path / "cpu", *on_all(1.3)).finding.outcome is Outcome.NOT_RUN
    details = {"baseline": "sb3", "verdict": "faster", "mapping": "torch:cuda-native-cpu"}
    apart = compared(1.3, "faster", details=details)  # the library's networks on the CPU
    assert verdict(key, tmp_path / "apart", apart).finding.outcome is Outcome.NOT_RUN


def test_gains_over_one_library_on_the_gpu_show_nothing_of_the_other(tmp_path: Path) -> None:
    rows = [row for row in on_all(1.3, device="cuda") if details_of(row)["baseline"] == "sb3"]
    found = verdict("PRL-T3-same-hardware", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "RLlib on cartpole-dqn, RLlib on mountaincar-ddpg, RLlib on pong-dqn." in found.explanation


def test_a_gain_on_the_gpu_under_a_named_mapping_is_of_its_library(tmp_path: Path) -> None:
    """As `placerl gpu-claims` compares: the predictions would choose the CPU."""
    name = "sb3, this project with torch:cuda-native-cpu"
    details = {"baseline": name, "verdict": "slower", "mapping": "torch:cuda-native-cpu"}
    row = compared(0.5, "slower", name, device="cuda", details=details)
    assert verdict("PRL-T3-same-hardware", tmp_path / "a", row).finding.outcome is Outcome.NOT_REPRODUCED
    assert verdict("PRL-T3", tmp_path / "b", row).finding.outcome is Outcome.NOT_RUN


def test_portability_over_machines_of_noisy_rates_gives_no_verdict(tmp_path: Path) -> None:
    second = [replace(row, **TOO_FEW) for row in rates(400, 100)]
    frame = merged(tmp_path / "two.sqlite", rates(100, 50), second)
    (found,) = papers.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ((2.0, "faster"), Outcome.IN_KIND),
        ((0.5, "slower"), Outcome.NOT_REPRODUCED),
        ((1.001, "no verdict"), Outcome.NO_VERDICT),
        ((2.0, "no verdict"), Outcome.NO_VERDICT),  # the interval leaves 1 out, the A/A null reaches as far
        ((0.5, "no verdict"), Outcome.NO_VERDICT),
    ],
)
def test_beside_the_libraries(last: tuple[float, str], outcome: Outcome, tmp_path: Path) -> None:
    *rows, _ = on_all()
    rows.append(compared(*last, "rllib", workload="pong-dqn"))
    found = verdict("PRL-T3", tmp_path, *rows, compared(9.0, "faster", "cpprb"))
    assert found.finding.outcome is outcome
    assert "Missing" not in found.finding.explanation
    assert sorted(number.value for number in found.finding.ours) == sorted([*[1.5] * 5, last[0]])
    noisy = compared(
        2.0, "faster", workload="pong-dqn", status="too_noisy", reason="the interval is 40% of the median"
    )
    assert verdict("PRL-T3", tmp_path / "noisy", *on_all(), noisy).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize("missing", range(6))
def test_a_library_that_was_not_compared_is_named_and_nothing_shown(missing: int, tmp_path: Path) -> None:
    rows = on_all()
    row = rows.pop(missing)
    library = "Stable-Baselines3" if missing % 2 == 0 else "RLlib"
    found = verdict("PRL-T3", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert found.explanation.endswith(f"all benchmarks: {library} on {row.workload}.")
    rows[-1] = replace(rows[-1], details=details_of(rows[-1]) | {"verdict": "slower"})
    slower = verdict("PRL-T3", tmp_path / "slower", *rows).finding
    assert slower.outcome is Outcome.NOT_REPRODUCED, "one is enough to refute it"


def test_other_papers_workloads_are_listed_and_not_judged(tmp_path: Path) -> None:
    hopper = compared(0.5, "slower", workload="hopper-ddpg")
    alone = verdict("PRL-T3", tmp_path / "alone", hopper).finding
    assert alone.outcome is Outcome.NOT_RUN
    assert [number.value for number in alone.ours] == [0.5]
    assert alone.needs.endswith("on cartpole-dqn, mountaincar-ddpg, pong-dqn")
    assert verdict("PRL-T3", tmp_path / "all", *on_all(), hopper).finding.outcome is Outcome.IN_KIND


def test_only_portability_over_platforms_reads_every_machine() -> None:
    assert [claim.key for claim in claims("PRL") if claim.everywhere] == ["PRL-T3-platform-portability"]
