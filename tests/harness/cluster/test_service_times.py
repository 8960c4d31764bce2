"""The service times that the simulation of many nodes takes as input."""

from contextlib import nullcontext

import pytest

pytest.importorskip("ray", reason="needs the extra 'cluster'")

from placerl.harness import workloads
from placerl.harness.cluster import service_times
from placerl.harness.mapping import Mapping
from tests.harness.cluster.inline_roles import each_timed_part_takes_a_second, without_ray

CALL_S = 0.125


def test_times_are_of_one_call_though_a_shard_takes_the_inserts_of_two_actors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service_times, "connected", lambda address: nullcontext())
    monkeypatch.setattr(service_times, "_call_s", lambda: CALL_S)
    monkeypatch.setattr(service_times, "_writer_s", lambda path: 0.5)
    with without_ray(), each_timed_part_takes_a_second():
        found = service_times.measure(
            workloads.load("cartpole-dqn"), Mapping.parse("native-native-cpu"), 25.0, 1e9
        )
    assert found.insert_s == found.sample_s == found.update_s == 1 + CALL_S
    assert (found.cell_s, found.writer_s, found.call_s, found.link_bytes_per_s) == (25.0, 0.5, CALL_S, 1e9)
