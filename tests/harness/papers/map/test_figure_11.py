"""MAP Fig. 11 in its own axes."""

from pathlib import Path

from harness.papers.map import figure_11
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import frame_of, profiled


def test_the_fastest_backend_of_each_device_is_drawn(tmp_path: Path) -> None:
    rows = [
        profiled("learner.step", time_s, size, backend=backend, device=device)
        for size in (32, 256)
        for backend, device, time_s in (
            ("native", "cpu", 2e-3),
            ("torch", "cpu", 1e-3),
            ("torch", "cuda:0", 5e-4),
            ("reference", "cpu", 1e-6),
        )
    ]
    figure = figure_11.draw("hopper-ddpg", "hopper")(frame_of(tmp_path, *rows))
    assert points(figure) == {"CPU": 2, "GPU": 2}
    assert figure is not None
    assert list(figure.axes[0].containers[0][0].get_ydata()) == [1e-3, 1e-3]
    assert "published" in figure.legends[0].get_texts()[0].get_text()
    assert figure_11.draw("cartpole-ddpg")(frame_of(tmp_path / "other", *rows)) is None
