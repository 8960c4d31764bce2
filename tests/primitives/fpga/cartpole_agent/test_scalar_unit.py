"""The scalar unit next to its golden model, instruction by instruction."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cartpole_agent import golden, program
from placerl.primitives.fpga.cartpole_agent.scalar_unit import CYCLES, ScalarProgram, ScalarUnit
from placerl.primitives.fpga.cartpole_agent.settings import STATE_FRACTION
from placerl.primitives.fpga.simulation.base import Simulation
from tests.primitives.fpga.interpreter import interpreted

TOTAL_BITS = 28


def run(unit: Simulation, task: ScalarProgram, draws: list[int] | None = None) -> None:
    """Run a program until it is done, with a random number for each time that it draws one."""
    draws = list(draws or [])
    unit.write("program", int(task))
    unit.write("start", 1)
    unit.step()
    unit.write("start", 0)
    for _ in range(CYCLES[task]):
        if unit.read("draw"):
            unit.step()
            unit.write("random", draws.pop(0) if draws else 0)
        else:
            unit.step()
    assert not draws


def state_of(unit: Simulation) -> np.ndarray:
    return np.asarray(unit.read("state"), np.int64).reshape(1, 4)


def test_programs_give_the_golden_models_bits() -> None:
    rng = np.random.default_rng(0)
    unit = interpreted(ScalarUnit(total_bits=TOTAL_BITS))
    for _ in range(3):
        random = [int(each) for each in rng.integers(0, 1 << STATE_FRACTION, 4)]
        unit.write("random", random[0])
        run(unit, ScalarProgram.RESET, [*random[1:], 0])
        wanted = np.array(
            [
                golden.execute([instruction], {"random": np.array(drawn)})[instruction.target]
                for instruction, drawn in zip(program.RESET, random, strict=True)
            ]
        ).reshape(1, 4)
        np.testing.assert_array_equal(state_of(unit), wanted)
        for _ in range(6):
            right = int(rng.integers(0, 2))
            unit.write("right", right)
            run(unit, ScalarProgram.STEP)
            wanted = golden.environment_step(wanted, np.array([right]))
            np.testing.assert_array_equal(state_of(unit), wanted)


@pytest.mark.parametrize("total", [0, 1, 1025, (1 << TOTAL_BITS) - 1])
@pytest.mark.parametrize("random", [0, 1 << 25, (1 << 26) - 1])
def test_prefix_sums_are_the_golden_models(total: int, random: int) -> None:
    unit = interpreted(ScalarUnit(total_bits=TOTAL_BITS))
    unit.write("total", total)
    unit.write("random", random)
    run(unit, ScalarProgram.SAMPLE, [5])
    wanted = golden.execute(program.SAMPLE, {"random": np.array(random), "total": np.array(total)})["t"]
    assert unit.read("result") == wanted
