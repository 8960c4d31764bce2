"""Numbers of a platform are changed by name."""

import pytest

from placerl.harness import platforms
from placerl.harness.core.errors import UserError
from placerl.harness.platforms import what_if

MAP = platforms.load("map-tpds23")


def test_numbers_are_replaced_by_name() -> None:
    changed = what_if.changed(
        MAP, ["link.cpu-gpu.gb_s=32", "link.cpu-gpu.latency_us=5", "device.gpu.launch_us=4"]
    )
    assert changed.bytes_per_s("cpu", "cuda:0") == 32e9
    assert changed.latency_s("cpu", "cuda:0") == pytest.approx(5e-6)
    assert changed.find("gpu").launch_us.value == 4
    same = {
        name: number
        for name, number in what_if.numbers(changed).items()
        if number == what_if.numbers(MAP)[name]
    }
    assert what_if.numbers(changed).keys() - same.keys() == {
        "link.cpu-gpu.gb_s",
        "link.cpu-gpu.latency_us",
        "device.gpu.launch_us",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "link.cpu-gpu.gbs=3",
            r"--set: found link\.cpu-gpu\.gbs; allowed: .*did you mean link\.cpu-gpu\.gb_s",
        ),
        ("device.gpu.name=3", r"--set: found device\.gpu\.name; allowed: device\.cpu\.cores, "),
        ("link.cpu-gpu.gb_s", r"--set: found link\.cpu-gpu\.gb_s; allowed: NAME=NUMBER"),
        (
            "link.cpu-gpu.gb_s=-1",
            r"^link\.cpu-gpu\.gb_s: value: found -1\.0; allowed: greater than or equal to",
        ),
        ("device.cpu.cores=1.5", r"^device\.cpu\.cores: value: found 1\.5; allowed: "),
        ("link.cpu-gpu.gb_s=nan", r"^link\.cpu-gpu\.gb_s: value: found nan; allowed: "),
    ],
)
def test_a_change_that_is_none_is_refused(change: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        what_if.changed(MAP, [change])


def test_a_number_is_changed_once() -> None:
    with pytest.raises(
        UserError, match=r"--set: found device\.cpu\.cores more than once; allowed: each number once"
    ):
        what_if.changed(MAP, ["device.cpu.cores=2", "link.cpu-gpu.gb_s=8", "device.cpu.cores=4"])


def test_within_a_memory_the_latency_of_a_link_can_be_changed_and_its_bandwidth_is_the_memory_s() -> None:
    names = what_if.numbers(platforms.load("pearl24-authors"))
    assert "link.cpu-cpu.latency_us" in names
    assert "link.cpu-cpu.gb_s" not in names
    assert "device.cpu.memory_gb_s" in names
