"""What a figure shows, for tests."""

from matplotlib.figure import Figure


def points(figure: Figure | None) -> dict[str, int]:
    """Return the number of points by the label of their line, over all axes; titles are not looked at."""
    assert figure is not None
    found: dict[str, int] = {}
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        for container in axes.containers:
            label = str(container.get_label())
            found[label] = found.get(label, 0) + len(container[0].get_xdata())
    return found
