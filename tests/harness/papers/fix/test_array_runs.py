"""FIX's array over batch size: rows that say their cycles, their formula and their clock."""

import pytest

from harness.core.progress import silent
from harness.core.provenance import Provenance
from harness.papers.fix import array_runs
from primitives.fpga.cycles import fixar
from primitives.learner.fpga import fpga_backend


def test_the_products_of_an_update_cover_every_multiply_accumulate() -> None:
    state, action, batch = 17, 6, 64
    actor, critic = (17 * 400 + 400 * 300 + 300 * 6), (23 * 400 + 400 * 300 + 300)
    wanted = batch * (2 * actor + 3 * critic)  # forward
    wanted += batch * ((critic - 23 * 400) + critic + critic)  # the critic's own, its gradient, through it
    wanted += batch * ((actor - 17 * 400) + actor)
    products = fixar.ddpg_products(state, action, batch)
    assert sum(p.outputs * p.inputs * p.vectors for p in products) == wanted
    assert fixar.ddpg_weights(state, action) == actor + critic + 2 * 700 + 6 + 1


def test_without_the_tools_rows_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: verilator")
    rows = array_runs.measure(silent)
    assert len(rows) == 2 * len(array_runs.BATCH_SIZES)
    assert {row.provenance for row in rows} == {Provenance.MODELLED}
    assert {(row.status, row.reason, row.value) for row in rows} == {
        ("not_run", "needs not installed: verilator", None)
    }


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds simulations with the C++ compiler
@pytest.mark.skipif(bool(fpga_backend.unavailable_reason()), reason=fpga_backend.unavailable_reason())
def test_rows_are_modelled_at_an_assumed_clock() -> None:
    rows = array_runs.measure(silent)
    assert {row.batch_size for row in rows} == set(array_runs.BATCH_SIZES)
    for row in rows:
        assert row.provenance is Provenance.MODELLED
        assert row.details["clock_assumed"]
        assert row.value == pytest.approx(row.batch_size * 164e6 / row.details["cycles"])
        assert row.details["cycles"] == sum(row.details["unit_cycles"].values())
