"""The estimate of a learner's memory covers what learners hold, and what does not fit is refused before it is built.

So is a run whose transitions and processes do not fit.
"""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.pieces import learners as profiled
from placerl.harness.pieces import memory
from placerl.harness.pieces.memory import check_learner, learner_bytes, require_learner
from placerl.harness.plan import predicting
from placerl.harness.platforms.available_memory import NotEnoughMemory
from placerl.harness.runtime import mapped_parts
from placerl.harness.runtime.resolve import resolve
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives import learner
from placerl.primitives.algorithms import tree
from placerl.primitives.graph.graph import plan
from placerl.primitives.learner import Learner
from placerl.primitives.learner.graph_learner import GraphLearner, step_graph
from tests.harness.runtime.short_workloads import short

NATIVE = Mapping.parse("native-native-cpu")
HELD = ("torch", "native", "reference")
ROW_BYTES = 2 * 4 * 4 + 8 + 4 + 1  # of cart-pole: two observations, action, reward, terminated
ROWS = 500 + 8  # of a short workload: its replay and a batch
MIB = 2**20
NAMES = ("cartpole-dqn", "pendulum-ddpg", "pendulum-td3", "pendulum-sac", "cartpole-ppo")


def sized(name: str, hidden: object) -> workloads.Workload:
    return workloads.override(workloads.load(name), "network.hidden", hidden, "test")


def held_bytes(made: Learner) -> int:
    """Return the bytes of the state that a learner holds, and of the programs of its kinds of gradient step."""
    if not isinstance(made, GraphLearner):
        stores = [leaf.untyped_storage() for leaf in tree.flatten(made._state).values()]
        return sum({store.data_ptr(): store.nbytes() for store in stores}.values())  # moments share one
    graphs = [step_graph(made.algorithm, made.batch_size, variant) for variant in made.algorithm.variants]
    structure = sum(leaf.untyped_storage().nbytes() for leaf in tree.flatten(made._structure).values())
    state = sum(array.nbytes for array in made.executable.state().values())
    return structure + sum(plan(graph).arena_bytes for graph in graphs) - state * (len(graphs) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2, deadline=None)
@given(hidden=st.lists(st.integers(32, 160), min_size=1, max_size=2), size=st.integers(1, 256))
def test_the_estimate_is_never_below_what_a_learner_holds(name: str, hidden: list[int], size: int) -> None:
    item = sized(name, hidden)
    for backend in HELD:
        trainee = learner.create(algorithm_of(item), backend=backend, batch_size=size)
        assert learner_bytes(item, size, backend) >= held_bytes(trainee), backend


@settings(max_examples=10, deadline=None)
@given(hidden=st.lists(st.integers(1, 2**15), min_size=1, max_size=4), size=st.integers(1, 2**20))
def test_the_estimate_grows_with_every_layer_and_with_the_batch(hidden: list[int], size: int) -> None:
    for backend in HELD:
        bytes_ = learner_bytes(sized("cartpole-dqn", hidden), size, backend)
        assert bytes_ < learner_bytes(sized("cartpole-dqn", hidden), size + 1, backend)
        assert bytes_ < learner_bytes(sized("cartpole-dqn", [hidden[0] + 1, *hidden[1:]]), size, backend)
        assert bytes_ < learner_bytes(sized("cartpole-dqn", [*hidden, 1 + hidden[-1]]), size, backend)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with 1 MB of free memory, on which building anything fails the test."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    monkeypatch.setattr(learner, "create", lambda *_, **__: pytest.fail("a learner is built"))
    return


