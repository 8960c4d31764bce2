"""The control of runs: a start is kept until it is taken, and busy ends once, with done a cycle later."""

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.host import RunControl
from tests.primitives.fpga.interpreter import interpreted

OUTPUTS = ("wanted", "busy", "done")


def outputs(inputs: dict[str, str]) -> dict[str, str]:
    """Return the outputs in each cycle for inputs in each cycle, as digits."""
    model = interpreted(RunControl())
    found: dict[str, list[str]] = {name: [] for name in OUTPUTS}
    for cycle in range(len(inputs["start"])):
        for name, values in inputs.items():
            model.write(name, int(values[cycle]))
        for name in OUTPUTS:
            found[name].append(str(model.read(name)))
        model.step()
    return {name: "".join(values) for name, values in found.items()}


def test_a_start_is_kept_until_the_run_begins() -> None:
    found = outputs({"start": "01000000", "takes": "00010000", "works": "00001100"})
    assert found == {"wanted": "01110000", "busy": "01111100", "done": "00000010"}


def test_a_run_may_begin_with_its_start() -> None:
    found = outputs({"start": "010000", "takes": "010000", "works": "001100"})
    assert found == {"wanted": "010000", "busy": "011100", "done": "000010"}


def test_a_start_within_a_run_begins_another_after_it() -> None:
    found = outputs({"start": "10010000000", "takes": "10000010000", "works": "01111101110"})
    assert found == {"wanted": "10011110000", "busy": "11111111110", "done": "00000000001"}


def test_a_run_of_no_cycles_is_done() -> None:
    found = outputs({"start": "0100", "takes": "0100", "works": "0000"})
    assert found == {"wanted": "0100", "busy": "0100", "done": "0010"}
