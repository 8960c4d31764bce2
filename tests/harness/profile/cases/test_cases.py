from types import SimpleNamespace

import numpy as np
import pytest

from placerl.harness import workloads
from placerl.harness.mapping import Mapping, Target
from placerl.harness.measure.conditions import usable_cores
from placerl.harness.measure.protocol import Protocol, measure
from placerl.harness.pieces.base import LARGEST_BLOCK_BYTES, block_rows, options_of, targets
from placerl.harness.pieces.storage import AT_ONCE, fitted, storing_devices
from placerl.harness.platforms import available_memory
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.profile import cases
from placerl.harness.profile.cases import PrimitiveCase
from placerl.harness.profile.cases.learners import learner_cases
from placerl.harness.runtime import resident
from placerl.harness.runtime.compose import storage_of
from placerl.harness.workloads import Workload
from placerl.harness.workloads.task import item_bytes
from placerl.primitives.backend import BackendStatus


@pytest.fixture(scope="module")
def small() -> Workload:
    """The DQN workload with a replay that fills in no time."""
    return workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 3000, "test")


@pytest.fixture(scope="module")
def small_cases(small: Workload) -> list[PrimitiveCase]:
    return cases.all_cases(small, batch_size=32)


def test_every_primitive_passes_its_own_check_and_is_timed(small_cases: list[PrimitiveCase]) -> None:
    timings = measure(cases.distinct(small_cases), Protocol(rounds=1, block_s=1e-5, warm_up_s=0))
    failed = {name: timing.reason for name, timing in timings.items() if timing.status == "failed"}
    assert not failed
    assert {item.primitive for item in small_cases} == {
        "sum_tree.sample",
        "sum_tree.update",
        "sum_tree.insert",
        "storage.gather",
        "storage.insert",
        "learner.step",
        "fresh_learner.step",
        "actor.infer",
        "environment.step",
        "round.collect",
        "round.insert",
        "round.sample",
        "round.learn",
        "round.update",
        *(f"cold_round.{part}" for part in ("collect", "insert", "sample", "learn", "update", "runtime")),
        *(
            f"concurrent_round.{part}"
            for part in ("collect", "learn", "sample", "update")
            if len(usable_cores()) > 1
        ),
        *(
            f"resident_round.{part}"
            for storage in storing_devices()
            for part in ("collect", "steps", "runtime")
            if storage.backend in resident.BACKENDS
        ),
        *(f"beside_learner.{part}" for part in ("insert", "sample", "update", "runtime")),
        *(f"beside_replay.{part}" for part in ("collect", "learn", "runtime")),
        "fused_round.collect",
        "fused_round.insert",
        "fused_round.steps",
        *(f"native_round.{part}" for part in ("collect", "insert", "steps", "runtime")),
        "round.runtime",
        "fused_round.runtime",
        *(
            f"learner.step in {streams} streams"
            for storage in storing_devices()
            for streams in (2, 4)
            if storage.backend == "opencl"
        ),
        *(
            f"{storage}_{rounds}.{part}"
            for storage in storing_devices()
            for rounds in ("round", "apart_round")
            for part in ("collect", "insert", "sample", "learn", "update")
        ),
    }


def test_a_wait_for_a_core_is_part_of_the_times_of_devices_alone(small_cases: list[PrimitiveCase]) -> None:
    """Rounds, which are timed in parts, have both (`Recorder`)."""
    whole = [one for one in small_cases if not one.part]
    assert [one.case.name for one in whole if one.case.elsewhere != (not one.target.on_host)] == []
    assert any(one.case.elsewhere for one in whole) == bool(storing_devices())


def case(items: list[PrimitiveCase], name: str) -> PrimitiveCase:
    return next(item for item in items if item.case.name == name)


def test_a_tree_that_answers_wrongly_fails_its_check(small_cases: list[PrimitiveCase]) -> None:
    chosen = case(small_cases, "sum_tree.sample native").case
    tree = chosen.setup()
    chosen.check(tree)

    class OffByOne:
        capacity, total, get = tree.capacity, tree.total, staticmethod(tree.get)

        def find(self, prefix: np.ndarray) -> np.ndarray:
            return np.minimum(tree.find(prefix) + 1, self.capacity - 1)

    with pytest.raises(AssertionError, match="find"):
        chosen.check(OffByOne())


