"""How much a number of a platform has to change before another mapping is chosen."""

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import UserError
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
    points, _ = turning_points(HOPPER, 256, MAP)
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
    (point,), _ = turning_points(HOPPER, 256, platforms.load("zcu102"))
    assert (point.name, point.stated, point.mapping) == ("device.cpu.cores", 4, "few")
    assert "device.cpu.cores=2, 0.5 times as large" in str(point)


def test_a_number_is_tried_as_far_as_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen times as many cores are refused, four times as many are not."""

    def chosen(workload: Workload, batch_size: int, platform: PlatformFile) -> str:
        cores = what_if.numbers(platform)["device.cpu.cores"]
        assert cores is not None
        if cores.value > 16:
            raise UserError(platform.name, "device.cpu.cores", cores.value, "at most 16")
        return "many" if cores.value >= 12 else "few"

    monkeypatch.setattr(absent_platforms, "choice", chosen)
    (point,), limits = turning_points(HOPPER, 256, platforms.load("zcu102"))
    assert (point.name, point.factor, point.mapping) == ("device.cpu.cores", 3, "many")
    (limit,) = [one for one in limits if one.name == "device.cpu.cores"]
    assert "device.cpu.cores was tried up to 4 times, as a larger change is refused" in str(limit)
    assert "allowed: at most 16" in str(limit)
