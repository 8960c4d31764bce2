"""How much a number of a platform has to change before another mapping is chosen."""

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.mapping import absent_platforms
from placerl.harness.mapping.answer import chosen_of
from placerl.harness.plan.sensitivity import LARGEST, turning_points
from placerl.harness.platforms import PlatformFile, what_if
from placerl.harness.workloads import Workload

HOPPER, MAP = workloads.load("hopper-ddpg"), platforms.load("map-tpds23")


def choice(platform: PlatformFile) -> str:
    chosen = chosen_of(absent_platforms.predictions(HOPPER, 256, platform)[1])
    assert chosen
    return chosen.mapping


def test_the_choice_turns_where_it_is_said_to() -> None:
    points = turning_points(HOPPER, 256, MAP)
    launch = next(point for point in points if point.name == "device.gpu.launch_us")
    assert 1 < launch.factor < LARGEST
    for share, expected in ((0.95, choice(MAP)), (1.0, launch.mapping)):
        changed = what_if.with_number(MAP, launch.name, launch.stated * launch.factor * share)
        assert choice(changed) == expected
    assert launch.mapping != choice(MAP)
    assert "With device.gpu.launch_us=" in str(launch)
    away = [max(point.factor, 1 / point.factor) for point in points]
    assert away == sorted(away)


def test_a_count_stays_whole_and_at_least_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores are tried down to one: a sixteenth of them is a number that no platform can state."""

    def chosen(workload: Workload, batch_size: int, platform: PlatformFile) -> str:
        cores = what_if.numbers(platform)["device.cpu.cores"]
        assert cores is not None
        return "few" if cores.value < 3 else "many"

    monkeypatch.setattr(absent_platforms, "choice", chosen)
    (point,) = turning_points(HOPPER, 256, platforms.load("zcu102"))
    assert (point.name, point.stated, point.mapping) == ("device.cpu.cores", 4, "few")
    assert "device.cpu.cores=2, 0.5 times as large" in str(point)