def test_a_learner_with_wrong_td_errors_fails_its_check(small_cases: list[PrimitiveCase]) -> None:
    chosen = case(small_cases, "learner.step torch").case
    made = chosen.setup()

    class Doubled:
        def __getattr__(self, name: str) -> object:
            return getattr(made, name)

        def step(self, batch: dict[str, np.ndarray], weights: np.ndarray | None) -> object:
            outcome = made.step(batch, weights)
            return outcome._replace(td_errors=2 * outcome.td_errors)

    with pytest.raises(AssertionError, match="TD errors"):
        chosen.check(Doubled())


def test_a_fused_step_of_another_learning_problem_fails_its_check(small_cases: list[PrimitiveCase]) -> None:
    chosen = case(small_cases, "fused round native").case
    made = chosen.setup()
    chosen.check(made)

    class Nothing:
        def run(self, steps: int, rng: np.random.Generator) -> None:
            """Draws, trains and updates nothing."""

        def drain(self) -> None:
            """Has nothing on its way."""

    made.loop.units.steps = Nothing()
    with pytest.raises(AssertionError, match="TD errors"):
        chosen.check(made)


def test_the_parts_of_a_round_are_timed_apart(small_cases: list[PrimitiveCase]) -> None:
    chosen = case(small_cases, "round of replay native")
    made = chosen.case.setup()
    made.run()
    parts = made.taken()
    assert set(parts) == {"collect", "insert", "sample", "learn", "update", "runtime"}
    assert all(piece.seconds > 0 for pieces in parts.values() for piece in pieces)
    rounds = len(parts["learn"])
    assert all(sum(piece.calls for piece in pieces) == pytest.approx(rounds) for pieces in parts.values())
    assert made.taken() == {}


@pytest.mark.parametrize("name", ["cartpole-ddpg", "ant-td3", "ant-sac"])
def test_the_definition_of_td_errors_holds_for_every_algorithm_with_replay(name: str) -> None:
    item = workloads.load(name)
    steps = [it for it in cases.learner_cases(item, batch_size=8) if it.primitive == "learner.step"]
    assert steps
    for step in steps:
        step.case.check(step.case.setup())


def test_every_piece_of_uniform_and_of_on_policy_training_passes_its_check() -> None:
    uniform = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 3000, "test")
    uniform = workloads.override(uniform, "replay.prioritized", False, "test")
    for item, size in ((uniform, 32), (workloads.load("cartpole-ppo"), 64)):
        made = cases.piece_cases(item, size)
        timings = measure(cases.distinct(made), Protocol(rounds=1, block_s=1e-5, warm_up_s=0))
        assert not {name: t.reason for name, t in timings.items() if t.status == "failed"}
        assert {"round.collect", "round.learn"} <= {one.primitive for one in made}


def test_inputs_are_fresh_for_every_call(small_cases: list[PrimitiveCase]) -> None:
    chosen = case(small_cases, "sum_tree.update native").case
    tree, rng = chosen.setup(), np.random.default_rng(0)
    first, second = chosen.inputs(tree, rng), chosen.inputs(tree, rng)
    assert not np.array_equal(first[0], second[0])


def test_a_cuda_device_is_a_target_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = [
        BackendStatus("reference", True, ""),
        BackendStatus("native", True, ""),
        BackendStatus("torch", True, ""),
        BackendStatus("opencl", False, "not installed"),
    ]
    for there, expected in ((False, ["native", "torch"]), (True, ["native", "torch", "torch:cuda"])):
        monkeypatch.setattr("torch.cuda.is_available", lambda there=there: there)
        found = targets(statuses, "torch")
        assert [str(target) for target in found] == expected
    assert options_of(found[-1]) == {"backend": "torch", "device": "cuda"}


def test_an_act_that_runs_in_numpy_is_not_timed_as_the_native_one(small_cases: list[PrimitiveCase]) -> None:
    (infer,) = [
        item for item in small_cases if item.primitive == "actor.infer" and item.target.backend == "native"
    ]
    with pytest.raises(AssertionError, match=r"its act runs in NumPy: sort"):
        infer.case.check(SimpleNamespace(acting_refusal="sort at policy.py:3"))


def allow(monkeypatch: pytest.MonkeyPatch, allowed_bytes: int) -> None:
    monkeypatch.setattr(available_memory, "measurement_bytes", lambda: allowed_bytes)


