"""The layout transformation module: every word of the Toeplitz matrix from its address, P of a run in a cycle."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga import simulation
from placerl.primitives.fpga.convolution.layout_transform import Convolution, LayoutTransform
from placerl.primitives.fpga.cycles.convolution import transform_cycles
from tests.primitives.fpga import restarted
from tests.primitives.fpga.convolution.golden import moves_golden
from tests.primitives.fpga.cycles.convolution import whole_band

side = st.integers(1, 5)
LANES = 4


def run_bands(
    bands: list[dict[str, int]], moves: int, lanes: int = LANES, **options: Any
) -> simulation.SimulatedRun:
    commands = {name: np.array([band[name] for band in bands]) for name in bands[0]}
    module = restarted.interpreted(LayoutTransform, lanes=lanes)
    return module.run({"commands": commands}, {"moves": moves}, **options)


def addressed(found: dict[str, Any]) -> list[tuple[int, int, list[int | None]]]:
    """Moves as the golden model has them."""
    rows = zip(*(found[name] for name in ("row", "column", "source", "count", "low", "high")), strict=True)
    return [
        (row, column, [source + k if low <= k < high else None for k in range(count)])
        for row, column, source, count, low, high in rows
    ]


@settings(max_examples=12, deadline=None)
@given(
    channels=st.integers(1, 3),
    size=st.tuples(side, side),
    kernel=st.tuples(side, side),
    stride=st.integers(1, 3),
    padding=st.integers(0, 3),
    images=st.integers(1, 2),
    lanes=st.sampled_from([1, 2, 4, 5]),
)
def test_addresses_are_those_of_the_toeplitz_matrix(
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: int,
    padding: int,
    images: int,
    lanes: int,
) -> None:
    assume(all(k <= s + 2 * padding for k, s in zip(kernel, size, strict=True)))
    convolution = Convolution(channels, *size, kernel, stride, padding, images)
    wanted = list(moves_golden(convolution, lanes=lanes))
    run = run_bands([convolution.command()], len(wanted), lanes)
    found = run.outputs["moves"]
    assert addressed(found) == wanted
    assert found["last"].tolist() == [0] * (len(wanted) - 1) + [1]
    # One a cycle, from the cycle after the command on.
    assert len(wanted) == transform_cycles(convolution, whole_band(convolution), side=lanes)
    assert (np.diff(run.output_cycles["moves"]) == 1).all()
    assert run.output_cycles["moves"][0] == run.input_cycles["commands"][0] + 1


def test_waits_for_its_consumer_and_goes_band_by_band() -> None:
    convolution = Convolution(2, 4, 4, (2, 2), stride=1, padding=1, images=2)
    count = transform_cycles(convolution, whole_band(convolution), side=LANES)
    bands = [
        convolution.command(first_image=0, images=1, rows=3),
        convolution.command(first_image=0, images=1, first_row=3),
        convolution.command(first_image=1),
    ]
    at_once = addressed(run_bands([convolution.command()], count).outputs["moves"])
    for ready in ([True], [False, True, False]):
        parts = addressed(run_bands(bands, count, ready={"moves": ready}).outputs["moves"])
        assert [move[1:] for move in parts] == [move[1:] for move in at_once]
        assert [move[0] for move in parts][-1] == 24  # rows count from 0 in each band


def test_what_is_no_convolution_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel"):
        Convolution(1, 2, 2, (3, 3))
    with pytest.raises(ValueError, match="convolution"):
        Convolution(0, 2, 2, (1, 1))
    with pytest.raises(ValueError, match="windows below"):
        Convolution(4000, 9, 9, (9, 9))
    with pytest.raises(ValueError, match="lanes"):
        LayoutTransform(lanes=0)
