"""PPO's Fig. 12 to 15 over simulated cycles: rows of the experiments, and verdicts from them.

The closed forms stand in for the RTL's simulation here.
"""

from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from harness import accelerator_simulation, claims
from harness.accelerator_simulation import EXPERIMENTS
from harness.claims.base import Outcome, Verdict
from harness.measurement import Measurement
from harness.provenance import Provenance
from tests.harness.claims.closed_forms import closed_forms  # noqa: F401
from tests.harness.claims.rows import frame_of


def verdict(key: str, folder: Path, rows: list[Measurement]) -> Verdict:
    (claim,) = (claim for claim in claims.claims() if claim.key == key)
    return claim.evaluate(frame_of(folder, *rows))


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize("key", ["PPO-F12", "PPO-F13", "PPO-F14", "PPO-F15"])
def test_rows_lead_to_verdicts(key: str, tmp_path: Path) -> None:
    rows = EXPERIMENTS[key][1](lambda *_: None)
    assert all(row.provenance is Provenance.SIMULATED and row.status == "ok" for row in rows)
    found = verdict(key, tmp_path, rows).finding
    assert found.outcome is Outcome.IN_KIND
    kinds = {number.provenance for number in found.ours}
    over_published = {Provenance.PUBLISHED} if key in ("PPO-F14", "PPO-F15") else set()
    assert kinds == {Provenance.SIMULATED} | over_published
    assert all(number.rows for number in found.ours)
    assert len({number.quantity for number in found.ours}) == len(found.ours)


@pytest.mark.usefixtures("closed_forms")
def test_a_dataflow_that_does_not_gain_contradicts_the_claim(tmp_path: Path) -> None:
    rows = [
        row
        for row in EXPERIMENTS["PPO-F12"][1](lambda *_: None)
        if row.details["core"] != accelerator_simulation.AT_ONCE
    ]
    slow = [
        Measurement(
            **{
                name: getattr(row, name)
                for name in ("suite", "primitive", "backend", "device", "batch_size", "quantity", "unit")
            },
            provenance=row.provenance,
            value=row.value,
            details={**row.details, "core": accelerator_simulation.AT_ONCE},
        )
        for row in rows
    ]
    assert verdict("PPO-F12", tmp_path, [*rows, *slow]).finding.outcome is Outcome.NOT_REPRODUCED


def test_without_rows_the_formulas_stand_alone(tmp_path: Path) -> None:
    for key in ("PPO-F12", "PPO-F13", "PPO-F14", "PPO-F15"):
        found = verdict(key, tmp_path, []).finding
        assert {number.provenance for number in found.ours} == {Provenance.MODELLED}


def test_without_the_tools_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator_simulation.toolchain, "unavailable_reason", lambda: "no compiler")
    for key in ("PPO-F12", "PPO-F13", "PPO-F14", "PPO-F15"):
        (row,) = EXPERIMENTS[key][1](lambda *_: None)
        assert (row.status, row.reason, row.value) == ("not_run", "no compiler", None)


def test_named_tiers_simulate_them() -> None:
    assert {key for key, _, _ in accelerator_simulation.experiments("full")} == set(EXPERIMENTS)
    assert not list(accelerator_simulation.experiments("quick"))
