"""Each adapter trains in its library's own environment (`baselines/<name>/requirements.txt`)."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import primitives
from harness.workers import build_baseline

HERE = Path(__file__).parent


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder from which another environment imports `primitives`, wherever the extension was installed."""
    folder = tmp_path / "primitives"
    folder.mkdir()
    for source in map(Path, primitives.__path__):
        for entry in source.iterdir():
            if entry.suffix in (".py", ".so") or entry.is_dir():
                target = folder / entry.name
                if not target.exists():
                    target.symlink_to(entry)
    assert list(folder.glob("_native*.so"))
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("library", "algorithm", "steps", "gain"),
    [
        ("sb3", "dqn", 5000, 50.0),
        ("sb3", "ddpg", 5000, 200.0),
        ("tianshou", "dqn", 4000, 50.0),
        ("tianshou", "ddpg", 5000, 200.0),
        ("pfrl", "dqn", 5000, 50.0),
        ("rllib", "dqn", 2000, 50.0),
        ("rllib", "sac", 4000, 200.0),
    ],
)
def test_trains_in_the_library(library: str, algorithm: str, steps: int, gain: float, package: Path) -> None:
    """The gain is in mean episode return, far above what an untrained policy reaches by luck."""
    python = build_baseline(library)
    program = HERE / f"{library}_training.py"
    command = [str(python), str(program), "--algorithm", algorithm, "--steps", str(steps)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["gradient_steps"] >= 1000
    assert result["return_after"] >= result["return_before"] + gain
    # TD errors came back: a priority of its own for most of what was sampled
    assert result["distinct_priorities"] > 100
    # weights are the batch's own and at most 1
    assert 0 < result["least_weight"] < 0.999
    assert result["largest_weight"] == 1
