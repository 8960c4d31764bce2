"""The noise score says how much longer work takes than on a quiet machine, from readings that are given here."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness.measure import noise
from placerl.harness.measure.conditions import conditions
from placerl.harness.measure.noise import (
    QUIET,
    BusyTime,
    Noise,
    busy_time,
    loop_times,
    measure_noise,
    noise_of,
    pressure_percent,
)

EVEN = np.full(1000, 5e-6)
TICKS_S = 2 / os.sysconf("SC_CLK_TCK")


def of(*loops: np.ndarray, busy_s: float | None = None, stolen_s: float = 0.0) -> Noise:
    """The noise of readings that took 1 s, in which this process used a core."""
    busy = None if busy_s is None else BusyTime(busy_s, stolen_s)
    return noise_of(loops or (EVEN,), busy, took_s=1.0, own_s=1.0, load_average=0.1, pressure_percent=None)


def test_even_loops_on_idle_cores_are_quiet() -> None:
    found = of(EVEN, EVEN, busy_s=1.0)
    assert (found.score, found.busy_cores) == (1.0, 0.0)
    assert found.is_quiet
    assert found.warning() == ""


def test_a_time_slice_that_another_took_counts_in_full() -> None:
    """It is one run of a thousand, which neither the median nor the 90% quantile shows."""
    times_s = EVEN.copy()
    times_s[900] += 4e-3  # as long as all runs that count
    found = of(EVEN, times_s)
    assert found.score == found.loop_mean == pytest.approx(2)
    assert (found.loop_median, found.loop_p90) == (pytest.approx(1), pytest.approx(1))


def test_a_core_that_is_slower_for_a_while_counts() -> None:
    times_s = EVEN.copy()
    times_s[600:] *= 1.6
    found = of(times_s)
    assert found.score == pytest.approx(1.3)
    assert found.loop_p90 == pytest.approx(1.6)


def test_the_begin_at_a_low_clock_frequency_does_not_count() -> None:
    times_s = EVEN.copy()
    times_s[:200] *= 3
    assert of(times_s).score == pytest.approx(1)


def test_what_others_use_counts_although_the_loop_had_its_core() -> None:
    found = of(EVEN, EVEN, busy_s=2.8 + TICKS_S, stolen_s=0.5)
    assert found.busy_cores == pytest.approx(1.8)
    assert found.stolen_cores == 0.5
    assert found.score == pytest.approx(1.9)
    expected = "found a load of 1.8 busy cores next to this process, noise score 1.90; quiet is below 1.05"
    assert found.warning() == f"machine: {expected}: numbers will be off"


@pytest.mark.parametrize(("share", "quiet"), [(0.049, True), (0.051, False)])
def test_the_limit_is_a_twentieth_of_the_cores(share: float, quiet: bool) -> None:
    assert of(*[EVEN] * 4, busy_s=1 + TICKS_S + 4 * share).is_quiet == quiet
    assert QUIET == 1.05


def test_the_resolution_of_the_kernel_s_counters_is_no_load() -> None:
    assert of(EVEN, busy_s=1 + TICKS_S).busy_cores == pytest.approx(0)
    assert of(EVEN, busy_s=0.5).busy_cores == 0


def test_where_the_load_is_unknown_the_loop_alone_counts() -> None:
    found = of(np.array([1.0, 1.0, 1.0, 1.0, 3.0]))
    assert found.busy_cores is found.stolen_cores is None
    assert found.warning() == "machine: found noise score 1.50; quiet is below 1.05: numbers will be off"


def stat(root: Path, text: str) -> None:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(text)


STAT = """cpu  9 9 9 9 9 9 9 9 9 9
cpu0 100 20 30 4000 50 6 7 8 1 2
cpu1 1 1 1 1 1 1 1 1 0 0
cpu10 500 0 0 0 0 0 0 100 0 0
intr 5
"""


def test_busy_time_is_that_of_the_given_cores(tmp_path: Path) -> None:
    stat(tmp_path, STAT)
    tick_s = TICKS_S / 2
    assert busy_time([0], tmp_path) == pytest.approx((171 * tick_s, 8 * tick_s)), (
        "guests' time is in the user's"
    )
    assert busy_time([0, 10], tmp_path) == pytest.approx((771 * tick_s, 108 * tick_s))


@pytest.mark.parametrize("text", ["", "cpu1 1 2 3 4 5 6 7 8\n", "cpu0 1 2\n", "cpu0 a b c d e f g h\n"])
def test_unknown_busy_time_is_none(tmp_path: Path, text: str) -> None:
    stat(tmp_path, text)
    assert busy_time([0], tmp_path) is None
    assert busy_time([0], tmp_path / "absent") is None


def test_pressure_is_that_of_some_threads(tmp_path: Path) -> None:
    assert pressure_percent(tmp_path) is None
    (tmp_path / "proc/pressure").mkdir(parents=True)
    file = tmp_path / "proc/pressure/cpu"
    file.write_text(
        "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    assert pressure_percent(tmp_path) == 12.5
    for text in ("", "some", "some avg10=x", "some avg60=1.0"):
        file.write_text(text)
        assert pressure_percent(tmp_path) is None


def test_the_loop_has_no_gaps_and_the_affinity_is_restored() -> None:
    def ticking() -> Iterator[float]:
        yield from range(100)

    usable, clock, ran = os.sched_getaffinity(0), ticking(), []
    times_s = loop_times(min(usable), 7.0, lambda: next(clock), lambda: ran.append(os.sched_getaffinity(0)))
    assert times_s.tolist() == [1.0] * 7
    assert ran == [{min(usable)}] * 7
    assert os.sched_getaffinity(0) == usable


def test_where_pinning_is_forbidden_the_loop_runs_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", forbidden)
    clock = iter(range(9))
    assert len(loop_times(0, 3.0, lambda: float(next(clock)))) == 3


@pytest.mark.parametrize("known", [True, False])
def test_the_readings_are_differences_and_the_cores_share_the_time(
    known: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    walls_s, own_s = iter((100.0, 102.0)), iter((7.0, 8.0))
    busy = iter((BusyTime(10.0, 1.0), BusyTime(14.0, 2.5) if known else None))
    looped = []
    clocks = SimpleNamespace(perf_counter=lambda: next(walls_s), process_time=lambda: next(own_s))
    monkeypatch.setattr(noise, "time", clocks)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.25, 5.0, 9.0))
    monkeypatch.setattr(noise, "_last", None)
    monkeypatch.setattr(noise, "loop_times", lambda *one: looped.append(one) or EVEN)
    monkeypatch.setattr(noise, "busy_time", lambda cores, root: next(busy))
    found = measure_noise([2, 5, 7], tmp_path)
    assert looped == [(core, pytest.approx(0.1)) for core in (2, 5, 7)]
    if known:
        assert found.busy_cores == pytest.approx((4.0 - 1.0 - TICKS_S) / 2)
        assert found.stolen_cores == pytest.approx(0.75)
    else:
        assert found.busy_cores is found.stolen_cores is None
    assert found.pressure_percent is None
    assert found.load_average == 0.25, "of the last minute"
    assert noise.last_noise() is found


def test_what_was_measured_last_is_in_the_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_last", None)
    assert conditions()["noise"] is None, "it was not measured"
    monkeypatch.setattr(noise, "SECONDS", 0.01)
    found = measure_noise([min(os.sched_getaffinity(0))])
    assert found.score >= 1
    assert conditions()["noise"] == found.to_json()