def test_a_network_or_a_batch_that_does_not_fit_is_refused_by_its_field(little: None) -> None:
    item = sized("cartpole-dqn", [1024, 1024])
    words = r"network\.hidden: found \[1024, 1024\]; allowed: what fits 0\.0 GB of free memory; its learner needs 0"
    with pytest.raises(UserError, match=words):
        check_learner(item, 32)
    with pytest.raises(UserError, match=r"batch_size: found 100000; .* choose a smaller batch"):
        check_learner(sized("cartpole-dqn", [8]), 100_000)
    with pytest.raises(UserError, match=r"network\.kind: found nature_cnn"):
        check_learner(workloads.load("pong-dqn"), 32)
    with pytest.raises(NotEnoughMemory, match=words):
        require_learner(item, 32, "torch")


def test_nothing_that_builds_a_learner_builds_one_that_does_not_fit(
    little: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = workloads.override(sized("cartpole-dqn", [1024, 1024]), "replay.capacity", 10_000, "test")
    monkeypatch.setattr(workloads, "load", lambda name: item)
    for build in (
        lambda: mapped_parts.check(item, NATIVE),
        lambda: resolve(STRICT, item, NATIVE),
        lambda: resolve(Schedule(threads_native=True), item, NATIVE),
        lambda: predicting.loaded("cartpole-dqn", None),
        lambda: predicting.loaded("cartpole-dqn", 32),
    ):
        with pytest.raises(UserError, match=r"network\.hidden: found \[1024, 1024\]"):
            build()
    with pytest.raises(NotEnoughMemory, match=r"network\.hidden"):
        profiled.created(item, 32, NATIVE.learner)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the bytes of memory that are free."""

    def set_to(available: int) -> None:
        monkeypatch.setattr(memory, "available_bytes", lambda: available)

    return set_to


def test_bytes_are_those_of_storage_waiting_batches_and_collected_rows() -> None:
    task = short("cartpole-dqn")
    assert memory.transitions_bytes(task, 0) == ROWS * ROW_BYTES
    assert memory.transitions_bytes(task, 3) == (ROWS + 3 * 8) * ROW_BYTES
    assert memory.transitions_bytes(task, 0, 10) == (ROWS + 10) * ROW_BYTES
    assert memory.PROCESS_BYTES == 250 * MIB


def test_what_just_fits_passes_and_a_byte_less_is_refused(free: Callable[[int], None]) -> None:
    task = short("cartpole-dqn")
    free(ROWS * ROW_BYTES)
    memory.check_run(task, 0, 0)
    with pytest.raises(UserError, match=r"transitions between two insertions: found 1; allowed: what fits"):
        memory.check_run(task, 0, 0, collected_rows=1)
    free(ROWS * ROW_BYTES - 1)
    with pytest.raises(UserError, match=r"replay\.capacity: found 500; allowed: what fits 0\.0 GB"):
        memory.check_run(task, 0, 0)


def test_a_refusal_says_how_much_there_is_and_how_much_it_takes_in_gigabytes(
    free: Callable[[int], None],
) -> None:
    free(int(12.3e6))
    with pytest.raises(UserError, match=r"what fits 0\.0 GB of free memory; it needs 37\.6 GB"):
        memory.check_run(short("cartpole-dqn"), 10**8 + 4_444_000, 0)


def test_processes_and_further_learners_share_what_is_left(free: Callable[[int], None]) -> None:
    task = short("cartpole-dqn")
    free(ROWS * ROW_BYTES + 3 * memory.PROCESS_BYTES)
    memory.check_run(task, 0, processes=3)
    memory.check_run(task, 0, processes=0, learners=4)
    memory.check_run(task, 0, processes=1, learners=3)
    for processes, learners, words in (
        (4, 1, "actor processes: found 4; allowed: at most 3, for 0.8 GB of memory are left"),
        (2, 3, "actor processes: found 2; allowed: at most 1"),
        (1, 4, "actor processes: found 1; allowed: at most 0"),
        (0, 5, "learners: found 5; allowed: at most 4, for 0.8 GB"),
        (1, 5, "learners: found 5; allowed: at most 4"),
    ):
        with pytest.raises(UserError) as refused:
            memory.check_run(task, 0, processes, learners)
        assert words in str(refused.value)
