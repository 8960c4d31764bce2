"""Design space exploration: the papers' own choices, limits that hold, and formulas by hand."""

import pytest

from placerl.harness.papers import published
from placerl.primitives.fpga.cycles import networks, ppo
from placerl.primitives.fpga.cycles.communication import Channel, Communication
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore import ppo_array

U200 = catalogue.device("u200")
MUJOCO = ppo.PpoIteration(agents=16, steps=512, minibatch=512, epochs=10)


@pytest.mark.parametrize("name", ["Hopper", "Humanoid"])
def test_mujoco_takes_the_array_that_ppo_took(name: str) -> None:
    designs = ppo_array.ppo_designs(networks.PPO_NETWORKS[name], MUJOCO, U200, units=2)
    assert designs[0].fits
    assert designs[0].side == 16  # PPO 5.2


def test_pong_takes_the_array_that_ppo_took() -> None:
    iteration = ppo.PpoIteration(agents=8, steps=128, minibatch=128, epochs=3)
    layers = networks.PPO_NETWORKS["Pong"]
    external = Communication(memory=Channel())
    designs = ppo_array.ppo_designs(layers, iteration, U200, units=1, communication=external)
    assert designs[0].fits
    assert designs[0].side == 32  # PPO 5.2


def test_slow_memory_makes_larger_arrays_no_faster() -> None:
    """At a tenth of a byte per cycle the products of every side of at least 16 wait for memory."""
    iteration = ppo.PpoIteration(agents=8, steps=128, minibatch=128, epochs=3)
    layers, external = networks.PPO_NETWORKS["Pong"], Communication(memory=Channel(0.1))
    designs = ppo_array.ppo_designs(layers, iteration, U200, sides=(16, 32), communication=external)
    assert len({design.cycles for design in designs}) == 1


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
    assert ppo_array.blocked_block_rams(256 * 512, 16, 32, U200) == 128
    assert ppo_array.blocked_block_rams(256 * 512 + 1, 16, 32, U200) == 256
    assert ppo_array.blocked_block_rams(256 * 1024, 16, 16, U200) == 128


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
