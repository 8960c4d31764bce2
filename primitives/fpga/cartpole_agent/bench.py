"""The files of the CartPole agent's bench for an export: `cocotb_bench`, and its golden model's reports."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from placerl.primitives.fpga.cartpole_agent.golden import GoldenAgents

STEPS = 300  # more than the 255 before the first gradient step


def golden_bench(design: Any, module: str) -> dict[str, str]:
    """Return the files of the bench of an agent, by name.

    Args:
        design: a `CartPoleAgent`.
        module: the name of its module in Verilog, "cartpole_agent".
    """
    from placerl.primitives.fpga.cartpole_agent.agent import REPORT
    from placerl.primitives.fpga.simulation.ports import pack

    golden = GoldenAgents([design.seed], design.settings)
    steps, counters = [], []
    for _ in range(STEPS):
        steps.append(golden.step())
        counters.append((golden.steps, int(golden.episodes[0]), int(golden.last_return[0])))
    words = pack(REPORT, {name: np.concatenate([step[name] for step in steps]) for name in steps[0]})
    reports = [sum(int(word) << 32 * place for place, word in enumerate(item)) for item in words]
    names = ("steps", "episodes", "last_return")
    vectors = {
        "reports": [f"{report:x}" for report in reports],
        "counters": dict(zip(names, map(list, zip(*counters, strict=True)), strict=True)),
    }
    return {
        f"test_{module}.py": Path(__file__).with_name("cocotb_bench.py").read_text(),
        f"{module}_vectors.json": json.dumps(vectors, indent=1),
    }
