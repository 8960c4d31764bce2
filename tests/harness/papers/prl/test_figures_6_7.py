"""PRL Fig. 6 and 7 in their own axes."""

from pathlib import Path

from harness.papers.prl import figures_6_7
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import frame_of, profiled


def test_each_device_has_a_line(tmp_path: Path) -> None:
    rows = [
        profiled(call, 1e-5, size, device=device, workload="cartpole-dqn")
        for call in ("sum_tree.sample", "sum_tree.update", "learner.step")
        for size in (32, 256)
        for device in ("cpu", "cuda:0")
    ]
    frame = frame_of(tmp_path, *rows)
    assert points(figures_6_7.draw_replay(frame)) == {"CPU": 4, "GPU": 4}
    assert points(figures_6_7.draw_learner(frame)) == {"CPU": 2, "GPU": 2}


def test_the_line_of_the_fpga_has_its_faster_learner(tmp_path: Path) -> None:
    rows = [
        profiled(call, time_s, size, device="fpga:u200", workload="cartpole-dqn")
        for call, time_s in (("learner.step", 1e-5), ("learner.pipeline_step", 2e-6))
        for size in (32, 256)
    ]
    drawn = figures_6_7.draw_learner(frame_of(tmp_path, *rows))
    assert drawn is not None
    (line,) = drawn.axes[0].containers
    assert list(line[0].get_ydata()) == [2e-6, 2e-6]
