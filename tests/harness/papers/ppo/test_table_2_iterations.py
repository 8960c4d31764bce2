"""PPO's iterations: what its Table 2 is about, and rows of them."""

from functools import partial
from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness import workloads
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.ppo import table_2_iterations
from placerl.harness.papers.ppo.table_2_iterations import (
    BENCHMARKS,
    counted,
    iterations,
    sized,
    table_columns,
    timed,
)
from placerl.primitives.fpga.cycles import gemm, gemm_float32, networks, ppo
from placerl.primitives.fpga.cycles.ppo import PpoIteration
from placerl.primitives.fpga.gemm.plan import DATAFLOWS
from tests.harness.old_form import details_of
from tests.harness.papers.closed_forms import closed_forms  # noqa: F401
from tests.harness.papers.ppo.test_table_2 import LARGE, SMALL

SHORT = PpoIteration(agents=2, steps=8, minibatch=8, epochs=2)


def test_every_column_of_table_2_names_its_iteration() -> None:
    columns = table_columns("Hopper", "Spinning Up")
    assert len(columns) == 10
    assert (columns["M=64"], columns["N=4"]) == (SMALL, PpoIteration(4, 512, 512, 10))
    assert table_columns("Hopper", "Baselines")["T=1024"] == PpoIteration(32, 1024, 128, 10)
    assert table_columns("Pong", "Baselines")["N=16"] == PpoIteration(16, 128, 128, 3)
    varied = {letters: len(iterations("Hopper", letters)) for letters in ("M", "MN", "MNT")}
    assert varied == {"M": 4, "MN": 8, "MNT": 14}, "N=16 is a column of M again"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_workload_takes_the_iteration_s_sizes_and_never_stops_early(name: str) -> None:
    for iteration in iterations(name, "MNT"):
        item = sized(workloads.load(BENCHMARKS[name]), iteration)
        assert item.training.actors == iteration.agents
        assert item.training.batch_size == iteration.minibatch
        assert item.algorithm.hyperparameters["trajectory_length"] == iteration.steps
        assert item.algorithm.hyperparameters["epochs"] == iteration.epochs
        assert item.algorithm.hyperparameters["target_kl"] is None


@pytest.mark.parametrize(("cores", "processes"), [(1, 0), (2, 2), (64, 16)])
def test_iterations_take_every_core(cores: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert table_2_iterations.cores_used(SMALL) == {"threads": cores, "processes": processes}


@pytest.mark.slow
def test_iterations_are_timed_with_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_2_iterations, "cores_used", lambda _: {"threads": 2, "processes": 2})
    (row,) = timed("Hopper", "cpu", [SHORT], 0.0, silent)
    assert (details_of(row)["threads"], details_of(row)["processes"], len(row.samples)) == (2, 2, 5)
    assert min(map(min, details_of(row)["terms_s"].values())) > 0


def test_iterations_are_timed_with_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_2_iterations, "cores_used", lambda _: {"threads": 1, "processes": 0})
    rows = timed("Hopper", "cpu", [SHORT, PpoIteration(2, 8, 16, 2)], 0.0, silent)
    assert [row.batch_size for row in rows] == [8, 16]
    for row in rows:
        parts = details_of(row)["terms_s"]
        assert set(parts) == {"environment", "infer", "prepare", "learner"}
        assert (details_of(row)["threads"], details_of(row)["processes"]) == (1, 0)
        assert all(len(samples) == len(row.samples) == 5 for samples in parts.values())
        assert all(sum(each) <= wall for *each, wall in zip(*parts.values(), row.samples, strict=True))


@pytest.mark.usefixtures("closed_forms")
def test_the_accelerator_s_cycles_stand_beside_equation_5() -> None:
    few, many = counted("Hopper", [SMALL, LARGE], silent)
    for row in (few, many):
        assert (row.provenance, row.unit) == (Provenance.SIMULATED, "cycles")
        cycles, stated = details_of(row)["cycles"], details_of(row)["equation_5_cycles"]
        assert row.value == sum(cycles.values())
        assert details_of(row)["core"] == "float32"
        assert stated["inference"] < cycles["inference"]
        assert stated["training"] < cycles["training"] < 1.15 * stated["training"], (
            "fill and drain of the float32 array take longer than by Equation 5"
        )
    assert details_of(few)["cycles"]["inference"] == details_of(many)["cycles"]["inference"]


@pytest.mark.usefixtures("closed_forms")
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_cycles_are_those_of_equations_7_and_8_on_a_float32_array(benchmark: str) -> None:
    """T inferences of N samples; K epochs of N T / M updates of M samples, each process in its best dataflow."""
    iteration = iterations(benchmark, "M")[0]
    (row,) = counted(benchmark, [iteration], silent)
    layers, side = networks.PPO_NETWORKS[benchmark], table_2_iterations.SIDES[benchmark]

    def fewest(process: str, batch: int, cycles: Any) -> int:
        shapes = ppo.shapes(layers, process, batch)
        return min(sum(cycles(shape, side=side, dataflow=name) for shape in shapes) for name in DATAFLOWS)

    integers = partial(gemm.core_cycles, block_load=True)
    of_float32, of_integers = (
        (
            iteration.steps * fewest("FW", iteration.agents, cycles),
            iteration.epochs
            * -(-iteration.samples // iteration.minibatch)
            * sum(fewest(process, iteration.minibatch, cycles) for process in ("FW", "BW", "WU")),
        )
        for cycles in (gemm_float32.core_cycles, integers)
    )
    assert details_of(row)["cycles"] == dict(zip(("inference", "training"), of_float32, strict=True))
    assert all(one >= other for one, other in zip(of_float32, of_integers, strict=True))


def test_without_the_tools_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_2_iterations.timed_block, "unavailable_reason", lambda: "no compiler")
    (row,) = counted("Pong", [SHORT], silent)
    assert (row.status, row.reason, row.value) == ("not_run", "no compiler", None)
