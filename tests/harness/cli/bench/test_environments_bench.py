"""The benchmark of environments: what it times is checked, what it stores has its reason, and verdicts follow goals."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placerl.harness.cli.bench import environment_cases, environments_bench
from placerl.harness.cli.bench.environment_cases import Recording, Stepping
from placerl.harness.cli.bench.environments_bench import EnvironmentResult
from placerl.harness.compare import registry
from placerl.harness.compare.protocol import Worker, WorkerFailure
from placerl.harness.measure.protocol import measure
from placerl.harness.measure.timed_case import Protocol, Timing
from placerl.harness.store.store import Store
from placerl.primitives import environments
from tests.harness.cli.command_line import Placerl


def test_cart_poles_are_timed_and_stored(placerl: Placerl, tmp_path: Path) -> None:
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    options = ["--rounds", "5", "--environments", "CartPole-v1", "--count", "32"]
    outcome = placerl("bench", "environments", *folders, *options)
    assert outcome.status == 0, outcome
    text = (tmp_path / "out" / "table.md").read_text()
    assert text in outcome.out
    assert "| CartPole-v1 | 32 |" in text
    with Store.open(tmp_path / "placerl.sqlite", read_only=True) as store:
        measurements = {m.backend: m for m in store.measurements(suite="bench-environments")}
    assert {"native", "Gymnasium", "EnvPool", "PufferLib", "sines alone"} == set(measurements)
    assert measurements["native"].status in ("ok", "too_noisy"), measurements["native"]
    for name, reason_of in environments_bench.OTHERS.items():
        assert (measurements[name].status == "not_run") == bool(reason_of("CartPole-v1"))


def test_mj_step_alone_repeats_the_recorded_run() -> None:
    if reason := environments.unavailable_reason("Hopper-v5"):
        pytest.skip(reason)
    stepping = Stepping("Hopper-v5", 3, 4)
    recording = Recording.of(stepping, 80)
    assert recording.over.sum() == len(recording.starts) > 3
    for case in environment_cases.repeated_cases(stepping, recording):
        case.check(case.setup())
    recording.last[0, 0] = np.nextafter(recording.last[0, 0], np.inf)
    with pytest.raises(AssertionError, match="other states"):
        case.check(case.setup())


MOVING = """
import numpy as np

VERSION, NOTE = "moving 1", "nothing"


class Moving:
    def __init__(self, count, rewards):
        self.at, self.rewards = np.zeros((count, 4)), np.zeros(rewards)

    def draw(self, rng):
        return rng.random(self.at.shape)

    def step(self, actions):
        self.at += actions
        return self.at, self.rewards


def create(id, count):
    return Moving(count, count if id == "CartPole-v1" else 1)
"""


def test_another_librarys_environments_are_timed_by_their_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "BASELINES", tmp_path)
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path(sys.executable))
    (tmp_path / "pufferlib").mkdir()
    (tmp_path / "pufferlib" / "environment.py").write_text(MOVING)
    assert environment_cases.pufferlib_reason("CartPole-v1") == ""
    case = environment_cases.pufferlib_case(Stepping("CartPole-v1", 8, 2))
    (found,) = measure([case], Protocol(rounds=5)).values()
    assert found.status in ("ok", "too_noisy"), found
    assert found.median_s is not None
    assert found.median_s > 0
    # One that gives rewards of another number of environments is no vector of them.
    with pytest.raises(WorkerFailure, match="rewards of another number"):
        environment_cases.pufferlib_case(Stepping("Pendulum-v1", 8, 2)).setup()


class Clockwork(Worker):
    """A worker without a process, which reports 0.1 ms for each vector step."""

    def __init__(self) -> None:
        pass

    def ask_json(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        return {"wall_s": request["calls"] * 1e-4}

    def close(self, grace_s: float = 0.0) -> int:
        return 0


def test_the_seconds_of_a_call_are_those_that_the_other_process_read() -> None:
    case = replace(environment_cases.pufferlib_case(Stepping("CartPole-v1", 8, 3)), setup=Clockwork)
    (found,) = measure([case], Protocol(rounds=5)).values()
    assert found.median_s == pytest.approx(3e-4)


def test_environments_that_are_not_built_have_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path("/nowhere"))
    assert "--build makes" in environment_cases.pufferlib_reason("CartPole-v1")
    assert "is not built" in environment_cases.pufferlib_reason("Acrobot-v1")
    names = [case.name for case in environments_bench.cases(Stepping("CartPole-v1", 2, 1))]
    assert "PufferLib" not in names
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path(sys.executable))
    names = [case.name for case in environments_bench.cases(Stepping("CartPole-v1", 2, 1))]
    assert "PufferLib" in names


def row(timing: Timing) -> EnvironmentResult:
    (found,) = environments_bench.rows_of(Stepping("CartPole-v1", 50, 2), {timing.name: timing})[:1]
    return found


def test_verdicts_compare_with_the_goals() -> None:
    timed = Timing("native", "ok", "", median_s=0.5, low_s=0.25, high_s=1.0)
    assert environments_bench.rate(row(timed)) == (200, 100, 400)
    assert environments_bench.rate(row(Timing("native", "failed", "why"))) is None
    for rate, said in (
        ((6e7, 5e7, 7e7), "met"),
        ((6e7, 4.9e7, 7e7), "no verdict: 120% of the goal"),
        ((4e7, 3e7, 5e7), "no verdict: 80% of the goal"),
        ((4e7, 3e7, 4.9e7), "missed: 80% of the goal"),
    ):
        assert environments_bench.verdict("CartPole-v1", {"native": rate}) == ("50 million/s", said)
    for bare, said in (
        ((100.0, 99.0, 100.5), "met"),  # 96 of at most 100.5 is more than 95%
        ((100.0, 99.0, 102.0), "no verdict: 101% of the goal"),
        ((110.0, 100.0, 120.0), "no verdict: 92% of the goal"),
        ((110.0, 102.0, 120.0), "missed: 92% of the goal"),
    ):
        rates = {"native": (96.0, 96.0, 96.0), "mj_step alone": bare}
        assert environments_bench.verdict("Ant-v5", rates) == ("95% of mj_step alone", said)
    rates = {"native": (4e7, 3e7, 4.9e7), "sines alone": (8e7, 8e7, 8e7)}
    words = "missed: 80% of the goal, where sines alone reach 160%"
    assert environments_bench.verdict("CartPole-v1", rates) == ("50 million/s", words)
    assert environments_bench.verdict("Ant-v5", {"native": None}) == ("-", "not measured")


def test_a_native_environment_that_is_not_gymnasiums_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    stepping = Stepping("MountainCar-v0", 2, 1)
    environment_cases.check_against_gymnasium(stepping)
    monkeypatch.setattr(
        "gymnasium.envs.classic_control.mountain_car.MountainCarEnv.step",
        lambda env, action: (np.zeros(2, np.float32), -1.0, False, False, {}),
    )
    with pytest.raises(AssertionError, match="observations differ"):
        environment_cases.check_against_gymnasium(stepping)
