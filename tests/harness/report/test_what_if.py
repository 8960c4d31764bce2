"""The times that the page's what-if control predicts from."""

from pathlib import Path

from harness.report import what_if
from tests.harness.papers.rows import frame_of, profiled


def test_a_table_for_each_workload_and_batch_size_has_one_time_for_each_target(tmp_path: Path) -> None:
    rows = [
        profiled("learner.step", 1.0, details={"target": "native"}),
        profiled("learner.step", 2.0, details={"target": "native"}),
        profiled("learner.step", 3.0, 32, details={"target": "torch:cuda"}),
        profiled("round.learn", 4.0, details={"target": "native"}),
    ]
    small, large = what_if.tables(frame_of(tmp_path, *rows))
    assert small["times"] == [("learner.step", "torch:cuda", "cuda", 3.0, "measured")]
    assert large["times"] == [("learner.step", "native", "cpu", 2.0, "measured")]
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
