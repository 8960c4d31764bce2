"""What follows a call that clears the caches takes longer, and what follows itself does not."""

import time

import numpy as np
import pytest

from placerl.harness.why.causes import caches


def test_what_is_read_again_after_a_large_copy_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that counts what is read: from memory after a copy, from the caches otherwise."""
    now, cached = 0.0, False

    def read() -> None:
        nonlocal now, cached
        now, cached = now + (1.0 if cached else 3.0), True

    def copy() -> None:
        nonlocal now, cached
        now, cached = now + 100.0, False

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert caches.reload_s([read, read], copy) == 2.0, "the first of them finds the caches empty"
    assert caches.reload_s([read, read], read) == 0.0


def test_a_copy_takes_as_many_bytes_as_the_seconds_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_copied_bytes_per_s", lambda: 1e9)
    assert caches.copying(1e-3)().nbytes == 10**6
    assert caches.copying(0.0)().nbytes == 1


def test_an_array_is_copied_at_some_rate() -> None:
    assert 1e8 < caches._copied_bytes_per_s() < 1e12


def test_environments_go_on_when_an_episode_ends() -> None:
    step = caches.environments(2)
    for _ in range(50):
        step()
    assert np.isfinite(caches.reload_s([step], step))
