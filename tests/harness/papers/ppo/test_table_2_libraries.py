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
    assert claim.judge(frame).outcome is Outcome.NOT_REPRODUCED
    assert claim.evaluate(frame).finding.outcome is Outcome.NO_VERDICT
    printed = claim.evaluate(LIBRARIES_OF_THE_PAPER.of(frame)).finding
    assert printed.outcome is Outcome.NO_VERDICT
    assert "here it is a program in the style of Baselines" in printed.explanation
    gains = {number.quantity: number.value for number in printed.ours}
    name = "Hopper as {}, N=16, T=512, M=64: CPU and FPGA over CPU, at most"
    assert gains == {
        name.format("Baselines"): pytest.approx(50.1 / 2.1, rel=0.02),
        name.format("Spinning Up"): pytest.approx(60.1 / 2.1, rel=0.02),
    }


@pytest.mark.parametrize(
    ("key", "benchmark", "command"),
    [
        ("PPO-T2-CPU", "Hopper", "placerl reproduce --only PPO-T2-CPU --tier standard"),
        ("PPO-F10", "Hopper", "placerl reproduce --only PPO-F10 --tier standard"),
        ("PPO-T2", "Hopper", "placerl gpu-claims"),
        ("PPO-F11", "Pong", "placerl gpu-claims"),
    ],
)
def test_this_project_s_own_programs_refute_nothing_alone(
    key: str, benchmark: str, command: str, tmp_path: Path
) -> None:
    """They take 0.4 s, the accelerator 2 s: a program of Baselines' kind takes as long, or a minute."""

    def timed(*seconds: float) -> list[Row]:
        cpu, counted = rows(benchmark, SMALL, *seconds)
        return [cpu, rows(benchmark, SMALL, *seconds, "cuda")[0], counted]

    own = timed(0.1, 0.1, 0.2)
    alone = claim_of(key).evaluate(frame_of(tmp_path / "alone", *own)).finding
    assert alone.outcome is Outcome.NO_VERDICT
    assert f"`{command}`" in alone.decides
    assert ": not run. This project's own" in alone.explanation
    for name, made, outcome in (
        ("fast", own, Outcome.NOT_REPRODUCED),
        ("slow", timed(0.1, 20.0, 40.0), Outcome.NO_VERDICT),
    ):
        programs = [replace(row, backend="ppo2_style") for row in made[:2]]
        found = claim_of(key).evaluate(frame_of(tmp_path / name, *own, *programs)).finding
        assert found.outcome is outcome, name
        assert f": {outcome}. This project's own" in found.explanation or name == "fast"
        assert len(own) in {row for number in found.ours for row in number.rows}, "the program's"


def test_each_program_is_judged_by_the_gains_of_its_own_library(tmp_path: Path) -> None:
    """At most 8 times as fast: more than is published for Baselines (3.9), less than for Spinning Up (27.1)."""
    timed, counted = rows("Hopper", SMALL, 0.0, 8.0, 8.0)
    outcomes = {}
    for style in STYLES.values():
        frame = LIBRARIES_OF_THE_PAPER.of(frame_of(tmp_path / style, *of_style([timed], style), counted))
        outcomes[style] = claim_of("PPO-T2-CPU").evaluate(frame).finding.outcome
    assert outcomes == {
        "spinningup_style": Outcome.NOT_REPRODUCED,
        "ppo2_style": Outcome.NO_VERDICT,
    }


def test_mini_batches_are_compared_within_one_program(tmp_path: Path) -> None:
    """The small mini-batch was timed in one program and the large one in the other: no statement is of both."""
    small, large = (rows("Hopper", iteration, 0.0, 8.0, 8.0) for iteration in (SMALL, LARGE))
    apart = [*of_style(small, "spinningup_style"), *of_style(large, "ppo2_style"), small[1], large[1]]
    frame = frame_of(tmp_path / "apart", *apart)
    for key, bounds in (("PPO-T2-CPU", 2), ("PPO-F10", 4)):
        assert f"Of {bounds} statements" in claim_of(key).evaluate(frame).finding.explanation
    frame = frame_of(tmp_path / "both", *apart, *of_style(small, "ppo2_style"))
    assert "Of 4 statements" in claim_of("PPO-T2-CPU").evaluate(frame).finding.explanation


def test_figure_10_is_next_to_baselines_alone(tmp_path: Path) -> None:
    claim, counted = claim_of("PPO-F10"), rows("Hopper", SMALL, 0.0, 8.0, 8.0)
    programs = [*of_style(counted, "spinningup_style"), *of_style(counted, "ppo2_style")]
    frame = frame_of(tmp_path, *counted, *programs)
    assert claim.as_in_the_paper is not None
    found = claim.evaluate(claim.as_in_the_paper.of(frame)).finding
    assert [number.quantity.partition(",")[0] for number in found.ours] == ["Hopper as Baselines"] * 2


def test_a_program_keeps_its_environments_with_the_accelerator(tmp_path: Path) -> None:
    """Of 3 s in virtual time this project's environments take 1.5; the program's take 50 s with and without it."""
    timed, counted = rows("Hopper", SMALL, 50.0, 0.5, 3.7)
    frame = frame_of(tmp_path, *of_style([timed], "ppo2_style"), counted, *joined(SMALL, 3.0))
    found = claim_of("PPO-T2-CPU").evaluate(LIBRARIES_OF_THE_PAPER.of(frame)).finding
    values = {number.quantity: number.value for number in found.ours}
    name = "Hopper as Baselines, N=16, T=512, M=64: CPU and FPGA over CPU, in virtual time"
    assert values[name] == pytest.approx(54.2 / (50 + 1.5))
