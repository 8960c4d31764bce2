"""The table of gradient steps that stay on a device."""

from dataclasses import replace
from typing import Any

import pytest

from placerl.harness.cli.bench import gpu_bench
from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.profile.resident_steps import ITERATION, PREDICTED, STEP, STRICT, ResidentStep


def row(primitive: str, value: float | None, steps: int, **own: Any) -> ResidentStep:
    return ResidentStep(
        suite=gpu_bench.SUITE,
        workload="cartpole-dqn",
        quantity="time_per_call",
        provenance=Provenance.MEASURED,
        primitive=primitive,
        batch_size=32,
        device="cuda",
        value=value,
        gradient_steps=steps,
        **own,
    )


def test_rates_are_compared_with_the_strict_steps() -> None:
    text = gpu_bench.table([row(STEP, 256 * 20e-6, 256), row(STRICT, 8 * 400e-6, 8)])
    lines = [line for line in text.splitlines() if line.startswith("| cartpole-dqn")]
    assert lines[0].replace(" ", "") == "|cartpole-dqn|32|cuda|residentstep|20|20.0|"
    assert lines[1].replace(" ", "") == "|cartpole-dqn|32|cuda|strictstep|400|1.0|"


def test_the_error_of_a_prediction_is_said_with_its_interval() -> None:
    error = {"error": -0.2, "error_low": -0.25, "error_high": 0.01}
    rows = [row(STRICT, 8 * 400e-6, 8), replace(row(PREDICTED, 64 * 25e-6, 64), **error)]
    text = gpu_bench.table(rows)
    assert "|residentround,predicted|25|-|" in text.replace(" ", "")
    assert "- cartpole-dqn, B = 32: the model of the resident loop" in text
    assert "is -20.0% [-25.0%, +1.0%] off the achieved rate." in text
    assert "off the achieved" not in gpu_bench.table([row(PREDICTED, None, 0, status="failed", reason="no")])


def test_what_was_not_run_says_why() -> None:
    text = gpu_bench.table([row(STEP, None, 0, status="not_run", reason="not run: needs cuda: none")])
    assert "- cartpole-dqn, resident step: not run: needs cuda: none" in text


def test_the_device_is_one_of_the_kinds_and_each_workload_is_a_cell() -> None:
    with pytest.raises(UserError, match="--device: found gpu; allowed: opencl, cuda, host"):
        gpu_bench.bench("gpu", 1.0)
    keys = [cell.key for cell in gpu_bench.bench("host", 1.0).cells]
    assert keys == [
        "bench-gpu/cartpole-dqn/32/host",
        "bench-gpu/hopper-ddpg/256/host",
        "bench-gpu/cartpole-ppo/16384/host",
    ]


def test_of_ppo_the_rate_of_environment_steps_is_stated() -> None:
    text = gpu_bench.table([row(ITERATION, 0.5, 64, environment_steps=2_000_000)])
    assert "- cartpole-dqn: 4,000,000 environment steps/s, each learnt from once." in text
