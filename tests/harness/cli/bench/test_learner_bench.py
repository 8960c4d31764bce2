"""The learner's bench: its eager baselines are right, its counts exact, and it says what was measured."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from placerl.harness import workloads
from placerl.harness.cli.bench import learner_bench
from placerl.harness.cli.bench.learner import sides
from placerl.harness.cli.bench.learner.cells import CELLS, RLTOOLS, SB3, LearnerCell, step_flops
from placerl.harness.cli.bench.learner.eager import EAGER
from placerl.harness.cli.bench.learner.limits import Limits
from placerl.harness.cli.bench.learner_bench import Peaks, Result
from placerl.harness.compare import registry
from placerl.harness.core.errors import UserError
from placerl.harness.measure.protocol import Protocol, Timing, measure
from placerl.harness.measure.statistics import Samples
from placerl.harness.pieces.learners import TrainedStart, bfloat16_products, random_batch
from placerl.harness.store.store import Store
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.learner.torch.in_place import InPlaceUpdates
from tests.harness.cli.command_line import refused

ONCE = Protocol(rounds=1, block_s=1e-6, warm_up_s=0, warm_up_calls=0)


@pytest.mark.parametrize(
    "name", ["cartpole-ddpg", "cartpole-dqn", "pendulum-td3", "pendulum-sac", "cartpole-ppo", "hopper-ppo"]
)
def test_an_eager_baseline_takes_the_same_steps(name):
    item = workloads.load(name)
    eager, ours = EAGER[item.algorithm.name](item, 32), learner.create(algorithm_of(item), batch_size=32)
    rng = np.random.default_rng(0)
    for _ in range(4):
        batch = random_batch(item, 32, rng)
        np.testing.assert_allclose(eager.step(batch), ours.step(batch).td_errors, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["cartpole-ddpg", "swimmer-ddpg", "pendulum-sac"])
def test_operations_of_a_step_are_those_that_pytorch_counts(name):
    item = workloads.load(name)
    algorithm = replace(algorithm_of(item), updates=InPlaceUpdates())
    generator = torch.Generator().manual_seed(0)
    state = algorithm.initialise(generator)
    batch = {key: torch.zeros(shape, dtype=dtype) for key, (shape, dtype) in algorithm.columns(4).items()}
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        algorithm.gradient_step(state, batch, algorithm.draw(4, generator))
    assert step_flops(item, 4) == counter.get_total_flops()


def test_a_delayed_policy_counts_for_its_share_of_the_steps():
    item = workloads.load("pendulum-td3")
    always = workloads.override(item, "algorithm.policy_delay", 1, "test")
    never = workloads.override(item, "algorithm.policy_delay", 10**6, "test")
    assert step_flops(item, 4) == pytest.approx((step_flops(always, 4) + step_flops(never, 4)) / 2)


@pytest.mark.parametrize("name", ["cartpole-ddpg", "cartpole-ppo", "pendulum-td3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_side_of_a_cell_passes_its_check(name, threads):
    cases = list(sides.sides(LearnerCell(name, name, 32, peers=()), threads, compiled=False))
    timings = measure(cases, ONCE)
    assert {"eager", "pure", "tuned", "native", "native (null)", "native[bfloat16]"} <= timings.keys()
    assert ("native (1 thread)" in timings) == (threads > 1)
    assert not {side: timing.reason for side, timing in timings.items() if timing.status == "failed"}


def test_the_fast_forms_of_pytorch_also_flush_subnormal_numbers(monkeypatch):
    """The native learner always does; unless PyTorch's fastest form may, a trained state slows PyTorch alone."""
    cell = LearnerCell("cartpole-ddpg", "cartpole-ddpg", 32, peers=())
    names = [case.name for case in sides.sides(cell, 1, compiled=True)]
    forms = {"eager", "pure", "tuned", "tuned, flushed", "compiled", "compiled, flushed"}
    assert set(sides.PYTORCH) == forms <= set(names)
    (flushed,) = [case for case in sides.sides(cell, 1, compiled=True) if case.name == "compiled, flushed"]
    product = []

    class Multiplies:
        def step(self, _):
            product.append(float(torch.tensor(1e-30) * torch.tensor(1e-10)))

    if torch.set_flush_denormal(False):
        flushed.call(Multiplies(), {})
        Multiplies().step({})
        assert product[0] == 0 < product[1]
    monkeypatch.setattr(torch, "set_flush_denormal", lambda on: False)
    with pytest.raises(RuntimeError, match="cannot flush"):
        flushed.call(Multiplies(), {})


