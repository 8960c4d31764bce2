"""Names of timed operations for people."""

import re

import pytest

from placerl.harness.report.names import people_s_kind, people_s_name
from placerl.harness.store import reference


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("sum_tree.sample", "sum tree sample"),
        ("sum_tree.banked_insert", "sum tree insert, several sub-trees"),
        ("beside_learner.sample", "replay sample, alongside the learner"),
        ("learner.step in 4 streams", "gradient step in 4 streams"),
        ("learner.pipeline_step in 4 streams", "gradient step in 4 of the FPGA's pipelines"),
        ("cold_round.runtime", "the loop's own time, in the loop, caches cold"),
        ("unheard_of.sample", "unheard_of.sample"),
    ],
)
def test_an_operation_is_named_by_what_it_does_and_when(stored: str, name: str) -> None:
    assert people_s_name(stored) == name


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("opencl_apart_round", "in the loop, replay and storage on OpenCL"),
        ("sum_tree", "sum tree"),
        ("all", "all"),
    ],
)
def test_a_kind_of_operations_is_named_without_underscores(stored: str, name: str) -> None:
    assert people_s_kind(stored) == name


def test_every_timed_operation_of_the_committed_runs_has_a_name() -> None:
    timed = {
        row.primitive
        for committed in reference.load()
        for row in committed.measurements
        if row.suite in ("profile", "simulated_profile")
    }
    assert len(timed) > 20
    names = {people_s_name(primitive) for primitive in timed}
    assert [name for name in names if re.search(r"[._]", name)] == []
    assert len(names) == len(timed)
