"""MAP Fig. 12 in its own axes."""

from pathlib import Path

from harness.papers.map import figure_12
from tests.harness.papers.drawn import points
from tests.harness.papers.rows import frame_of, profiled


def test_both_calls_have_a_panel(tmp_path: Path) -> None:
    rows = [
        profiled(call, 1e-5, size, device=device)
        for call in figure_12.CALLS
        for size in (32, 256, 2048)
        for device in ("cpu", "cuda:0")
    ]
    figure = figure_12.draw(frame_of(tmp_path, *rows))
    assert points(figure) == {"CPU": 6, "GPU": 6}
    assert figure is not None
    assert len(figure.axes) == 2