@pytest.mark.parametrize("name", ["cartpole-ddpg", "cartpole-ppo"])
def test_sides_start_from_a_trained_state_on_its_batches(name):
    cell = LearnerCell(name, name, 32, peers=(SB3,))
    start = learner_bench.train(cell.item, 30, cell.batch_size)
    assert start.steps >= 30
    cases = {case.name: case for case in sides.sides(cell, 1, compiled=False, start=start)}
    assert {"tuned", "tuned, flushed", "native", "native[bfloat16]"} <= set(cases)
    assert not {"eager", SB3} & set(cases), "they take no state of this project"
    made = cases["native"].setup()
    for leaf, value in made.state_dict().items():
        np.testing.assert_array_equal(value, start.state[leaf], err_msg=leaf)
    given = cases["native"].inputs(made, np.random.default_rng(0))
    rows = {row.tobytes() for row in start.columns["observation"]}
    assert {row.tobytes() for row in given["observation"]} <= rows
    timings = measure(list(cases.values()), ONCE)
    assert not {side: timing.reason for side, timing in timings.items() if timing.status == "failed"}
    assert np.float32(1e-30) * np.float32(1e-10) > 0, "the process keeps its own mode"


def test_trained_states_leave_out_whole_updates_and_name_them(capsys):
    step = LearnerCell("step", "hopper-ppo", 32)
    update = LearnerCell("update", "hopper-ppo", 32, whole_update=True)
    assert learner_bench._with_trained_state([step, update]) == [step]
    assert "left out: update" in capsys.readouterr().err
    with pytest.raises(UserError, match="--trained"):
        learner_bench._with_trained_state([update])


def test_an_update_is_all_its_minibatches():
    settings = (("training.actors", 2), ("algorithm.trajectory_length", 64), ("algorithm.epochs", 3))
    cell = LearnerCell("update", "hopper-ppo", 32, peers=(), settings=settings, whole_update=True)
    assert (cell.samples, cell.steps) == (128, 12)
    assert cell.flops == 12 * step_flops(cell.item, 32)
    (native,) = [case for case in sides.sides(cell, 1, compiled=False) if case.name == "native"]
    made = native.setup()
    native.call(made, native.inputs(made, np.random.default_rng(0)))
    assert made.gradient_steps == 12


def test_every_shipped_cell_can_be_built():
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    for cell in CELLS:
        assert cell.samples >= cell.batch_size
        assert cell.steps >= 1
        assert not cell.whole_update or cell.steps == 40


LEARNER = """
VERSION, NOTE = "fake 1", "a fake"

class Learner:
    def __init__(self, workload, batch_size, threads):
        if workload["name"] != "cartpole-ddpg":
            raise ValueError("cannot do " + workload["name"])
        self.steps, self.size, self.threads = 0, batch_size, threads

    def checksum(self):
        return float(self.steps)

    def time_steps(self, count):
        self.steps += count
        return count * self.size * self.threads * 1e-6

create = Learner
"""


@pytest.fixture
def peer(tmp_path, monkeypatch):
    folder = tmp_path / "fake"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (folder / "learner.py").write_text(LEARNER)
    monkeypatch.setattr(registry, "BASELINES", tmp_path)
    return folder


