"""Verdicts on FIX's array and the papers' tables of resources."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness import claims, resource_table
from harness.claims import Outcome, Verdict
from harness.fixed_point_training import DYNAMIC
from harness.measurement import Measurement
from harness.provenance import Provenance
from harness.simulated_array import BACKENDS, BATCH_SIZES, EXPERIMENT, QUANTITY
from primitives.fpga import counted
from tests.harness.claims.rows import frame_of, measurement


def verdict(key: str, folder: Path, *rows: Measurement) -> Verdict:
    (found,) = (v for v in claims.evaluate(frame_of(folder, *rows), key) if v.key == key)
    return found


def array(rates: list[float]) -> list[Measurement]:
    row = measurement(
        None,
        suite="claim",
        workload="halfcheetah-ddpg",
        primitive="learner.step",
        backend=BACKENDS[32],
        device="fpga:u50",
        batch_size=64,
        quantity=QUANTITY,
        unit="IPS",
        provenance=Provenance.SIMULATED,
        status="not_run",
        reason="made up",
        details={"experiment": EXPERIMENT},
    )
    return [
        replace(row, batch_size=size, value=rate, status="ok", reason="")
        for size, rate in zip(BATCH_SIZES, rates, strict=True)
    ]


def host(environment_s: float) -> list[Measurement]:
    return [
        measurement(
            seconds,
            suite="claim",
            workload="halfcheetah-ddpg",
            primitive="training",
            backend=DYNAMIC,
            batch_size=size,
            quantity=f"{term}_time",
            details={"experiment": "FIX-F8"},
        )
        for size in BATCH_SIZES
        for term, seconds in (("environment", environment_s), ("transfer", 1e-5))
    ]


def test_fixs_array_is_judged_by_its_simulated_rates(tmp_path: Path) -> None:
    near = verdict("FIX-F10-rate", tmp_path, *array([55e3, 57e3, 59e3, 60e3]))
    assert near.finding.outcome is Outcome.IN_KIND
    assert len(near.rows) == 4
    for rates in ([30e3, 40e3, 50e3, 60e3], [90e3] * 4):
        assert verdict("FIX-F10-rate", tmp_path, *array(rates)).finding.outcome is Outcome.NOT_REPRODUCED
    peak = verdict("FIX-T2-peak", tmp_path, *array([55e3, 57e3, 59e3, 60e3]))
    normalised = verdict("FIX-T2", tmp_path, *array([55e3, 57e3, 59e3, 60e3]))
    assert normalised.finding.outcome is Outcome.IN_KIND
    said = "4.7x that of ASPLOS'19 [19], published 3.0x, 8.8x that of FCCM'20 [20], published 5.7x."
    assert said in normalised.finding.explanation
    assert verdict("FIX-T2", tmp_path, *array([9e3] * 4)).finding.outcome is Outcome.NOT_REPRODUCED
    assert peak.finding.outcome is Outcome.INCONSISTENT
    assert len(peak.rows) == 4


def test_fixs_platform_is_this_host_with_the_array(tmp_path: Path) -> None:
    rows = [*array([5e4] * 4), *host(2e-3)]
    joined = verdict("FIX-F8-host", tmp_path, *rows)
    assert joined.finding.outcome is Outcome.IN_KIND
    assert joined.provenance == "simulated"
    assert joined.finding.ours[0].value == pytest.approx(64 / (2.01e-3 + 64 / 5e4))
    # An environment that takes longer than the array at every batch size stays the bottleneck.
    assert (
        verdict("FIX-F8-host", tmp_path, *array([5e4] * 4), *host(1.0)).finding.outcome
        is Outcome.NOT_REPRODUCED
    )
    assert verdict("FIX-F8-host", tmp_path, *host(2e-3)).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize("key", ["PPO-T1-cells", "FIX-T1", "FIX-T1-adam"])
def test_counted_cells_stand_beside_every_published_row(key: str, tmp_path: Path) -> None:
    found = verdict(key, tmp_path)
    rows = [item for item in resource_table.COUNTERPARTS if item.claim == key]
    assert rows
    assert found.finding.outcome in (Outcome.IN_KIND, Outcome.NOT_REPRODUCED)
    assert len(found.finding.ours) == sum(len(item.columns) for item in rows)
    assert found.provenance == "simulated"


def test_cells_that_were_never_counted_are_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "committed", lambda: {})
    assert "needs cells counted by Yosys" in verdict("FIX-T1", tmp_path).verdict
