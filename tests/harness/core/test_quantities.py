"""Every quantity is declared once: its unit goes with it, and it is known whether more of it is better."""

from pathlib import Path

import pandas as pd
import pytest

import placerl.harness
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.quantities import QUANTITIES, better, declared
from placerl.harness.core.row import Row
from tests.harness.old_form import row_of

ROOT = Path(placerl.harness.__file__).resolve().parent
REFERENCE = ROOT.parent / "results" / "reference"


def row(quantity: str, **fields: str) -> Row:
    return row_of(
        suite="s", primitive="p", quantity=quantity, provenance=Provenance.MEASURED, value=1.0, **fields
    )


@pytest.mark.parametrize("tier", sorted(path.stem for path in REFERENCE.glob("*.parquet")))
def test_every_quantity_of_the_committed_reference_is_declared_with_its_unit(tier: str) -> None:
    stored = pd.read_parquet(REFERENCE / f"{tier}.parquet", columns=["suite", "quantity", "unit"])
    whole = {"claim", "profile"} <= set(stored["suite"])  # not a validation, or cycles, alone
    stored = stored[["quantity", "unit"]].drop_duplicates()
    assert len(stored) > (10 if whole else 1)
    units = {name: known.unit if (known := declared(name)) else None for name in stored["quantity"]}
    assert units == dict(zip(stored["quantity"], stored["unit"], strict=True))


def test_of_every_quantity_it_is_known_whether_more_is_better() -> None:
    assert not [one.name for one in QUANTITIES.values() if better(one.name, one.unit) is None]


def test_a_row_takes_its_unit_from_its_quantity() -> None:
    assert row("time_per_call").unit == "s"
    assert row("throughput_per_watt").unit == "1/s/W"
    assert row("predicted_gradient_steps_per_s").unit == "1/s"


def test_a_quantity_that_is_not_declared_is_refused_without_a_unit() -> None:
    with pytest.raises(ValueError, match="quantity: found 'speed'"):
        row("speed")


def test_a_row_that_was_written_before_keeps_what_it_says() -> None:
    assert row("speed", unit="furlong").unit == "furlong"
    assert row("time_per_call", unit="ms").unit == "ms"


def test_a_quantity_comes_before_its_unit() -> None:
    assert better("descriptors", "s") == "neither"
    assert better("regret", "1/s") == "less"
    assert better("final_return", "s") == "more"
    assert better("anything", "s") == "less"
    assert better("anything", "1") is None