def _peer_timing(name):
    cell = LearnerCell(name, name, 32, peers=("fake",))
    (case,) = [case for case in sides.sides(cell, 2, compiled=False) if case.name == "fake"]
    return measure([case], replace(ONCE, block_s=1e-3, rounds=5))["fake"]


def test_a_peer_is_timed_in_its_own_process(peer):
    timing = _peer_timing("cartpole-ddpg")
    assert timing.reason == ""
    assert timing.samples_s == pytest.approx([64e-6] * 5)


def test_a_peer_that_cannot_do_a_cell_says_so(peer):
    timing = _peer_timing("cartpole-dqn")
    assert timing.status == "failed"
    assert "cannot do cartpole-dqn" in timing.reason


def test_a_peer_that_does_not_learn_is_not_timed(peer):
    broken = LEARNER.replace("return float(self.steps)", "return 0.0")
    (peer / "learner.py").write_text(broken)
    timing = _peer_timing("cartpole-ddpg")
    assert timing.status == "failed"
    assert "its steps change nothing" in timing.reason


def test_a_peer_without_its_environment_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "BASELINES", tmp_path)
    timing = _peer_timing("cartpole-ddpg")
    assert "needs its environment, which --build makes" in timing.reason


def timing(name, seconds, rounds=20):
    samples = Samples(np.full(rounds, seconds), np.zeros(rounds))
    return Timing(name, "ok", "", samples, seconds, seconds, seconds, rounds=tuple(range(rounds)))


TIMINGS = {
    "eager": timing("eager", 4e-3),
    "tuned": timing("tuned", 2e-3),
    "native": timing("native", 1e-3),
    "native (null)": timing("native (null)", 1e-3),
    "opencl": Timing("opencl", "failed", "check: no device"),
    "rltools": timing("rltools", 0.5e-3),
}
CELL = LearnerCell("a cell", "cartpole-ddpg", 32, target=1.5, peers=(RLTOOLS,))
LIMITS = Limits(0.9e-3, {"matrix products": 0.6e-3, "reductions": 0.3e-3}, 10, 50.0)


def rows(more=None, threads=1, bfloat16=0.0):
    return learner_bench.rows_of(CELL, threads, TIMINGS | (more or {}), Peaks(100.0, bfloat16), LIMITS)


def result(*arguments, **options):
    (found,) = Result.each([CELL], rows(*arguments, **options))
    return found


def share(found, side):
    return found.rows[side].share_of_peak


def test_a_result_compares_with_the_best_of_pytorch_and_with_peers():
    found = result()
    assert found.best_pytorch == "tuned"
    assert found.against("native", "tuned").value == 2
    assert found.against("eager", "tuned").value == 0.5
    assert found.against("opencl", "tuned") is None
    best, peer, null = found.verdicts()
    assert best == "2.00x tuned [2.00, 2.00] (target 1.5x: met)"
    assert peer == "0.50x rltools [0.50, 0.50] (target 1x: MISSED)"
    assert null.startswith("native against itself 1.00x")
    flops = step_flops(workloads.load("cartpole-ddpg"), 32)
    assert share(found, "native") == pytest.approx(flops * 1000 / 100e9)


def test_the_native_learner_has_as_many_threads_as_the_others_and_one_beside():
    found = result()
    doubled = result({"native (1 thread)": timing("native (1 thread)", 1.5e-3)}, threads=2)
    threads = {side: row.threads for side, row in doubled.rows.items()}
    assert [threads[side] for side in ("native", "native (null)", "tuned")] == [2, 2, 2]
    assert threads["native (1 thread)"] == 1
    assert doubled.threads == 2
    assert share(doubled, "native") == pytest.approx(share(found, "native") / 2)
    assert share(doubled, "native (1 thread)") == pytest.approx(share(found, "native") / 1.5)
    assert "1.50x one thread [1.50, 1.50]" in doubled.verdicts()
    assert "products at 50 GFLOP/s, 25% of the peak" in doubled.note(LIMITS)
    assert not [text for text in doubled.verdicts() if "target" in text]


