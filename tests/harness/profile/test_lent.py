"""GPUs of other machines: which there are, what they lend, and what is predicted with them."""

from dataclasses import replace

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.answer import answer
from placerl.harness.platforms.machine import Machine
from placerl.harness.profile import lent
from placerl.harness.profile.lent import LentGpu
from placerl.harness.store.reference import load
from placerl.harness.store.rows import PieceTime

H200 = "cuda:h200"


@pytest.fixture(scope="module")
def gpu() -> LentGpu:
    return lent.measured("h200", "hopper-ddpg", 256)


@pytest.fixture(scope="module")
def own() -> list[PieceTime]:
    """The times of a machine without a GPU, of a committed run."""
    (quick,) = (one for one in load() if one.name == "quick")
    timed = (row for row in quick.measurements if isinstance(row, PieceTime))
    suites = ("profile", "simulated_profile")
    return [
        row
        for row in timed
        if (row.suite in suites, row.workload, row.batch_size) == (True, "hopper-ddpg", 256)
    ]


@pytest.fixture(scope="module")
def host() -> platforms.PlatformFile:
    (quick,) = (one for one in load() if one.name == "quick")
    return platforms.of_machine(Machine.model_validate(quick.run.machine))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-40GB", "a100_sxm4"),
        ("NVIDIA GeForce RTX 3090 Ti", "geforce_rtx_3090_ti"),
    ],
)
def test_a_gpu_is_called_by_its_model(name: str, key: str) -> None:
    assert lent.key_of(name) == key


def test_the_committed_gpus_are_lent_where_they_were_measured() -> None:
    assert {"h100", "h200"} <= set(lent.devices())
    assert 256 in lent.cells("h200")["hopper-ddpg"]


def test_what_was_not_measured_is_refused_with_what_was() -> None:
    with pytest.raises(UserError, match=r"found 64; allowed: what h200 was measured with: 256"):
        lent.measured("h200", "hopper-ddpg", 64)
    with pytest.raises(UserError, match=r"workload: found pong-dqn; allowed: .*hopper-ddpg"):
        lent.measured("h200", "pong-dqn", 32)


def test_lent_times_stay_measured_and_name_their_machine(gpu: LentGpu) -> None:
    rows = gpu.rows("hopper-ddpg", 256)
    assert {row.primitive for row in rows} == set(lent.PRIMITIVES)
    assert {row.target for row in rows} == {f"torch:{H200}", H200, f"flat:{H200}"}
    assert {row.device for row in rows} == {H200}
    assert {row.provenance for row in rows} == {Provenance.MEASURED}
    for row in rows:
        assert row.notes["machine"].startswith("NVIDIA H200 next to 16 cores of Intel")
        assert gpu.reference.name in row.notes["machine"]


def test_the_host_acts_for_a_learner_on_the_gpu(gpu: LentGpu, own: list[PieceTime]) -> None:
    rows = lent.times(own, gpu, "hopper-ddpg", 256)
    acting = {row.target: row for row in rows if row.primitive == "actor.infer"}
    assert acting[f"torch:{H200}"] == replace(acting["torch"], target=f"torch:{H200}")
    assert not any(row.primitive.startswith("round") for row in rows), (
        "calls of a loop stay where they were timed"
    )


def test_every_strategy_of_the_papers_chooses_among_three_devices(
    gpu: LentGpu, own: list[PieceTime], host: platforms.PlatformFile
) -> None:
    rows = lent.predictions(workloads.load("hopper-ddpg"), 256, own, gpu, host)
    chosen = {row.strategy: row.mapping for row in rows if row.chosen}
    assert chosen.keys() == lent.PREDICTING.keys()
    assert "composed-loop" not in chosen
    assert chosen["map-tpds23"] == f"torch:{H200}-native-{H200}", (
        "a gradient step takes 545 us there, 4.4 ms here"
    )
    devices = {part for row in rows for part in row.mapping.split("-")}
    assert devices >= {"native", "torch", f"torch:{H200}", "fpga:u200"}
    first, *_, last = answer(rows)
    assert first.startswith("pearl24 chooses"), "it alone counts transfers"
    assert last == f"{H200} is {gpu.machine}."


def test_without_the_fpgas_cycles_two_devices_are_left(
    gpu: LentGpu, own: list[PieceTime], host: platforms.PlatformFile
) -> None:
    timed = [row for row in own if row.device != lent.BOARD]
    rows = lent.predictions(workloads.load("hopper-ddpg"), 256, timed, gpu, host)
    assert any(H200 in row.mapping for row in rows)
    assert not any("fpga" in row.mapping for row in rows)
