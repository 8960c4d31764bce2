import dis
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness import claims, ppo_iterations, reproduce, simulated_profile, starting, workload
from harness.available_memory import NotEnoughMemory
from harness.errors import UserError
from harness.measurement import Measurement
from harness.progress import Report, silent
from harness.provenance import Provenance
from harness.reproduce import Cell
from harness.starting import RLLIB, TRAINED
from harness.store import Run, Store
from harness.tiers import TIERS, Tier
from tests.harness.claims.rows import claim_of

MACHINE = {"fingerprint": "here"}
TINY = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=1, run_s=1, compare_s=1, seeds=2)


def row(value: float) -> Measurement:
    return Measurement(
        suite="test",
        primitive="nothing",
        quantity="value",
        unit="1",
        provenance=Provenance.MEASURED,
        value=value,
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store.open(tmp_path / "store.sqlite").begin_run("tiny", "revision", MACHINE)


def test_the_plan_profiles_before_it_predicts_and_predicts_before_it_trains() -> None:
    keys = [cell.key for cell in reproduce.plan(TINY)]
    assert keys == [
        "roofs/machine",
        "profile/cartpole-dqn/32",
        "prediction/cartpole-dqn/32",
        "simulated/cartpole-dqn/32/fpga:u200",
        "run/cartpole-dqn/32/seed0",
        "run/cartpole-dqn/32/seed1",
        "compare/cartpole-dqn/sb3",
        "claim/PAL-F9",
        "claim/PAL-VI-H-layout",
        "claim/PAL-F9-locks",
        "claim/MAP-F12-threads",
        "claim/MAP-T5",
        "claim/FIX-F10",
    ]


def test_one_paper_or_claim_asks_for_the_cells_that_it_reads_alone() -> None:
    cells = reproduce.plan(TIERS["quick"])

    def keys(only: str) -> list[str]:
        return [cell.key for cell in reproduce.needed(cells, claims.claims(only))]

    assert all(key.startswith("claim/FIX-") for key in keys("FIX"))
    assert {key.split("/")[1] for key in keys("FIX")} == {"FIX-F7", "FIX-F7-sweep", "FIX-F8", "FIX-F10"}
    assert keys("FIX-F9") == ["claim/FIX-F8"]
    assert keys("FIX-T1") == []
    assert {key.split("/")[1] for key in keys("MAP-F10")} == {"MAP-F10"}
    assert "claim/PAL-F9" in keys("PAL")
    assert {key.split("/")[1] for key in keys("MAP") if key.startswith("claim/")} == {
        "MAP-F10",
        "MAP-F12-threads",
        "MAP-T5",
    }
    assert keys("MAP-T5") == ["claim/MAP-T5"]
    assert keys("PAL-F9") == ["claim/PAL-F9", "claim/PAL-F9-locks"]
    assert keys("PAL-F9-fanout") == ["claim/PAL-F9"]
    assert keys("PAL-F9-locks") == ["claim/PAL-F9-locks"]
    assert keys("PAL-VI-H-layout") == ["claim/PAL-VI-H-layout"]
    assert keys("MAP-F12-threads") == ["claim/MAP-F12-threads"]
    assert keys("MAP-F13-hidden") == [f"profile/hopper-ddpg/{size}" for size in (32, 256, 2048)]
    for none in ("MAP-T6", "PPO-T1", "PPO-2.4", "PRL-T4", "PAL-F11", "PRL-T3-reallocation"):
        assert keys(none) == [], none
    with pytest.raises(UserError, match="--only: found 'FOX'; allowed: MAP, PAL"):
        keys("FOX")


def test_a_run_brings_the_prediction_that_names_its_mapping_and_no_other() -> None:
    cells = [cell for cell in reproduce.plan(TIERS["quick"]) if "hopper" in cell.key]
    (chosen,) = (cell.key for cell in cells if cell.key.startswith("run/"))
    size = chosen.split("/")[2]
    before = [f"profile/hopper-ddpg/{size}", f"prediction/hopper-ddpg/{size}"]
    assert [cell.key for cell in reproduce.needed(cells, claims.claims("MAP-T7"))] == [*before, chosen]
    assert [cell.key for cell in reproduce.needed(cells, claims.claims("PRL-T3-same-hardware"))] == [
        *before,
        "compare/hopper-ddpg/sb3",
    ]


@pytest.mark.parametrize("name", TIERS)
def test_what_a_cell_needs_stands_before_it(name: str) -> None:
    seen: set[str] = set()
    for cell in reproduce.plan(TIERS[name]):
        assert seen.issuperset(cell.needs), cell.key
        assert bool(cell.needs) == cell.key.startswith(("prediction/", "run/", "compare/")), cell.key
        seen.add(cell.key)


@pytest.mark.parametrize(
    ("key", "at_least", "expected"),
    [
        ("PAL-F9", "quick", "quick"),
        ("PAL-F9", "full", "full"),
        ("PAL-F8", "quick", "standard"),
        ("PAL-F10", "quick", "standard"),
        ("PRL-F9", "quick", "standard"),
        ("PPO-F11", "quick", "standard"),
        ("PPO-F12", "quick", "standard"),
        ("MAP-F11-Pong", "quick", "full"),
        ("PPO-F12", "full", "full"),
        ("PPO-F12", "one of an earlier revision", "standard"),
        ("FIX-T1", "standard", "standard"),  # nothing to measure in any
    ],
)
def test_a_claim_s_tier_is_the_first_that_measures_anything_for_it(
    key: str, at_least: str, expected: str
) -> None:
    assert reproduce.tier_for(claim_of(key), at_least) == expected


@pytest.mark.parametrize(("name", "lines"), [("quick", ()), ("standard", RLLIB), ("full", RLLIB)])
def test_a_workload_is_compared_with_the_line_of_rllib_that_has_its_algorithm(
    name: str, lines: tuple[str, ...]
) -> None:
    """MAP and PAL compare with RLlib's DDPG, which the newest line no longer has.

    Whether a line has the environment, too, is seen when it runs: 2.6.3 says that it has no Hopper-v5.
    """
    planned = {cell.key for cell in reproduce.plan(TIERS[name])}
    for item in map(workload.load, TIERS[name].workloads):
        of = {line for line in RLLIB if f"compare/{item.name}/{line}" in planned}
        expected = "rllib_2_6_3" if item.algorithm.name in ("ddpg", "td3") else "rllib"
        assert of == ({expected} if lines else set()), item.name
        assert f"compare/{item.name}/sb3" in planned


@pytest.mark.parametrize("line", RLLIB)
def test_the_plan_knows_what_a_line_s_worker_trains(line: str) -> None:
    source = (starting.BASELINES / line / "worker.py").read_text(encoding="utf-8")
    (kinds,) = re.findall(r"^ +kinds = \{(.*)\}$", source, re.MULTILINE)
    assert set(re.findall(r'"(\w+)":', kinds)) == set(TRAINED[line])


@pytest.mark.parametrize("name", TIERS)
def test_no_cell_of_a_tier_has_another_ones_key(name: str) -> None:
    keys = [cell.key for cell in reproduce.plan(TIERS[name])]
    assert len(set(keys)) == len(keys)


def reads_rows(cell: Cell) -> bool:
    """Whether its code uses the run that it is given."""
    code = cell.measure.__code__
    return any(instruction.argval == code.co_varnames[0] for instruction in dis.get_instructions(code))


@pytest.mark.parametrize("name", TIERS)
def test_a_cell_that_reads_others_rows_is_of_their_chain(name: str) -> None:
    """Without, a cluster measures it somewhere else, and without their rows."""
    cells = reproduce.plan(TIERS[name])
    reading = {cell.key.partition("/")[0]: cell.chain for cell in cells if reads_rows(cell)}
    assert {"prediction", "run", "compare", "validation"} >= reading.keys() >= {"prediction", "run"}
    assert "validation" in reading or not any(cell.key.startswith("validation/") for cell in cells)
    for cell in cells:
        if reads_rows(cell):
            assert cell.chain == cell.key.split("/")[1], f"{cell.key}: its workload's"


@pytest.mark.parametrize(("built", "minutes"), [(True, 9), (False, 10)])
def test_the_quick_tier_fits_into_ten_minutes(
    built: bool, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated_profile, "is_built", lambda: built)
    monkeypatch.setattr(ppo_iterations, "is_counted", lambda *_: built)
    cells = reproduce.plan(TIERS["quick"])
    assert sum(cell.estimate_s for cell in cells) < minutes * 60
    simulated_s = sum(
        cell.estimate_s for cell in cells if cell.key.startswith(("simulated", "claim/FIX-F10"))
    )
    assert not built or simulated_s < 90


def test_a_finished_cell_is_not_measured_again(run: Run) -> None:
    calls = []

    def measure(run: Run, report: Report) -> list[Measurement]:
        calls.append(1)
        return [row(1.0)]

    for _ in range(2):
        reproduce.execute(run, [Cell("a", 1, measure)], silent)
    assert len(calls) == 1


def test_a_cell_that_raises_is_stored_the_rest_goes_on_and_it_is_due_again(run: Run) -> None:
    def broken(run: Run, report: Report) -> list[Measurement]:
        raise RuntimeError("the disk is on fire")

    cells = [Cell("run/a", 1, broken), Cell("run/b", 1, lambda run, report: [row(2.0)])]
    reproduce.execute(run, cells, silent)
    failed, fine = run.measurements()
    assert (failed.status, failed.value) == ("failed", None)
    assert "the disk is on fire" in failed.reason
    assert fine.value == 2.0

    mended = [replace(cells[0], measure=lambda run, report: [row(1.0)]), cells[1]]
    reproduce.execute(run, mended, silent)
    assert [item.value for item in run.measurements()] == [None, 2.0, 1.0]


def test_a_cell_that_the_memory_does_not_hold_is_not_run_and_not_tried_again(run: Run) -> None:
    tried: list[str] = []

    def measure(*_: object) -> list[Measurement]:
        tried.append("once")
        raise NotEnoughMemory("needs 4.28 GB of memory; allowed: 0.07 GB")

    for _ in range(2):
        reproduce.execute(run, [Cell("claim/large", 1, measure)], silent)
    (row,) = run.measurements()
    assert (row.status, row.value, row.reason) == (
        "not_run",
        None,
        "needs 4.28 GB of memory; allowed: 0.07 GB",
    )
    assert tried == ["once"]


@pytest.mark.parametrize("provenance", Provenance)
def test_a_failure_is_of_the_kind_that_the_cell_would_have_told(provenance: Provenance, run: Run) -> None:
    def broken(run: Run, report: Report) -> list[Measurement]:
        raise RuntimeError("no hardware")

    reproduce.execute(run, [Cell("profile/a", 1, broken, provenance=provenance)], silent)
    (failed,) = run.measurements()
    assert (failed.status, failed.provenance) == ("failed", provenance)


def test_simulated_and_modelled_cells_say_so() -> None:
    item = workload.load("cartpole-dqn")
    assert reproduce.profile_cell(item, 32, TINY).provenance is Provenance.MEASURED
    assert reproduce.simulated_cell(item, 32, "fpga:u200").provenance is Provenance.SIMULATED
    assert reproduce.prediction_cell(item, 32).provenance is Provenance.MODELLED
    assert reproduce.simulated_prediction_cell(item, 32, "fpga:u200").provenance is Provenance.MODELLED
    assert reproduce.claim_cell("MAP-T5", TINY).provenance is Provenance.MODELLED


SCRIPT = """
import sys
from harness import reproduce
from harness.progress import silent
from harness.store import Store
from harness.tiers import Tier

tier = Tier("tiny", ("cartpole-dqn",), (32,), profile_s=1, run_s=1, compare_s=1, seeds=2)
run = Store.open(sys.argv[1]).begin_run("tiny", "revision", {"fingerprint": "here"})
print("begun", flush=True)
cells = [cell for cell in reproduce.plan(tier) if not cell.key.startswith(("compare", "simulated", "claim/FIX"))]
reproduce.execute(run, cells, silent)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_any_moment_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    finished: dict[str, str] = {}
    for delay_s in (0.5, 2.5, 4.0, None):  # the last one is left to end by itself
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        if delay_s is None:
            assert process.wait(600) == 0
        else:
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
            process.wait()
        with Store.open(path) as store:
            (record,) = store.runs()
            frame = store.frame(run=record.id)
            now = dict(zip(frame["cell"], frame["finished_at"], strict=True))
            assert now.items() >= finished.items(), "a finished cell was lost or measured again"
            assert set(now) == set(store.cells(record.id)), "a cell without its rows"
            finished = now
    assert list(finished) == [
        "roofs/machine",
        "profile/cartpole-dqn/32",
        "prediction/cartpole-dqn/32",
        "run/cartpole-dqn/32/seed0",
        "run/cartpole-dqn/32/seed1",
        "claim/PAL-F9",
        "claim/PAL-VI-H-layout",
        "claim/PAL-F9-locks",
        "claim/MAP-F12-threads",
        "claim/MAP-T5",
    ]
    # What a machine may lack: a meter, or a second core for two threads and for PAL's split.
    rest = frame[(frame["quantity"] != "throughput_per_watt") & (frame["cell"] != "claim/MAP-F12-threads")]
    rest = rest[~rest["reason"].str.startswith("needs: cores: found 1")]
    assert set(rest["status"]) <= {"ok", "too_noisy"}, rest["reason"].unique()
