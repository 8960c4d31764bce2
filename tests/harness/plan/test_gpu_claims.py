"""The plan for a GPU that is at hand for minutes: its cells, their order, and a rehearsal with a device that sleeps."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from placerl.harness.core.progress import Report, silent
from placerl.harness.core.row import Row
from placerl.harness.plan import gpu_claims, within
from placerl.harness.profile import measured
from placerl.harness.store.store import Run
from tests.harness.store.rows import row


@pytest.fixture(autouse=True)
def libraries_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_claims, "is_built", lambda name: True)


def first(keys: Sequence[str], beginning: str) -> int:
    return next(place for place, key in enumerate(keys) if key.startswith(beginning))


def test_every_cell_is_small_and_what_is_worth_most_comes_first() -> None:
    cells = gpu_claims.cells()
    keys = [cell.key for cell in cells]
    assert len(set(keys)) == len(keys)
    assert all(cell.estimate_s <= 24 for cell in cells)
    assert all("cuda" in cell.key or cell.estimate_s <= 15 for cell in cells)
    order = [
        "profile/hopper-ddpg/32/",
        "profile/cartpole-ddpg/2048/",
        "bench-gpu/cartpole-dqn/32/cuda",
        "bench-gpu/hopper-ddpg/256/cuda",
        "claim/MAP-A2",
        "claim/MAP-F12-trees",
        "validation/hopper-ddpg/32/on-cuda",
        "claim/PPO-T2/hopper/cuda",
        "claim/PPO-T2/hopper/cpu",
        "claim/FIX-F8/cuda/64",
        "compare/cartpole-dqn/sb3, this project with torch:cuda-native-cpu",
        "compare/cartpole-dqn/rllib, this project with torch:cuda-native-cpu",
        "compare/mountaincar-ddpg/rllib_2_6_3, this project with torch:cuda-native-cpu",
    ]
    places = [first(keys, beginning) for beginning in order]
    assert places == sorted(places)


def test_the_sizes_that_are_asked_for_are_all_timed() -> None:
    for name in ("cartpole-ddpg", "cartpole-dqn", "hopper-ddpg", "mountaincar-ddpg"):
        assert {size for item, size in gpu_claims.PRIMITIVES if item == name} >= {32, 512, 2048, 16384}
    assert {size for item, size in gpu_claims.PRIMITIVES if item == "pong-dqn"} >= {32, 64}


def test_what_needs_no_device_and_libraries_that_are_not_built_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not any(
        cell.key.startswith(("claim/PAL", "claim/MAP-T5", "claim/FIX-F10")) for cell in gpu_claims.cells()
    )
    monkeypatch.setattr(gpu_claims, "is_built", lambda name: False)
    assert not any(cell.key.startswith("compare/") for cell in gpu_claims.cells())
    assert gpu_claims.libraries_left_out() == ["sb3", "rllib", "rllib_2_6_3"]


def test_a_cell_of_primitives_times_no_pieces_of_the_loop(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    asked = []

    def profile(*arguments: object, **options: object) -> list[Row]:
        asked.append((arguments[1], options))
        return [row(1.0)]

    monkeypatch.setattr(measured, "profile", profile)
    gpu_claims.cells()[0].measured(run, silent)
    assert asked == [(32, {"pieces": False})]


def test_the_libraries_returns_are_compared_because_a_gain_counts_only_then() -> None:
    assert gpu_claims.GPU.returns


def test_a_rehearsal_of_twelve_minutes_measures_the_plan_in_order_and_goes_on(run: Run) -> None:
    """Every cell sleeps for a quarter longer than its estimate, by a clock of the test."""
    now_s = 0.0

    def sleeping(takes_s: float) -> object:
        def measure(run: Run, report: Report) -> Sequence[Row]:
            nonlocal now_s
            now_s += takes_s
            return [row(takes_s)]

        return measure

    cells = [replace(cell, measure=sleeping(1.25 * cell.estimate_s)) for cell in gpu_claims.cells()]
    keys = [cell.key for cell in cells]
    seen: list[str] = []
    for _ in range(3):
        begin_s = now_s
        outcome = within.measure(run, cells, 240, silent, clock=lambda: now_s)
        assert now_s - begin_s <= 240
        assert outcome.cells == sorted(outcome.cells, key=keys.index)
        assert not set(outcome.cells) & set(seen)
        seen += outcome.cells
    assert seen[: len(gpu_claims.PRIMITIVES)] == keys[: len(gpu_claims.PRIMITIVES)]
