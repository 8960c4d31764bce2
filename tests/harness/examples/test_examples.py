"""Every example trains as it is, on the platform that it names."""

import runpy
from math import isfinite
from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.prl.table_4 import ALGORITHMS, EXAMPLES, OTHER_PLATFORM
from placerl.harness.runtime.training import Training
from placerl.primitives import sum_tree

HERE = list(ALGORITHMS)
THERE = [f"{name}{OTHER_PLATFORM}" for name in ALGORITHMS]


MOST = 500
"""Gradient steps of a call, for a simulated device takes long for all that an example asks for."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = Training.advance
    monkeypatch.setattr(Training, "advance", lambda self, steps: advance(self, min(steps, MOST)))


def trained(name: str) -> Provenance:
    """Runs an example; the provenance of its training."""
    training = runpy.run_path(str(EXAMPLES / f"{name}.py"))["training"]
    try:
        progress = training.advance(32)
        assert training.gradient_steps > MOST
        assert all(map(isfinite, progress.losses.values()))
        provenance: Provenance = training.provenance
        return provenance
    finally:
        training.close()


def test_there_is_one_of_each_platform() -> None:
    names = {Path(path).stem for path in EXAMPLES.glob("*.py")} - {"__init__"}
    assert names == {*HERE, *THERE}


@pytest.mark.parametrize("name", HERE)
def test_an_example_trains_here(name: str) -> None:
    assert trained(name) is Provenance.MEASURED


@pytest.mark.slow
@pytest.mark.parametrize("name", THERE)
def test_an_example_trains_with_a_simulated_fpga(name: str) -> None:
    fpga = next(found for found in sum_tree.backends() if found.name == "fpga")
    if not fpga.available:
        pytest.skip(fpga.reason)
    assert trained(name) is Provenance.SIMULATED
