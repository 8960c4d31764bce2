"""Which cells a plan has, and what each of them measures."""

import pytest

from placerl.harness import papers, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.plan import plan
from placerl.harness.plan.tiers import TIERS, Tier
from tests.harness.old_form import replace
from tests.harness.papers.rows import claim_of

TINY = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=1, experiment_s=1, run_s=1, compare_s=1, seeds=2)
CARTPOLE = workloads.load("cartpole-dqn")


def test_the_plan_profiles_before_it_predicts_and_predicts_before_it_trains() -> None:
    keys = [cell.key for cell in plan.plan(TINY)]
    assert keys == [
        "roofs/machine",
        "profile/cartpole-dqn/32",
        "prediction/cartpole-dqn/32",
        "simulated_profile/cartpole-dqn/32/fpga:u200",
        "run/cartpole-dqn/32/seed0",
        "run/cartpole-dqn/32/seed1",
        "compare/cartpole-dqn/sb3",
        "claim/MAP-F12-threads",
        "claim/MAP-T5",
        "claim/PAL-F9",
        "claim/PAL-F9-locks",
        "claim/PAL-VI-H-layout",
        "claim/FIX-F10",
    ]


def test_one_paper_or_claim_asks_for_the_cells_that_it_reads_alone() -> None:
    cells = plan.plan(TIERS["quick"])

    def keys(only: str) -> list[str]:
        return [cell.key for cell in plan.needed(cells, papers.claims(only), TIERS["quick"])]

    assert all(key.startswith("claim/FIX-") for key in keys("FIX"))
    assert {key.split("/")[1] for key in keys("FIX")} == {"FIX-F8", "FIX-F10"}
    assert set(keys("FIX-F9")) == set(keys("FIX-F8-host"))
    assert keys("FIX-T1") == []
    assert {key.split("/")[1] for key in keys("MAP-F10")} == {"MAP-F10"}
    assert "claim/PAL-F9" in keys("PAL")
    assert {key.split("/")[1] for key in keys("MAP") if key.startswith("claim/")} == {
        "MAP-F10",
        "MAP-F12-threads",
        "MAP-T5",
    }
    assert {key.split("/")[0] for key in keys("MAP-T5")} == {
        "claim",
        "profile",
        "simulated_profile",
        "validation",
    }
    assert set(keys("PAL-F9")) == {"claim/PAL-F9", "claim/PAL-F9-locks"}
    assert keys("PAL-F9-fanout") == ["claim/PAL-F9"]
    assert keys("PAL-F9-locks") == ["claim/PAL-F9-locks"]
    assert keys("PAL-VI-H-layout") == ["claim/PAL-VI-H-layout"]
    assert keys("MAP-F12-threads") == ["claim/MAP-F12-threads"]
    assert keys("MAP-F13-hidden") == ["profile/hopper-ddpg/256"]
    for none in ("FIX-III", "PPO-2.4", "PRL-T4", "PAL-F11", "PRL-T3-reallocation"):
        assert keys(none) == [], none
    with pytest.raises(UserError, match="--only: found 'FOX'; allowed: MAP, PAL"):
        keys("FOX")


def test_a_run_brings_the_prediction_that_names_its_mapping_and_no_other() -> None:
    cells = [cell for cell in plan.plan(TIERS["quick"]) if "hopper" in cell.key]
    (chosen,) = (cell.key for cell in cells if cell.key.startswith("run/"))
    size = chosen.split("/")[2]
    before = [f"profile/hopper-ddpg/{size}", f"prediction/hopper-ddpg/{size}"]

    class AboutRuns(papers.Claim):
        key, place, position, statement, reads = "MAP-X1", "X", 1, "Runs are fast", ("run",)

    assert [cell.key for cell in plan.needed(cells, [AboutRuns()], TIERS["quick"])] == [*before, chosen]
    assert [
        cell.key for cell in plan.needed(cells, papers.claims("PRL-T3-same-hardware"), TIERS["quick"])
    ] == [
        *before,
        "compare/hopper-ddpg/sb3",
    ]


@pytest.mark.parametrize(
    ("key", "at_least", "expected"),
    [
        ("PAL-F9", "quick", "quick"),
        ("PAL-F9", "full", "full"),
        ("PAL-F8", "quick", "full"),
        ("PAL-F10", "quick", "standard"),
        ("MAP-IV-D1", "quick", "standard"),
        ("PPO-F11", "quick", "standard"),
        ("FIX-F7", "quick", "standard"),
        ("FIX-F7-sweep", "quick", "standard"),
        ("PPO-F12", "quick", "standard"),
        ("MAP-F11-Pong", "quick", "full"),
        ("PPO-F12", "full", "full"),
        ("PPO-F12", "one of an earlier revision", "standard"),
        ("FIX-T1", "standard", "standard"),  # nothing to measure in any
    ],
)
def test_a_claim_s_tier_is_the_first_that_measures_anything_for_it(
    key: str, at_least: str, expected: str
) -> None:
    assert plan.tier_for(claim_of(key), at_least) == expected


def test_a_plan_profiles_each_batch_size_that_the_replay_holds_once() -> None:
    capacity = CARTPOLE.replay.capacity
    tier = replace(
        TINY, batch_sizes=(32, capacity, capacity + 1), simulated_replay_sizes=(32, 64, capacity + 1)
    )
    keys = [cell.key for cell in plan.plan(tier)]
    assert [key for key in keys if key.startswith("profile/")] == [
        "profile/cartpole-dqn/32",
        f"profile/cartpole-dqn/{capacity}",
    ]
    assert [key for key in keys if key.endswith("/replay")] == [
        "simulated_profile/cartpole-dqn/64/fpga:u200/replay"
    ]
    own = [cell.key for cell in plan.plan(replace(TINY, own_batch_sizes=True))]
    assert {f"profile/cartpole-dqn/{size}" for size in CARTPOLE.training.batch_sizes} <= set(own)


def test_a_plan_validates_where_its_tier_gives_it_time() -> None:
    assert not [cell for cell in plan.plan(TINY) if cell.key.startswith("validation/")]
    assert [cell for cell in plan.plan(TIERS["standard"]) if cell.key.startswith("validation/")]
