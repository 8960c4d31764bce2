"""The times that the page's what-if control predicts from."""

from pathlib import Path

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.mapping import absent_platforms, predict, roofline
from placerl.harness.profile import simulated
from placerl.harness.report import what_if
from tests.harness.papers.rows import frame_of, profiled


def test_a_table_for_each_workload_and_batch_size_has_one_time_for_each_target(tmp_path: Path) -> None:
    rows = [
        profiled("learner.step", 1.0, details={"target": "native"}),
        profiled("learner.step", 2.0, details={"target": "native"}),
        profiled("learner.step", 3.0, 32, details={"target": "torch:cuda"}),
        profiled("round.learn", 4.0, details={"target": "native"}),
    ]
    small, large = what_if.tables(frame_of(tmp_path, *rows))
    assert small["times"] == [("learner.step", "torch:cuda", "cuda", 3.0, "measured", False)]
    assert large["times"] == [("learner.step", "native", "cpu", 2.0, "measured", False)]
    assert (small["batch_size"], large["batch_size"], large["platform"]) == (32, 256, "here")
    assert small["storages"] == {"cpu": "cpu", "cuda": "cuda"}
    assert large["environment_steps"] == 1


def test_what_cannot_be_predicted_is_left_out(tmp_path: Path) -> None:
    rows = [
        profiled("learner.step", 1.0),  # names no target
        profiled("learner.step", 1.0, details={"target": "native-native"}, workload="unheard-of"),
        profiled("learner.step", 1.0, details={"target": "a:b[c]:d"}),
        profiled("learner.step", 1.0, details={"target": "native"}, workload="hopper-ppo"),
    ]
    assert what_if.tables(frame_of(tmp_path, *rows)) == []


@pytest.mark.parametrize("mapped", [True, False])
def test_a_simulated_device_has_the_times_that_predictions_use(mapped: bool, tmp_path: Path) -> None:
    fields = {"suite": simulated.SUITE, "backend": "fpga", "device": "fpga:u200", "provenance": "simulated"}
    said = {"target": "fpga:u200", "mapped": mapped}
    rows = [profiled("learner.step", 1.0, details={"target": "native"})]
    for slow, name in enumerate((simulated.PIPELINE, *simulated.BANKED.values()), 2):
        rows.append(profiled(name, float(slow), details=said, **fields))
    for slow, name in enumerate(("learner.step", *simulated.BANKED), 12):
        rows.append(profiled(name, float(slow), details={"target": "fpga:u200"}, **fields))
    (found,) = what_if.tables(frame_of(tmp_path, *rows))
    table = predict.table_from(rows, 256)
    shown = {(name, target): seconds for name, target, _, seconds, *_ in found["times"]}
    assert len(shown) == 5
    assert shown == {
        (entry.primitive, str(entry.target)): entry.time_s
        for entry in table
        if entry.primitive in what_if.PRIMITIVES
    }
    assert (shown["learner.step", "fpga:u200"] == 2.0) is mapped


def test_a_noisy_time_is_marked(tmp_path: Path) -> None:
    noisy = profiled("learner.step", 1.0, details={"target": "native"}, status="too_noisy", reason="wide")
    (found,) = what_if.tables(frame_of(tmp_path, noisy))
    assert found["times"] == [("learner.step", "native", "cpu", 1.0, "measured", True)]


def test_published_platforms_have_the_times_that_the_command_predicts_from() -> None:
    found = {(t["platform"], t["workload"], t["batch_size"]): t for t in what_if.published(["cartpole-dqn"])}
    sizes = workloads.load("cartpole-dqn").training.batch_sizes
    assert {key[0] for key in found} == {"pearl24-authors", *roofline.platforms()[1:]}
    assert found.keys() >= {("map-tpds23", "cartpole-dqn", size) for size in sizes}
    assert found.keys() >= {("pearl24-authors", "cartpole-dqn", 512)}
    platform, workload = platforms.load("map-tpds23"), workloads.load("cartpole-dqn")
    rows = absent_platforms.times(workload, sizes[0], platform)
    shown = found["map-tpds23", "cartpole-dqn", sizes[0]]
    assert {(name, target): (seconds, word) for name, target, _, seconds, word, _ in shown["times"]} == {
        (row.primitive, row.target): (row.value, str(row.provenance)) for row in rows
    }
    assert set(shown["storages"]) == {device for _, _, device, *_ in shown["times"]}


def test_a_gpu_of_another_machine_is_a_platform_of_its_own(tmp_path: Path) -> None:
    names = ("learner.step", "sum_tree.sample", "sum_tree.update")
    rows = [profiled(name, 1.0, details={"target": "native"}) for name in names]
    found = {str(table["platform"]): table for table in what_if.with_other_gpus(frame_of(tmp_path, *rows))}
    (name,) = (name for name in found if "NVIDIA H200" in name)
    assert name.startswith(
        "here, with NVIDIA H200 next to 16 cores of Intel(R) Xeon(R) Processor, committed run "
    )
    table = found[name]
    assert (table["workload"], table["batch_size"]) == ("hopper-ddpg", 256)
    assert table["storages"] == {"cpu": "cpu", "cuda:h200": "cuda:h200"}
    times = {(primitive, target): (device, word) for primitive, target, device, _, word, _ in table["times"]}
    assert times["learner.step", "torch:cuda:h200"] == ("cuda:h200", "measured")
    assert times["learner.step", "native"] == ("cpu", "measured")
    assert what_if.tables(frame_of(tmp_path, *rows))[0]["storages"] == {"cpu": "cpu"}


def test_cycles_alone_are_no_platform(tmp_path: Path) -> None:
    fields = {"suite": simulated.SUITE, "backend": "fpga", "device": "fpga:u200", "provenance": "simulated"}
    counted = profiled("learner.step", 1.0, details={"target": "fpga:u200"}, **fields)
    assert what_if.tables(frame_of(tmp_path, counted)) == []
