"""A baseline is two files in a folder of `baselines/`: the template, found, started and trained as the others are."""

import shutil
import sys
from pathlib import Path

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.protocol import FailureKind, WorkerFailure, WorkerJob
from tests.limits import LIMIT_S

TEMPLATE = Path(__file__).parent / "template"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`baselines/` with the template alone, whose environment is the one that runs the tests."""
    for shared in registry.BASELINES.glob("*.py"):
        shutil.copy(shared, tmp_path)
    folder = tmp_path / "template"
    shutil.copytree(TEMPLATE, folder)
    monkeypatch.setattr(registry, "BASELINES", tmp_path)
    monkeypatch.setattr(registry, "build_baseline", lambda name: Path(sys.executable))
    return folder


def job(workload: str, gradient_steps: int) -> WorkerJob:
    return WorkerJob(
        workload=workloads.load(workload).tables(), batch_size=32, seed=0, gradient_steps=gradient_steps
    )


def test_two_files_are_a_baseline(folder: Path) -> None:
    assert sorted(path.name for path in TEMPLATE.iterdir() if path.is_file()) == [
        "requirements.txt",
        "worker.py",
    ]
    assert registry.baseline_names() == ["template"]
    with registry.baseline_worker("template") as worker:
        result = worker.ask(job("cartpole-dqn", 200), LIMIT_S)
        assert result.gradient_steps == result.environment_steps == 200
        assert result.episode_returns
        assert {"numpy", "gymnasium"} <= set(result.versions)
        assert "none" in result.notes["replay"]
        with pytest.raises(WorkerFailure, match="ddpg is not mapped") as failure:
            worker.ask(job("cartpole-ddpg", 20), LIMIT_S)
    assert failure.value.kind is FailureKind.REFUSED
