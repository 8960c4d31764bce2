import json
import os
import threading

import pytest

from harness.conditions import conditions, pinned, torch_threads


def test_pinning_holds_for_every_thread_and_ends():
    before = os.sched_getaffinity(0)
    core = min(before)
    started, finish = threading.Event(), threading.Event()
    ids = []

    def work():
        ids.append(threading.get_native_id())
        started.set()
        finish.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait(10)
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
