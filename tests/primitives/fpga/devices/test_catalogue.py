"""The catalogue of devices: its clocks are those that the papers give."""

from placerl.harness.papers import published
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.learner.fpga import fpga_backend


def test_the_clocks_are_the_papers() -> None:
    assert catalogue.clocks_hz() == {
        "u200": 1e6 * published.quantity("PPO.clock_mujoco").value,
        "u50": 1e6 * published.quantity("FIX.clock").value,
    }
    assert catalogue.device("agf014").clock_hz == 0


def test_every_clock_names_its_paper() -> None:
    for device in catalogue.catalogue().values():
        assert bool(device.clock_source) == bool(device.clock_hz)


def test_the_learner_takes_the_catalogues_clocks() -> None:
    assert catalogue.clocks_hz() == fpga_backend.DEVICES
    assert next(iter(fpga_backend.DEVICES)) == "u200"  # the board where none is named