def test_a_replay_that_the_memory_does_not_hold_is_cut_and_the_rows_say_so(
    small: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    row_bytes = item_bytes(small)
    assert row_bytes == 2 * 4 * 4 + 8 + 4 + 1
    allow(monkeypatch, AT_ONCE * 3000 * row_bytes)
    assert fitted(small) is small
    assert not any("replay_capacity" in one.columns for one in cases.all_cases(small, 32))
    allow(monkeypatch, AT_ONCE * 3000 * row_bytes - AT_ONCE)
    cut = fitted(small).replay.capacity
    assert cut == 2**17 // row_bytes < 3000, "the largest power of two of bytes"
    told = {one.primitive: one.columns.get("replay_capacity") for one in cases.all_cases(small, 32)}
    assert {told[name] for name in ("storage.gather", "storage.insert", "round.sample")} == {cut}
    assert {told[name] for name in ("sum_tree.sample", "learner.step")} == {None}, "they hold no transitions"


def test_a_large_replay_is_cut_where_memory_abounds(monkeypatch: pytest.MonkeyPatch) -> None:
    allow(monkeypatch, 10**12)
    pong = workloads.load("pong-dqn")
    assert item_bytes(pong) == 2 * 4 * 84 * 84 + 8 + 4 + 1, "frames are bytes"
    assert fitted(pong).replay.capacity == 2**28 // item_bytes(pong)


def test_a_replay_is_not_cut_below_the_batches_that_are_sampled_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allow(monkeypatch, 10**12)
    ahead = workloads.override(workloads.load("pong-dqn"), "training.presampled_batches", 199, "test")
    needed = 200 * ahead.training.batch_size
    assert fitted(ahead).replay.capacity == needed > 2**28 // item_bytes(ahead)


def test_batches_that_the_memory_does_not_hold_are_refused(
    small: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = max(small.training.learning_starts, *small.training.batch_sizes)
    allow(monkeypatch, AT_ONCE * needed * item_bytes(small))
    assert fitted(small).replay.capacity >= needed
    allow(monkeypatch, AT_ONCE * needed * item_bytes(small) - 1)
    with pytest.raises(NotEnoughMemory, match="GB of memory; allowed: "):
        cases.all_cases(small, 32)


def test_a_storage_is_filled_in_blocks_of_few_bytes(small: Workload) -> None:
    cpu = Mapping.parse("native-native-cpu")
    assert block_rows(storage_of(small, cpu)) == 3000
    pong = workloads.override(workloads.load("pong-dqn"), "replay.capacity", 1000, "test")
    assert block_rows(storage_of(pong, cpu)) == LARGEST_BLOCK_BYTES // item_bytes(pong) < 1000


def test_only_what_is_asked_for_is_profiled_in_fixed_point(
    small: Workload, small_cases: list[PrimitiveCase]
) -> None:
    asked = cases.all_cases(small, 32, ("float32", "fixed32"))
    added = [one for one in asked if one.target.precision != "float32"]
    assert [one.case.name for one in asked if one not in added] == [one.case.name for one in small_cases]
    assert {str(one.target) for one in added} >= {"native[fixed32]", "torch[fixed32]"}
    ours = {one.primitive for one in added if one.target == Target("native", precision="fixed32")}
    floats = {one.primitive for one in small_cases if str(one.target) == "torch"}
    fused = {"fused_round.collect", "fused_round.steps"}
    assert ours - fused == floats - {"sum_tree.sample"}, (
        "every piece that a learner which is not native needs"
    )
    assert fused <= ours


@pytest.mark.parametrize("precision", ["fixed32", "dynamic"])
def test_a_learner_in_fixed_point_passes_its_checks_and_one_that_differs_by_a_bit_does_not(
    small: Workload, precision: str
) -> None:
    target = Target("native", precision=precision)
    step, _, infer = (one.case for one in learner_cases(small, 32, (precision,)) if one.target == target)
    for chosen in (step, infer):
        chosen.check(chosen.setup())
    made = step.setup()
    assert made.quantised == (precision == "dynamic"), "what is timed comes after the delay"
    leaf = next(name for name in made.fixed.state_buffers if name.endswith("0.weight"))
    right = made.step

    def wrong(*arguments):
        outcome = right(*arguments)
        made.fixed._state[leaf].array[0] += 1
        return outcome

    made.step = wrong
    with pytest.raises(AssertionError, match=leaf):
        step.check(made)
    acting = infer.setup()
    acting._act = lambda observation: np.zeros(len(observation), np.int64) - 1
    with pytest.raises(AssertionError, match="action"):
        infer.check(acting)
