"""MAP Table V with times of the devices here: what Algorithm 3 chooses, and what mappings gain in trainings."""

from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.map import table_5_here
from tests.harness.old_form import details_of, replace
from tests.harness.papers.device_rows import on
from tests.harness.papers.map.test_table_5 import PRINTED, gain, ran
from tests.harness.papers.map.test_table_5 import cell as modelled_cell
from tests.harness.papers.rows import frame_of, verdict

US = 1e-6
SIZES = {"cartpole-ddpg": (32, 256, 2048, 16384), "hopper-ddpg": (32, 256, 2048, 16384)}


MODELLED = [modelled_cell(place, "F-F-F") for place in PRINTED]
"""The model's choices, of which Hopper's at batch size 256 is not as printed."""


def cell(workload: str, size: int, learner: dict[str, float], replay: dict[str, float]) -> list[Row]:
    """Times of a learner's step, and of sampling and updating together, us by kind of device."""
    rows = [on(kind, "learner.step", size, time * US, workload) for kind, time in learner.items()]
    for call in table_5_here.CALLS:
        rows += [on(kind, call, size, time / 2 * US, workload) for kind, time in replay.items()]
    return rows


QUICK = {"cpu": 2.0, "cuda": 200.0, "fpga": 0.5}


def as_printed(workload: str, size: int) -> list[Row]:
    """Times from which Algorithm 3 chooses F-F-F, G-C-G, or G-F-G, as Table V has it at this size."""
    if workload == "cartpole-ddpg" or size == 32:
        return cell(workload, size, {"cpu": 50.0, "cuda": 400.0, "fpga": 5.0}, QUICK)
    busy = {"cpu": 900.0, "cuda": 300.0, "fpga": 1.0}
    return cell(workload, size, {"cpu": 9e4, "cuda": 500.0, "fpga": 9e4}, busy if size == 16384 else QUICK)


def everywhere() -> list[Row]:
    return [row for workload, sizes in SIZES.items() for size in sizes for row in as_printed(workload, size)]


def test_every_cell_with_three_devices_is_chosen_for(tmp_path: Path) -> None:
    found = table_5_here.choices(frame_of(tmp_path, *everywhere()))
    assert [one.ours for one in found] == ["F-F-F"] * 5 + ["G-C-G"] * 2 + ["G-F-G"]
    assert all(one.as_printed and one.learner_as_printed for one in found)
    assert all(len(one.times) == 3 and len(one.rows) == 9 for one in found)


def test_a_cell_without_one_of_the_devices_is_left_out(tmp_path: Path) -> None:
    rows = [
        row
        for row in as_printed("hopper-ddpg", 256)
        if (row.device, row.primitive) != ("cuda", table_5_here.CALLS[0])
    ]
    assert table_5_here.choices(frame_of(tmp_path, *rows)) == []


def test_noise_leaves_the_choice_open(tmp_path: Path) -> None:
    rows = cell("hopper-ddpg", 256, {"cpu": 9e4, "cuda": 500.0, "fpga": 510.0}, QUICK)
    wide = [replace(row, low=400 * US, high=600 * US) if row.value == 500 * US else row for row in rows]
    (found,) = table_5_here.choices(frame_of(tmp_path, *wide))
    assert (found.ours, found.as_printed, found.learner_as_printed) == ("F-F-F or G-C-G", False, None)


SLOW_GPU = cell("hopper-ddpg", 256, {"cpu": 400.0, "cuda": 500.0, "fpga": 9e4}, QUICK)
REPLAY_ON_FPGA = cell("hopper-ddpg", 256, {"cpu": 9e4, "cuda": 500.0, "fpga": 9e4}, QUICK | {"cpu": 600.0})
CARTPOLE, HOPPER = as_printed("cartpole-ddpg", 32), as_printed("hopper-ddpg", 256)


@pytest.mark.parametrize(
    ("rows", "outcome", "said"),
    [
        ([], Outcome.NO_VERDICT, "nothing"),
        (CARTPOLE, Outcome.NO_VERDICT, "1 of 1 mappings as printed (cartpole-ddpg at 32)."),
        ([*CARTPOLE, *HOPPER], Outcome.CONSISTENT, "2 of 2 mappings as printed"),
        ([*CARTPOLE, *REPLAY_ON_FPGA], Outcome.NO_VERDICT, "hopper-ddpg, batch size 256: G-F-G for G-C-G."),
        ([*CARTPOLE, *SLOW_GPU], Outcome.NOT_REPRODUCED, "hopper-ddpg, batch size 256: C-C-C for G-C-G."),
        (everywhere(), Outcome.IN_KIND, "8 of 8 mappings as printed"),
    ],
)
def test_the_choices_here_decide_what_the_model_leaves_open(
    rows: list[Row], outcome: Outcome, said: str, tmp_path: Path
) -> None:
    found = verdict("MAP-T5", tmp_path, *MODELLED, *rows).finding
    assert found.outcome is outcome
    assert (said in found.explanation) == bool(rows)
    assert bool(found.decides) == (outcome is Outcome.NO_VERDICT)


SECOND_BEST = {"place": "second best", "column": "Pong, batch size 32", "optimal": "G-C-G", "other": "G-G-G"}
FROM_MODEL = gain("second best", 1.02)
PAIR = replace(FROM_MODEL, workload="pong-dqn", details=details_of(FROM_MODEL) | SECOND_BEST)


def pair(optimal: float, other: float, provenance: Provenance = Provenance.MEASURED) -> list[Row]:
    """Trainings of Pong at batch size 32 under G-C-G and under G-G-G, the second best."""
    at = {"workload": "pong-dqn", "batch_size": 32, "provenance": provenance}
    rates = {"torch:cuda-native-cpu": optimal, "torch:cuda-cuda-cuda": other}
    return [ran(name, gps, low=0.98 * gps, high=1.02 * gps, **at) for name, gps in rates.items()]


@pytest.mark.parametrize(
    ("rows", "outcome", "faster"),
    [
        (pair(200, 100), Outcome.IN_KIND, 1),
        (pair(101, 100), Outcome.NO_VERDICT, 0),
        (pair(50, 100), Outcome.NO_VERDICT, 0),  # in turns, where MAP overlaps the two
        (pair(50, 100, Provenance.MODELLED), Outcome.NO_VERDICT, 0),
    ],
)
def test_a_printed_pair_is_compared_where_both_were_trained(
    rows: list[Row], outcome: Outcome, faster: int, tmp_path: Path
) -> None:
    found = verdict("MAP-T5-gains", tmp_path, PAIR, *rows).finding
    assert found.outcome is outcome
    assert f"in {faster} of 1 pairs" in found.explanation
    assert ("take learner and replay management in turns" in found.explanation) == found.ours[-1].below(1)
    assert found.ours[-1].quantity.startswith("here, Pong, batch size 32: G-C-G over G-G-G")


def test_a_pair_that_was_not_trained_leaves_the_order_open(tmp_path: Path) -> None:
    found = verdict("MAP-T5-gains", tmp_path, PAIR, gain("worst", 900.0), *pair(200, 100)).finding
    assert found.outcome is Outcome.NO_VERDICT
