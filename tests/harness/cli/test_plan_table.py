"""The plan that is printed before the main job, and `placerl reproduce --plan`."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from placerl.harness import cli
from placerl.harness.cli import plan_table
from placerl.harness.compare import registry
from placerl.harness.plan import plan
from placerl.harness.plan.tiers import TIERS, Tier
from placerl.harness.platforms.machine import Machine
from placerl.harness.store.cell import Cell

TINY = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=60, experiment_s=60, run_s=120, compare_s=30, seeds=2)


def cell(key: str, estimate_s: float) -> Cell:
    return Cell(key, estimate_s, lambda run, report: [])


CELLS = [cell("run/a/32/seed0", 120), cell("run/a/32/seed1", 120), cell("claim/X", 60)]


def test_the_time_to_go_is_that_of_what_is_not_finished() -> None:
    assert plan_table.to_go_s(CELLS, set()) == 300
    assert plan_table.to_go_s(CELLS, {"run/a/32/seed1", "claim/X"}) == 120


def test_the_plan_names_what_it_measures_and_how_long_that_takes() -> None:
    written = io.StringIO()
    plan_table.show_plan(Console(file=written, width=100), TINY, CELLS, {"run/a/32/seed0"})
    lines = written.getvalue().splitlines()
    (run,) = (line for line in lines if "run a" in line)
    assert [word for word in run.split() if word[0].isdigit()] == ["2", "1", "2.0"]
    assert "3 cells, 1 finished before (--fresh measures them again), about 3 minutes to go." in lines[-1]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(540, "9 minutes"), (7100, "118 minutes"), (7200, "2.0 hours"), (10**6, "11.6 days")],
)
def test_times_are_told_in_a_readable_unit(seconds: float, words: str) -> None:
    assert plan_table.duration(seconds) == words


def test_what_is_left_out_is_named_with_its_reason() -> None:
    cpu = {
        "model": "",
        "architecture": "",
        "physical_cores": 1,
        "logical_cores": 1,
        "usable_cores": 1,
        "simd_level": "",
        "vector_flags": (),
        "highest_mhz": None,
        "caches": (),
        "memory_bytes": 1,
    }
    backends = (
        {"primitive": "sum_tree", "name": "cuda", "available": False, "reason": "CuPy is not installed"},
        {"primitive": "sum_tree", "name": "native", "available": True, "reason": ""},
    )
    meters = ({"name": "RAPL", "readable": False, "reason": "not offered"},)
    fields = {"fingerprint": "f", "system": "", "versions": {}, "problems": (), "links": ()}
    machine = Machine(cpu=cpu, accelerators=(), backends=backends, power=meters, **fields)
    assert list(plan_table.left_out(machine)) == [
        "everything on a CUDA device: no such device",
        "sum_tree on cuda: CuPy is not installed",
        "watts: RAPL: not offered",
    ]


def test_plan_alone_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = str(tmp_path / "results")
    monkeypatch.setattr("sys.argv", ["placerl", "reproduce", "--plan", "--json", "--results", results])
    with pytest.raises(SystemExit) as stopped:
        cli.run_app()
    assert not stopped.value.code
    told = json.loads(capsys.readouterr().out)
    expected = plan.plan(TIERS["quick"])
    assert [c["key"] for c in told["cells"]] == [c.key for c in expected]
    assert told["to_go_s"] == sum(c.estimate_s for c in expected)
    assert not any(c["finished"] for c in told["cells"])
    assert list(tmp_path.iterdir()) == []


def test_the_standard_tier_takes_about_two_hours_and_twenty_minutes_and_runs_every_mapping() -> None:
    cells = plan.plan(TIERS["standard"])
    assert 120 * 60 < sum(c.estimate_s for c in cells) < 145 * 60
    assert {c.key.split("/")[0] for c in cells} >= {
        "roofs",
        "profile",
        "run",
        "compare",
        "claim",
        "validation",
    }


def test_the_full_tier_has_every_shipped_workload_and_its_own_batch_sizes() -> None:
    keys = {c.key for c in plan.plan(TIERS["full"])}
    assert {"profile/ant-sac/2048", "profile/halfcheetah-ddpg/512", "profile/pong-ppo/128"} <= keys
    assert "run/humanoid-ppo/512/seed4" in keys
    assert set(TIERS["full"].baselines) <= set(registry.baseline_names())
