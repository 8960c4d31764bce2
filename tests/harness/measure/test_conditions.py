import json
import os
import threading

import pytest

from placerl.harness.measure.conditions import (
    blas_threads,
    caller_pinned,
    conditions,
    default_core,
    pinned,
    set_blas_threads,
    torch_threads,
)


def test_pinning_holds_for_every_thread_and_ends():
    before = os.sched_getaffinity(0)
    core = min(before)
    started, finish = threading.Event(), threading.Event()
    ids = []

    def work():
        ids.append(threading.get_native_id())
        started.set()
        finish.wait()

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    try:
        with pinned([core]):
            assert os.sched_getaffinity(0) == {core}
            assert os.sched_getaffinity(ids[0]) == {core}
        assert os.sched_getaffinity(0) == before
        assert os.sched_getaffinity(ids[0]) == before
    finally:
        finish.set()
        thread.join()


def test_pinning_ends_after_an_error():
    before = os.sched_getaffinity(0)
    with pytest.raises(RuntimeError), pinned([min(before)]):
        raise RuntimeError
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("cores", [[], [10_000]])
def test_cores_that_are_not_there_are_refused(cores):
    with pytest.raises(ValueError, match="cores"), pinned(cores):
        pass


def test_threads_are_set_and_put_back():
    import torch

    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
        assert conditions()["torch_threads"] == before + 1
    assert torch.get_num_threads() == before


def test_conditions_are_json_and_say_what_matters():
    found = json.loads(json.dumps(conditions()))
    assert found["cores"] == sorted(os.sched_getaffinity(0))
    assert {"python", "numpy", "placerl"} <= set(found["versions"])
    assert len(found["load_average"]) == 3


def test_only_the_calling_thread_is_pinned_and_it_is_let_go() -> None:
    before = os.sched_getaffinity(0)
    core = max(before)
    seen: list[set[int]] = []
    other = threading.Event()

    def elsewhere() -> None:
        other.wait()
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    with caller_pinned(core):
        assert os.sched_getaffinity(0) == {core}
        other.set()
        thread.join()
    assert os.sched_getaffinity(0) == before
    assert seen == [before]


def test_a_core_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="core: found 99999"), caller_pinned(99999):
        pass


@pytest.mark.parametrize(("usable", "core"), [({3, 5}, 5), ({3}, None)])
def test_the_default_core_is_the_last_of_several(
    usable: set[int], core: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: usable)
    assert default_core() == core


def test_numpy_s_threads_are_set_and_asked():
    before = blas_threads()
    if before is None:
        pytest.skip("no library that is known computes NumPy's products")
    try:
        for threads in (2, 1):
            set_blas_threads(threads)
            assert blas_threads() == conditions()["blas_threads"] == threads
    finally:
        set_blas_threads(before)
    assert blas_threads() == before


def test_where_no_library_is_known_no_number_of_threads_is_stated(monkeypatch):
    monkeypatch.setattr(
        "placerl.harness.measure.conditions.threadpool_info",
        lambda: [{"user_api": "openmp", "num_threads": 4}],
    )
    assert conditions()["blas_threads"] is None
    several = [{"user_api": "blas", "num_threads": threads} for threads in (1, 3)]
    monkeypatch.setattr("placerl.harness.measure.conditions.threadpool_info", lambda: several)
    assert conditions()["blas_threads"] == 3
