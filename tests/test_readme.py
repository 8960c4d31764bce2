"""The Python in README and CONTRIBUTING is run as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
OWN = [block for block in BLOCKS if "adapters" not in block]  # adapters need the other library


def hopper_batch(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "observation": rng.standard_normal((size, 11)).astype(np.float32),
        "action": rng.uniform(-1, 1, (size, 3)).astype(np.float32),
        "reward": rng.standard_normal(size).astype(np.float32),
        "next_observation": rng.standard_normal((size, 11)).astype(np.float32),
        "terminated": rng.random(size) < 0.1,
    }


def test_there_is_python_to_run() -> None:
    assert len(OWN) >= 3


@pytest.mark.parametrize("block", OWN)
def test_a_block_runs(block: str) -> None:
    names = {"batch": hopper_batch(256)}
    exec(compile(block, "README.md", "exec"), names)
    if "trace" in names:
        assert np.allclose(names["learner"].state()["state/weight"], [1, -2, 3], atol=1e-3)


def test_the_example_file_is_the_block_of_the_readme() -> None:
    _, example = (ROOT / "harness" / "examples" / "q_learning.py").read_text().split('"""\n\n', 1)
    assert example in BLOCKS
