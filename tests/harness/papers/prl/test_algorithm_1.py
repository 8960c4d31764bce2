"""What re-allocation brings next to an accelerator: verdicts from made-up rows, and rows from a real measurement."""

from pathlib import Path

import pytest

from placerl.harness import workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping
from placerl.harness.papers import Outcome
from placerl.harness.papers.prl import algorithm_1
from placerl.harness.papers.prl.algorithm_1 import ALL_ACT, FIXED, HALF_TRAINS
from placerl.harness.papers.slow_links import NOT_COUNTED
from placerl.harness.plan.tiers import TIERS
from placerl.primitives import learner
from tests.harness.old_form import details_of, replace, row_of
from tests.harness.papers.rows import frame_of

FPGA, OPENCL = "fpga-native-cpu", "opencl-native-cpu"


def gain(
    verdict: str, fixed: str = ALL_ACT, mapping: str = FPGA, cores: int = 2, accelerator: str = "opencl"
) -> Row:
    return row_of(
        suite=Suite.CLAIM,
        workload="hopper-ddpg",
        primitive="training",
        backend="placerl",
        device=mapping,
        batch_size=1024,
        quantity="throughput_ratio",
        provenance=Provenance.MODELLED if mapping == FPGA else Provenance.MEASURED,
        value=1.15,
        low=1.1,
        high=1.2,
        details={
            "experiment": algorithm_1.EXPERIMENT,
            "fixed": fixed,
            "accelerator": "fpga" if mapping == FPGA else accelerator,
            "verdict": verdict,
            "reached": [1, 1, 384],
            "conditions": {"cores": list(range(cores))},
        },
    )


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([gain("faster")], Outcome.CONSISTENT),
        ([gain("no verdict")], Outcome.NO_VERDICT),
        ([gain("slower")], Outcome.NO_VERDICT),  # a simulation refutes nothing
        ([gain("faster"), gain("slower", HALF_TRAINS)], Outcome.CONSISTENT),
        ([gain("faster", mapping=OPENCL, cores=4)], Outcome.IN_KIND),
        ([gain("no verdict", mapping=OPENCL, cores=4), gain("faster")], Outcome.NO_VERDICT),
        ([gain("slower", mapping=OPENCL, cores=4)], Outcome.NOT_REPRODUCED),
        ([gain("slower", mapping=OPENCL, cores=3), gain("faster")], Outcome.CONSISTENT),
        ([gain("faster", mapping=OPENCL, cores=3)], Outcome.NOT_RUN),
        ([gain("faster", mapping=OPENCL, cores=4, accelerator="cpu")], Outcome.NOT_RUN),
        ([gain("slower", mapping=OPENCL, cores=4, accelerator="cpu"), gain("faster")], Outcome.CONSISTENT),
        ([gain("faster", HALF_TRAINS)], Outcome.NOT_RUN),
        ([], Outcome.NOT_RUN),
    ],
)
def test_re_allocation_must_bring_throughput_over_threads_that_all_act(
    tmp_path: Path, rows: list[Row], outcome: Outcome
) -> None:
    found = algorithm_1.MovingActorsGains().judge(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    assert len(found.ours) == len(rows)
    if outcome is not Outcome.NOT_RUN:
        assert "1 thread acted and 1 trained on 384 samples" in found.explanation


def test_verdicts_on_virtual_time_say_that_no_transfer_has_a_latency(tmp_path: Path) -> None:
    one = gain("faster")
    two = replace(one, details=details_of(one) | {"reached": [2, 0, 0]})
    found = algorithm_1.MovingActorsGains().judge(frame_of(tmp_path, two))
    assert found.explanation.startswith(
        "Trainings in virtual time: 1; faster with re-allocation: 1; slower: 0."
    )
    assert "2 threads acted and 0 trained" in found.explanation
    assert NOT_COUNTED in found.explanation


def test_only_the_full_tier_measures_it() -> None:
    keys = {
        name: [cell.key for cell in algorithm_1.MovingActorsGains().cells(tier)]
        for name, tier in TIERS.items()
    }
    assert keys["quick"] == keys["standard"] == []
    assert keys["full"] == [f"claim/PRL-3.3.1/hopper-ddpg/{mapping}" for mapping in (FPGA, OPENCL)]


@pytest.mark.slow
def test_fixed_allocations_and_re_allocation_are_timed_in_the_same_rounds() -> None:
    if "fpga" not in {status.name for status in learner.backends() if status.available}:
        pytest.skip("needs the learner backend fpga")
    item = workloads.load("cartpole-dqn")
    rows = algorithm_1.measure(item, Mapping.parse(FPGA), 16, 0.0, lambda *_: None, rounds=15, settling=1)
    assert [details_of(row)["fixed"] for row in rows] == [*FIXED]
    for row in rows:
        assert row.provenance is Provenance.MODELLED
        assert details_of(row)["accelerator"] == "fpga"
        assert details_of(row)["rounds"] >= 15
        assert row.low <= row.value <= row.high
        actors, trainers, _ = details_of(row)["reached"]
        assert actors + trainers == 2


def test_a_mapping_that_does_not_run_here_says_why() -> None:
    mapping = Mapping.parse("native-native-cpu")
    (row,) = algorithm_1.measure(workloads.load("cartpole-dqn"), mapping, 16, 0.0, lambda *_: None)
    assert row.status == "not_run"
    assert "learner: found native; allowed: torch, opencl, fpga" in row.reason
