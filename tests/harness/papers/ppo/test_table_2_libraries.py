"""PPO's iterations in programs of the kind that PPO compares with: cells, rows, and what is judged by them."""

from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.harness.compare.protocol import FailureKind, WorkerFailure, WorkerJob, WorkerResult
from placerl.harness.core.progress import silent
from placerl.harness.core.row import Row
from placerl.harness.papers.base import Outcome
from placerl.harness.papers.ppo import table_2_libraries
from placerl.harness.papers.ppo.table_2_libraries import LIBRARIES_OF_THE_PAPER, STYLES
from placerl.harness.plan.gpu_claims import GPU
from placerl.harness.plan.tiers import TIERS
from tests.harness.papers.ppo.test_table_2 import LARGE, SMALL, rows
from tests.harness.papers.ppo.test_virtual_iterations import joined
from tests.harness.papers.rows import claim_of, frame_of

PARTS = {"environment": 0.5, "infer": 0.25, "prepare": 0.0625, "learner": 0.125}


class PlannedWorker:
    """A worker whose iterations take a second, and that refuses other devices than the CPU."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.jobs: list[WorkerJob] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def ask(self, job: WorkerJob, limit_s: float) -> WorkerResult:
        if job.device != "cpu":
            raise WorkerFailure(FailureKind.REFUSED, f"device: found {job.device}; PyTorch sees cpu")
        assert job.workload["algorithm"]["target_kl"] is None, "without early stopping"
        return WorkerResult(
            gradient_steps=1, environment_steps=1, wall_s=1.0, episode_returns=[], versions={}, terms_s=PARTS
        )


def keys(tier: object, *benchmarks: str) -> list[str]:
    return [cell.key for cell in table_2_libraries.cells(tier, benchmarks)]


def test_each_tier_measures_what_it_has_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert keys(TIERS["quick"], "Hopper") == []
    assert keys(TIERS["standard"], "Hopper") == [
        "claim/PPO-T2/hopper/ppo2_style/cpu/16x512/64",
        "claim/PPO-T2/hopper/ppo2_style/cpu/16x512/512",
    ]
    assert keys(GPU, "Hopper", "Pong") == [
        "claim/PPO-T2/hopper/spinningup_style/cuda/16x512/512",
        "claim/PPO-T2/hopper/ppo2_style/cuda/16x512/64",
        "claim/PPO-T2/hopper/ppo2_style/cuda/16x512/512",
        "claim/PPO-T2/pong/ppo2_style/cuda/4x128/32",
        "claim/PPO-T2/pong/ppo2_style/cuda/4x128/256",
    ]
    full = keys(TIERS["full"], "Hopper", "Pong")
    assert len(set(full)) == len(full) == 9 + 9 + 8, "columns that vary another size share an iteration"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert len(keys(TIERS["full"], "Hopper", "Pong")) == 2 * len(full)


@pytest.mark.parametrize(("library", "style"), STYLES.items())
def test_iterations_are_timed_with_their_parts(
    library: str, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_2_libraries, "plain_worker", PlannedWorker)
    (row,) = table_2_libraries.timed("Hopper", library, "cpu", SMALL, 0.0, silent)
    assert (row.workload, row.backend, row.device, row.batch_size) == ("hopper-ppo", style, "cpu", 64)
    assert row.samples == (1.0,) * 5
    assert row.parameters["terms_s"] == {name: [seconds] * 5 for name, seconds in PARTS.items()}
    assert row.parameters["processes"] == 16
    (refused,) = table_2_libraries.timed("Hopper", library, "cuda", SMALL, 0.0, silent)
    assert (refused.status, refused.device) == ("not_run", "cuda")
    assert "found cuda; PyTorch sees cpu" in refused.reason


def of_style(made: list[Row], style: str) -> list[Row]:
    """The timed row alone, of a program of a library's kind."""
    return [replace(made[0], backend=style)]


def test_the_second_finding_is_of_programs_of_the_papers_kind(tmp_path: Path) -> None:
    """This project's CPU is faster than the accelerator's bound; a program of Baselines' kind is not."""
    made = [
        *rows("Hopper", SMALL, 0.1, 0.5, 0.6),
        *of_style(rows("Hopper", SMALL, 0.1, 10.0, 40.0), "ppo2_style"),
        *of_style(rows("Hopper", SMALL, 0.1, 20.0, 40.0), "spinningup_style"),
        *rows("Hopper", LARGE, 0.1, 0.5, 0.5),
    ]
    claim, frame = claim_of("PPO-T2-CPU"), frame_of(tmp_path, *made)
    assert claim.as_in_the_paper is LIBRARIES_OF_THE_PAPER
    best = claim.evaluate(frame).finding
    assert best.outcome is Outcome.NOT_REPRODUCED
    printed = claim.evaluate(LIBRARIES_OF_THE_PAPER.of(frame)).finding
    assert printed.outcome is Outcome.NO_VERDICT
    assert "here it is a program in the style of Baselines" in printed.explanation
    (gain,) = (number for number in printed.ours if number.quantity.endswith("at most"))
    assert gain.value == pytest.approx(50.1 / 2.1, rel=0.02), "the faster program"


def test_a_program_keeps_its_environments_with_the_accelerator(tmp_path: Path) -> None:
    """Of 3 s in virtual time this project's environments take 1.5; the program's take 50 s with and without it."""
    timed, counted = rows("Hopper", SMALL, 50.0, 0.5, 3.7)
    frame = frame_of(tmp_path, *of_style([timed], "ppo2_style"), counted, *joined(SMALL, 3.0))
    found = claim_of("PPO-T2-CPU").evaluate(LIBRARIES_OF_THE_PAPER.of(frame)).finding
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper, N=16, T=512, M=64: CPU and FPGA over CPU, in virtual time"
    assert values[name] == pytest.approx(54.2 / (50 + 1.5))
