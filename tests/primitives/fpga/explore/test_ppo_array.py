"""Design space exploration: the papers' own choices, limits that hold, and formulas by hand."""

import pytest

from harness.papers import published
from primitives.fpga.cycles import networks, ppo
from primitives.fpga.devices import catalogue
from primitives.fpga.explore import map_pipelines, ppo_array

U200 = catalogue.device("u200")
MUJOCO = ppo.Iteration(agents=16, steps=512, minibatch=512, epochs=10)


@pytest.mark.parametrize("name", ["Hopper", "Humanoid"])
def test_mujoco_takes_the_array_that_ppo_took(name: str) -> None:
    designs = ppo_array.ppo_designs(networks.PPO_NETWORKS[name], MUJOCO, U200, units=2)
    assert designs[0].fits
    assert designs[0].side == 16  # PPO 5.2


def test_pong_takes_the_array_that_ppo_took() -> None:
    iteration = ppo.Iteration(agents=8, steps=128, minibatch=128, epochs=3)
    layers = networks.PPO_NETWORKS["Pong"]
    designs = ppo_array.ppo_designs(layers, iteration, U200, units=1, external_activations=True)
    assert designs[0].fits
    assert designs[0].side == 32  # PPO 5.2


def test_designs_that_fit_come_first_and_the_fastest_of_them() -> None:
    layers = networks.PPO_NETWORKS["Humanoid"]
    designs = ppo_array.ppo_designs(layers, MUJOCO, catalogue.device("u50"), sides=range(2, 40))
    fitting = [design for design in designs if design.fits]
    assert fitting == designs[: len(fitting)]
    assert [d.cycles for d in fitting] == sorted(d.cycles for d in fitting)
    for design in designs:
        within = design.dsps < 5952 and design.block_rams <= 1344
        assert design.fits == within


def test_narrow_words_make_room_for_a_larger_array() -> None:
    layers = networks.PPO_NETWORKS["Humanoid"]
    for datapath, side in ((ppo_array.FIXED_32, 16), (ppo_array.FIXED_16, 16)):
        assert ppo_array.ppo_designs(layers, MUJOCO, U200, datapath=datapath)[0].side >= side
    assert ppo_array.array_dsps(16, 2, ppo_array.FIXED_32) == 2 * (256 * 4 + 32 * 4)


def test_banks_take_at_least_half_a_block_each() -> None:
    assert ppo_array.blocked_block_rams(1, 16, 32, U200) == 128
    assert ppo_array.blocked_block_rams(256 * 576, 16, 32, U200) == 128
    assert ppo_array.blocked_block_rams(256 * 576 + 1, 16, 32, U200) == 256


def test_a_learner_by_hand() -> None:
    layers = networks.mlp(4, 8, 2)
    # FW 32 and 16 operations, BW 16, WA 32 and 16; the smallest has one multiplier for each unit of f.
    assert map_pipelines.stage_operations(layers) == [32, 16, 16, 32, 16]
    design = map_pipelines.learner_design(layers, batch=12, pipelines=3, factor=2, banks=4)
    assert design.multipliers == 3 * 2 * (2 + 1 + 1 + 2 + 1) + 4 * 2
    assert design.pipeline_cycles == (4 + 6 - 1) * 8
    assert design.update_cycles == 3 * 32 // 8 + 3 * 16 // 8


def test_the_learner_stays_within_the_dies_that_the_replay_leaves() -> None:
    layers = networks.mlp(11, 256, 256, 3)
    designs = map_pipelines.learner_designs(layers, 256, U200)
    assert designs
    assert all(design.multipliers * 4 <= U200.dsps * 2 / 3 for design in designs)
    assert designs[0].cycles == min(design.cycles for design in designs)
    assert map_pipelines.learner_designs(layers, 256, U200, dsps_per_multiplier=100) == []


def test_replay_pipelines_grow_with_the_batch_up_to_the_memory() -> None:
    banks = [map_pipelines.replay_design(b, 2**20, 16, U200).banks for b in (4, 64, 256, 4096)]
    assert banks[0] == 1  # as many samples as levels keep one pipeline busy
    assert banks == sorted(banks)
    design = map_pipelines.replay_design(4096, 2**20, 16, U200)
    assert design.banks < 4096
    assert design.sample_cycles == 4096 / design.banks * 16
    assert design.update_cycles == 4096 / design.banks


def test_the_catalogue_agrees_with_the_shares_that_the_papers_print() -> None:
    u50 = catalogue.device("u50")
    for column, total in (
        ("LUT", u50.luts),
        ("BRAM", u50.block_rams),
        ("URAM", u50.ultra_rams),
        ("DSP", u50.dsps),
    ):
        table = published.table("fix_table_1")
        used, share = table.value("Total", column), table.value("Total share", column)
        assert 100 * used / total == pytest.approx(share, abs=0.2)
    with pytest.raises(ValueError, match="device: found 'u280'; allowed: u200, u50, agf014"):
        catalogue.device("u280")
