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
