"""A product with data on a compute unit: exact and of the stated cycles, or refused."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.cli.bench import fpga_product_bench
from placerl.primitives.fpga.compute_unit.simulation import SimulatedUnit, UnitOutcome
from placerl.primitives.fpga.export import toolchain
from tests.harness.cli.command_line import Placerl, refused

pytestmark = pytest.mark.skipif(
    bool(toolchain.unavailable_reason()), reason=toolchain.unavailable_reason() or "available"
)


class Wrong(SimulatedUnit):
    """A unit, not simulated, whose products have one wrong sum."""

    def __init__(self, **options: int):
        pass

    def multiply(self, a: np.ndarray, b: np.ndarray, **options: str) -> UnitOutcome:  # type: ignore[override]
        product = a @ b
        product[-1, -1] += 1
        return UnitOutcome(product, 0, 0)


class Late(Wrong):
    """One whose products are right, and come too early to be true."""

    def multiply(self, a: np.ndarray, b: np.ndarray, **options: str) -> UnitOutcome:  # type: ignore[override]
        return UnitOutcome(a @ b, 1, 0)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # builds a simulation with the C++ compiler
def test_products_are_exact_in_the_stated_cycles() -> None:
    rows = fpga_product_bench.product(2)
    assert [row["dataflow"] for row in rows] == ["NS", "WS", "IS"]
    assert all(row["provenance"] == "simulated" and row["cycles"] > 0 for row in rows)


@pytest.mark.parametrize(("unit", "said"), [(Wrong, "not NumPy's"), (Late, "found 1 cycles")])
def test_a_wrong_product_or_count_is_no_result(
    unit: type, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placerl.primitives.fpga.compute_unit.simulation.SimulatedUnit", unit)
    with pytest.raises(RuntimeError, match=said):
        fpga_product_bench.product(4)


def test_a_side_out_of_range_is_refused(placerl: Placerl) -> None:
    refused(placerl("bench", "fpga-product", "--side", "1"), "--side: found '1'", "2")
