"""Table VII's rates next to modelled ones: power times efficiency, and what the model says."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.provenance import Provenance
from harness.core.row import Measurement
from harness.papers import Outcome
from harness.papers.map import table_7_rates
from tests.harness.papers.rows import measurement, verdict

PRINTED = {"pong-dqn": (256, 139.06), "hopper-ddpg": (16384, 379.05), "cartpole-ddpg": (16384, 1525.11)}


def cells(factor: float = 1.0, slower: str = "learner_s") -> Iterator[Measurement]:
    """Cells of Table V whose slower primitive allows the printed rates, times a factor."""
    for workload, (size, gps) in PRINTED.items():
        times = {"learner_s": 0.1 / gps, "rmm_s": 0.1 / gps} | {slower: 1 / (factor * gps)}
        yield measurement(
            1.0,
            suite="claim",
            workload=workload,
            primitive="mapping",
            backend="map-tpds23",
            device="map-tpds23",
            batch_size=size,
            quantity="as_printed",
            unit="1",
            provenance=Provenance.MODELLED,
            details={"experiment": "optimal mappings", "ours": "G-C-G"} | times,
        )


def test_the_printed_rates_are_power_times_efficiency() -> None:
    rates = {number.quantity: number.value for number in table_7_rates.printed_rates()}
    assert rates == {
        "Pong, DQN: throughput": pytest.approx(565.3 * 0.246),
        "Hopper, DDPG: throughput": pytest.approx(237.2 * 1.598),
        "CartPole, DDPG: throughput": pytest.approx(217.5 * 7.012),
    }


@pytest.mark.parametrize("slower", ["learner_s", "rmm_s"])
def test_equal_rates_are_consistent(tmp_path: Path, slower: str) -> None:
    found = verdict("MAP-T7-rates", tmp_path, *cells(1.05, slower)).finding
    assert found.outcome is Outcome.CONSISTENT
    assert [number.value for number in found.ours[3:]] == pytest.approx([1 / 1.05] * 3, rel=1e-3)


def test_a_model_of_peaks_refutes_nothing(tmp_path: Path) -> None:
    found = verdict("MAP-T7-rates", tmp_path, *cells(3.0)).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert "0 of 3" in found.explanation
    assert "Above the model" not in found.explanation
    assert "Above the model" in verdict("MAP-T7-rates", tmp_path / "b", *cells(0.5)).finding.explanation


def test_without_table_v_it_is_not_run(tmp_path: Path) -> None:
    found = verdict("MAP-T7-rates", tmp_path, *list(cells())[1:]).finding
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, table_7_rates.NEEDS)
