"""The Python in README and CONTRIBUTING is run as it stands."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
OWN = [block for block in BLOCKS if "adapters" not in block]  # adapters need the other library


def test_there_is_python_to_run() -> None:
    assert len(OWN) >= 3


@pytest.mark.parametrize("block", OWN)
def test_a_block_runs(block: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)
    if "trace" in names:
        assert np.allclose(names["learner"].state()["state/weight"], [1, -2, 3], atol=1e-3)


def test_the_example_file_is_the_block_of_the_readme() -> None:
    _, example = (ROOT / "harness" / "examples" / "q_learning.py").read_text().split('"""\n\n', 1)
    assert example in BLOCKS
