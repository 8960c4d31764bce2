"""FIX's platform as a whole in virtual time: host, link and accelerator, in a short training."""

import pytest

from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.fix import platform_run
from placerl.harness.papers.fix.figure_10_array import BACKENDS, act_cycles, step_cycles
from placerl.primitives.learner.fpga import fpga_backend
from tests.harness.papers.rows import frame_of


@pytest.mark.skipif(bool(fpga_backend.unavailable_reason()), reason=fpga_backend.unavailable_reason())
def test_a_step_takes_the_accelerators_cycles_and_the_hosts_time(tmp_path) -> None:
    rows = platform_run.measure(0.0, silent, (64,), 5)
    assert {row.provenance for row in rows} == {Provenance.MODELLED}
    frame = frame_of(tmp_path, *rows)
    for bits, name in BACKENDS.items():
        own = {row.quantity: row for row in rows if row.backend == name}
        accelerator_s = step_cycles(64, bits) / 164e6
        assert own["inferences_per_s"].parameters["accelerator_s"] == pytest.approx(accelerator_s)
        host = platform_run.host_s(frame, bits)[64]
        assert host.value == pytest.approx(64 / own["inferences_per_s"].value - accelerator_s)
        parts = [own[f"{part}_time"] for part in ("environment", "inference", "transfer")]
        assert all(row.value > 0 for row in parts)
        # A lower bound: of each round the least, without what is no part, as the insertion.
        assert sum(min(row.samples) for row in parts) < max(
            64 / rate - accelerator_s for rate in own["inferences_per_s"].samples
        )
        assert parts[1].value > act_cycles() / 164e6
        assert parts[2].value > 64 * 4 * (17 + 6 + 1 + 17) / 15.75e9  # a batch over the link
        assert host.value < 10 * sum(row.value for row in parts)


def test_without_the_hardware_s_description_a_row_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fpga_backend, "unavailable_reason", lambda: "not installed: amaranth")
    (row,) = platform_run.measure(0.0, silent)
    assert (row.status, row.reason) == ("not_run", "needs not installed: amaranth")