def test_a_side_in_bfloat16_has_a_roof_of_its_own():
    both = {"native[bfloat16]": timing("native[bfloat16]", 0.5e-3)}
    assert share(result(both), "native[bfloat16]") is None
    rounded = result(both, bfloat16=400.0)
    assert share(rounded, "native[bfloat16]") == pytest.approx(share(result(), "native") / 2)
    assert "in bfloat16 2.00x float32 [2.00, 2.00]" in rounded.verdicts()
    assert rounded.rows["native[bfloat16]"].peak_gflops_per_core == 400
    assert rounded.rows["native"].peak_gflops_per_core == 100


def test_a_table_and_the_rows_say_what_limits_the_native_learner():
    stored = rows(bfloat16=400.0)
    text = learner_bench.table([CELL], stored)
    assert f"float32 100 GFLOP/s, bfloat16 ({bfloat16_products()}) 400 GFLOP/s." in text
    assert "check: no device" in text
    assert "matrix products 60%, reductions 30%, the call, draws and cooled caches 10%" in text
    assert "products at 50 GFLOP/s, 50% of the peak" in text
    bound = 1 / share(result(), "tuned")
    assert (
        f"the products' arithmetic alone would, at the peak of as many cores, be {bound:.2f}x tuned" in text
    )
    by_side = {row.backend: row for row in stored}
    assert by_side["native"].verdicts == result().verdicts()
    assert by_side["opencl"].status == "failed"
    assert {row.threads for row in stored} == {1}
    json.dumps([row.to_json() for row in stored])


def test_trained_rows_state_the_steps_that_were_taken(monkeypatch):
    """The training may take more steps than were asked for: those of PPO come by the iteration."""
    assert "gradient steps of a real training" not in learner_bench.table([CELL], rows())
    start = TrainedStart(2048, {}, {})
    monkeypatch.setattr(learner_bench, "train", lambda item, steps, size: start if steps == 2000 else None)
    monkeypatch.setattr(learner_bench, "sides", lambda *_, **__: [])
    monkeypatch.setattr(learner_bench, "measure", lambda *_: dict(TIMINGS))
    monkeypatch.setattr(learner_bench, "limits", lambda *_: LIMITS)
    made = learner_bench.run_cell(CELL, 1, 5, compiled=False, peaks=Peaks(100.0), trained_steps=2000)
    assert {row.trained_steps for row in made} == {2048}
    assert "Timed after 2,048 gradient steps of a real training." in learner_bench.table([CELL], made)


@pytest.mark.slow
def test_the_command_stores_what_it_measures(placerl, tmp_path):
    arguments = ["--cells", "CartPole-DDPG 8-8, B=32", "--no-compile", "--rounds", "5", "--threads", "1"]
    folders = ["--out", str(tmp_path / "out"), "--results", str(tmp_path)]
    assert placerl("bench", "learner", *arguments, *folders).status == 0
    assert "CartPole-DDPG 8-8, B=32" in (tmp_path / "out" / "table.md").read_text()
    (path,) = tmp_path.glob("*.sqlite")
    with Store.open(path, read_only=True) as store:
        rows = {row.backend: row for row in store.measurements(suite="bench-learner")}
    assert rows["native"].value > 0
    fastest = tuple(f"x {name}" for name in sides.PYTORCH)  # which one it is depends on the machine
    assert rows["native"].limits.endswith(fastest)


@pytest.mark.parametrize(
    "arguments", [["--cells", "no such cell"], ["--rounds", "4"], ["--threads", "0"]], ids=str
)
def test_a_wrong_option_is_refused(placerl, arguments, tmp_path):
    refused(placerl("bench", "learner", *arguments, "--results", str(tmp_path)), arguments[0])
    assert not list(tmp_path.iterdir())
