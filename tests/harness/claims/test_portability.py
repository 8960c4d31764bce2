"""PRL's composition, portability and user code: verdicts from rows that should and should not carry them."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import claims
from harness.claims import Outcome, pearl24_portability
from harness.measurement import Measurement
from harness.report import site
from harness.store import Store
from tests.harness.claims.rows import compared, trained
from tests.harness.claims.test_verdicts import verdict


def mapped(mapping: str, gps: float, size: int, **fields: Any) -> Measurement:
    base = {"suite": "validation", "workload": "cartpole-dqn", "backend": "placerl", "device": mapping}
    return trained(gps, size, details={"mapping": mapping}, **(base | fields))


def grid(size: int, learner: float, rmm: float) -> list[Measurement]:
    """Four mappings; the better learner and the better replay manager gain so much."""
    return [
        mapped(f"{a}-{b}-cpu", 100 * x * y, size)
        for a, x in (("native", learner), ("torch", 1.0))
        for b, y in (("native", rmm), ("flat", 1.0))
    ]


@pytest.mark.parametrize(
    ("small", "large", "outcome"),
    [((1.2, 3.0), (3.0, 1.2), Outcome.IN_KIND), ((3.0, 1.2), (3.0, 1.2), Outcome.NOT_REPRODUCED)],
)
def test_what_decides_at_small_and_at_large_batches(
    small: tuple[float, float], large: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    found = verdict("PRL-F8", tmp_path, *grid(32, *small), *grid(2048, *large)).finding
    assert found.outcome is outcome
    assert sorted(n.value for n in found.ours) == pytest.approx([1.2, 1.2, 3, 3])
    assert verdict("PRL-F8", tmp_path, *grid(32, *small)).finding.outcome is Outcome.NOT_RUN


def test_a_replay_manager_on_the_learners_gpu(tmp_path: Path) -> None:
    def rows(shared: float) -> list[Measurement]:
        pairs = (
            ("torch:cuda-cuda-cpu", shared),
            ("torch:cuda-native-cpu", 100.0),
            ("native-native-cpu", 500.0),
        )
        return [mapped(mapping, gps, 2048) for mapping, gps in pairs]

    found = verdict("MAP-F13-sharing", tmp_path, *rows(70)).finding
    assert found.outcome is Outcome.IN_KIND
    assert found.ours[0].value == pytest.approx(30)
    assert verdict("MAP-F13-sharing", tmp_path, *rows(130)).finding.outcome is Outcome.NOT_REPRODUCED
    assert verdict("MAP-F13-sharing", tmp_path, *rows(101)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(99)).finding.outcome is Outcome.NO_VERDICT
    assert verdict("MAP-F13-sharing", tmp_path, *rows(70)[1:]).finding.outcome is Outcome.NOT_RUN


def test_a_library_that_lacks_a_mapping_is_not_portable(tmp_path: Path) -> None:
    fields = {"quantity": "portability", "suite": "validation", "workload": "cartpole-dqn", "device": ""}
    ours, theirs = (trained(v, backend=b, **fields) for b, v in (("placerl", 900.0), ("sb3", 0.0)))
    assert verdict("PRL-T3-device-portability", tmp_path, ours, theirs).finding.outcome is Outcome.REPRODUCED
    assert verdict("PRL-T3-device-portability", tmp_path, ours).finding.outcome is Outcome.NOT_RUN


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
    (found,) = claims.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
    assert found.finding.outcome is Outcome.IN_KIND
    # Harmonic means: 2 / (1/100 + 1/400) = 160 over 2 / (1/50 + 1/100) = 66.7.
    assert found.finding.ours[0].value == pytest.approx(2.4)
    assert len(found.rows) == 4
    one = merged(tmp_path / "one.sqlite", rates(100, 50))
    (alone,) = claims.evaluate(one, "PRL-T3-platform-portability")
    assert alone.finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [((100, 400), Outcome.IN_KIND), ((51, 101), Outcome.NO_VERDICT), ((40, 90), Outcome.NOT_REPRODUCED)],
)
def test_portability_over_machines_counts_beyond_the_noise(
    ours: tuple[float, float], outcome: Outcome, tmp_path: Path
) -> None:
    frame = merged(tmp_path / "two.sqlite", rates(ours[0], 50), rates(ours[1], 100))
    (found,) = claims.evaluate(frame[frame["run"] == 1], "PRL-T3-platform-portability", everywhere=frame)
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


def test_gains_on_the_same_gpu(tmp_path: Path) -> None:
    on_gpu = compared(
        1.3, "faster", details={"baseline": "sb3", "verdict": "faster", "mapping": "torch:cuda-native-cpu"}
    )
    assert verdict("PRL-T3-same-hardware", tmp_path, on_gpu).finding.outcome is Outcome.REPRODUCED
    assert (
        verdict("PRL-T3-same-hardware", tmp_path, compared(1.3, "faster")).finding.outcome is Outcome.NOT_RUN
    )


def test_an_algorithm_of_ones_own_changes_in_the_mappings_name_alone(tmp_path: Path) -> None:
    found = verdict("PRL-T4", tmp_path).finding
    assert found.outcome is Outcome.IN_KIND
    assert len(found.ours) == 4
    for lines, divergence in zip(found.ours[::2], found.ours[1::2], strict=True):
        assert 12 < lines.value < 100
        assert 0 < divergence.value < 4 / lines.value  # one line of each side is its own


@pytest.mark.parametrize(
    ("more", "outcome"), [("", Outcome.IN_KIND), ("import os\nprint(os)\n", Outcome.NOT_REPRODUCED)]
)
def test_files_that_differ_in_more_than_the_mapping_are_not_portable(
    more: str, outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(pearl24_portability.EXAMPLES, tmp_path / "examples")
    with (tmp_path / "examples" / "policy_gradient_fpga.py").open("a") as file:
        file.write(more)
    monkeypatch.setattr(pearl24_portability, "EXAMPLES", tmp_path / "examples")
    assert verdict("PRL-T4", tmp_path).finding.outcome is outcome
