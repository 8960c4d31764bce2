"""With a simulated device the same units train the same, under a clock that counts the device's own seconds.

The fake devices tell so many seconds a call that what the host measures beside them is nothing.
"""

import numpy as np
import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop import real_time, virtual_time
from placerl.harness.loop.schedule import Environments, Fusion, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.mapping.problem import INDEX_BYTES, PRIORITY_BYTES, TD_ERROR_BYTES, WEIGHT_BYTES
from placerl.harness.measure import full_speed
from placerl.harness.runtime.compose import compose
from placerl.harness.runtime.training import Training
from tests.harness.mapping.links import Links
from tests.harness.runtime.trainings import replay_training, resolved

NATIVE = Mapping.parse("native-native-cpu")
INSERT_S, SAMPLE_S, LEARN_S, UPDATE_S = 2e6, 10e6, 100e6, 5e6
WRITE_S = 20e6
ITEM_BYTES = 2 * 4 * 4 + 8 + 4 + 1  # of cart-pole: two observations, action, reward, terminated


def set_clock(monkeypatch, now_s):
    """Replace the wall clock of virtual time by a function."""
    for module in (real_time, virtual_time, full_speed):
        monkeypatch.setattr(module, "perf_counter", now_s)


def simulate(part, **seconds):
    """Have a part tell simulated seconds for calls of its methods."""
    part.simulated_s = 0.0
    for name, call_s in seconds.items():
        method = getattr(part, name)

        def timed(*arguments, method=method, call_s=call_s, **options):
            part.simulated_s += call_s
            return method(*arguments, **options)

        setattr(part, name, timed)


def training(the_workload, ahead=0, links=Links, learner=True, rmm=True, boards=2, storage="cpu", **options):
    """On fake boards, which share their names where there are fewer than simulated parts."""
    mapping = Mapping.parse(f"{'fpga' if learner else 'native'}-{'fpga' if rmm else 'native'}-{storage}")
    stepping = Environments.GYMNASIUM
    made_of = resolved(
        the_workload, NATIVE, 8, presampled_batches=ahead, fusion=Fusion.NONE, environments=stepping
    )
    parts = compose(made_of, seed=1, local_storage=256)
    if learner:
        simulate(parts.learner, step=LEARN_S)
    if rmm:
        simulate(parts.replay, insert=INSERT_S, sample=SAMPLE_S, update_priorities=UPDATE_S)
    asked = Schedule(presampled_batches=ahead, **options)
    existing = {"parts": parts, "existing": Fusion.NONE}
    made = replay_training(the_workload, mapping, schedule=asked, platform=links, **existing)
    devices = made._time._devices
    for number, name in enumerate(devices):
        devices[name] = devices[name]._replace(name=f"board {number % boards}")
    return made


@pytest.mark.parametrize(
    ("ahead", "step_s"),
    [(0, INSERT_S + SAMPLE_S + LEARN_S + UPDATE_S), (1, LEARN_S), (5, LEARN_S)],
)
def test_batches_sampled_ahead_hide_the_replay_behind_the_learner(short, ahead, step_s):
    made = training(short("cartpole-dqn"), ahead)
    made.warm_up()
    progress = made.advance(40)
    assert made.provenance is Provenance.MODELLED
    assert progress.wall_s / progress.gradient_steps == pytest.approx(step_s, rel=3e-3)  # and the last update
    assert progress.terms_s["learner"] == pytest.approx(40 * LEARN_S)
    assert progress.terms_s["sample"] == pytest.approx(40 * SAMPLE_S)
    made.close()


@pytest.mark.parametrize(("learner", "rmm"), [(True, True), (True, False), (False, True)])
def test_what_simulating_takes_is_no_part_of_the_time(short, monkeypatch, learner, rmm):
    """On a clock that only the simulation moves, for units on the host beside simulated ones too."""
    clock_s = 0.0

    def read():
        return clock_s

    set_clock(monkeypatch, read)
    made = training(short("cartpole-dqn"), learner=learner, rmm=rmm)
    told_s = learner * LEARN_S + rmm * (INSERT_S + SAMPLE_S + UPDATE_S)
    names = ["step"] * learner, ["insert", "sample", "update_priorities"] * rmm
    for part, methods in ((made.learner, names[0]), (made.replay, names[1])):
        for name in methods:
            work = getattr(part, name)

            def simulated(*arguments, work=work, **options):
                nonlocal clock_s
                clock_s += 1e9
                return work(*arguments, **options)

            setattr(part, name, simulated)
    made.warm_up()
    progress = made.advance(40)
    assert progress.wall_s / progress.gradient_steps == pytest.approx(told_s)
    made.close()


def test_units_of_one_device_work_one_after_the_other(short):
    made = training(short("cartpole-dqn"), ahead=1, boards=1)
    made.warm_up()
    progress = made.advance(40)
    whole_s = INSERT_S + SAMPLE_S + LEARN_S + UPDATE_S
    assert progress.wall_s / progress.gradient_steps == pytest.approx(whole_s, rel=1e-3)
    made.close()


def test_the_host_waits_for_a_simulated_learner(short):
    made = training(short("cartpole-dqn"), rmm=False)
    made.warm_up()
    progress = made.advance(10)
    assert progress.wall_s / progress.gradient_steps == pytest.approx(LEARN_S, rel=1e-3)
    made.close()


def test_transfers_take_the_links_time(short):
    slow = Links(lambda *_: 1e-6)
    made = training(short("cartpole-dqn"), links=lambda: slow, rmm=False)
    made.warm_up()
    batch_bytes = 8 * (ITEM_BYTES + WEIGHT_BYTES)
    weights_bytes = sum(value.nbytes for value in made.learner.parameters().values())
    progress = made.advance(10)
    step_s = LEARN_S + (batch_bytes + 8 * TD_ERROR_BYTES + weights_bytes) / 1e-6
    assert progress.wall_s / progress.gradient_steps == pytest.approx(step_s, rel=1e-3)
    made.close()


@pytest.mark.parametrize(
    ("learner", "rmm", "storage", "sent_bytes"),
    [
        (True, False, "cpu", {"learner": 8 * (ITEM_BYTES + WEIGHT_BYTES), "update": 8 * TD_ERROR_BYTES}),
        (
            True,
            False,
            "fpga",
            {
                "write": ITEM_BYTES,
                "gather": 8 * INDEX_BYTES,
                "learner": 8 * WEIGHT_BYTES,
                "update": 8 * TD_ERROR_BYTES,
            },
        ),
        (
            False,
            True,
            "cpu",
            {
                "insert": PRIORITY_BYTES,
                "gather": 8 * INDEX_BYTES,
                "learner": 8 * WEIGHT_BYTES,
                "update": 8 * TD_ERROR_BYTES,
            },
        ),
        (
            False,
            True,
            "fpga",
            {
                "insert": ITEM_BYTES + PRIORITY_BYTES,
                "learner": 8 * (ITEM_BYTES + WEIGHT_BYTES),
                "update": 8 * TD_ERROR_BYTES,
            },
        ),
        (True, True, "fpga", {"insert": ITEM_BYTES + PRIORITY_BYTES}),
    ],
)
def test_every_byte_between_host_and_board_is_counted(short, learner, rmm, storage, sent_bytes):
    """And none twice: an environment step and a gradient step of 8 transitions."""
    slow = Links(lambda source, target: 1e300 if source == target else 1e-6)
    made = training(short("cartpole-dqn"), links=lambda: slow, learner=learner, rmm=rmm, storage=storage)
    made.warm_up()
    progress = made.advance(10)
    told_s = {"insert": INSERT_S, "sample": SAMPLE_S, "update": UPDATE_S} if rmm else {}
    told_s |= {"learner": LEARN_S} if learner else {}
    for term in ("insert", "write", "sample", "gather", "learner", "update"):
        expected_s = 10 * (told_s.get(term, 0.0) + sent_bytes.get(term, 0) / 1e-6)
        assert progress.terms_s.get(term, 0.0) == pytest.approx(expected_s, rel=1e-6, abs=60.0), term
    made.close()


def writes_take(made: Training, seconds: float) -> None:
    """Have each write into the storage count as so long."""
    storage, write = made._storage, made._storage.write

    def timed(arrays, rows):
        before_s = storage.write_s
        written = write(arrays, rows)
        storage.write_s = before_s + seconds
        return written

    storage.write = timed


@pytest.mark.parametrize(("storage", "write_s"), [("cpu", WRITE_S), ("fpga", 0.0)])
def test_the_host_writes_into_its_own_storage_beside_a_simulated_replay(short, storage, write_s):
    """And not into the board's, whose link is in the insertion."""
    made = training(short("cartpole-dqn"), links=Links, learner=False, storage=storage)
    writes_take(made, WRITE_S)
    made.warm_up()
    progress = made.advance(10)
    assert progress.environment_steps == 10
    assert progress.terms_s["write"] == 10 * write_s
    # The board updates its priorities and inserts while the host writes; the last update has nothing beside it.
    expected_s = 10 * (max(write_s, UPDATE_S + INSERT_S) + SAMPLE_S) + (UPDATE_S if write_s else 0.0)
    assert progress.wall_s == pytest.approx(expected_s, rel=1e-3)
    made.close()


@pytest.mark.parametrize(
    ("storage", "gather_s"), [("cpu", WRITE_S), ("fpga", 8 * (INDEX_BYTES + ITEM_BYTES) / 1e-6)]
)
def test_gathering_takes_what_it_took_on_the_host_or_the_boards_memory(short, storage, gather_s):
    slow = Links(lambda source, target: 1e-6 if source == target else 1e300)
    made = training(short("cartpole-dqn"), links=lambda: slow, learner=False, storage=storage)
    gather = made._storage.gather

    def timed(*arguments):
        before_s = made._storage.gather_s
        batch = gather(*arguments)
        made._storage.gather_s = before_s + WRITE_S
        return batch

    made._storage.gather = timed
    made.warm_up()
    assert made.advance(10).terms_s["gather"] == pytest.approx(10 * gather_s)
    made.close()


@pytest.mark.parametrize("beside", [False, True])
def test_what_the_host_does_for_a_storage_on_the_board_is_no_part_of_the_time(short, monkeypatch, beside):
    """The clock moves by 3 s in each sampling, of which 2 s are gathering; the board gathers at its own speed."""
    clock_s = 0.0
    set_clock(monkeypatch, lambda: clock_s)
    options = {"ahead": 1, "replay_beside": True} if beside else {}
    made = training(short("cartpole-dqn"), rmm=False, storage="fpga", **options)
    assert made._storage.without_waiting
    gather, draw = made._storage.gather, made.replay.tree.sample

    def gathered(*arguments):
        nonlocal clock_s
        clock_s += 2.0
        batch = gather(*arguments)
        made._storage.gather_s += 2.0
        return batch

    def drawn(*arguments):
        nonlocal clock_s
        clock_s += 1.0
        return draw(*arguments)

    monkeypatch.setattr(made._storage, "gather", gathered)
    monkeypatch.setattr(made.replay.tree, "sample", drawn)
    made.warm_up()
    progress = made.advance(10)
    assert progress.terms_s["sample"] == pytest.approx(10.0, abs=0.1)
    assert progress.wall_s == pytest.approx(10 * LEARN_S + (0.0 if beside else 10.0), abs=1.0)
    made.close()


@pytest.mark.parametrize("overlap", [0, 4])
def test_a_simulated_learners_weights_come_over_its_link(short, overlap):
    slow = Links(lambda *pair: 1e-6 if pair == ("fpga", "cpu") else 1e300)
    made = training(short("cartpole-dqn"), links=lambda: slow, rmm=False, overlap=overlap)
    made.warm_up()
    weights_s = sum(value.nbytes for value in made.learner.parameters().values()) / 1e-6
    progress = made.advance(40)
    handed_over = 40 // max(1, overlap)
    assert progress.terms_s["publish"] == pytest.approx(handed_over * weights_s)
    errors_s = 8 * TD_ERROR_BYTES / 1e-6
    assert progress.wall_s == pytest.approx(40 * (LEARN_S + errors_s) + handed_over * weights_s, rel=1e-3)
    made.close()


@pytest.mark.parametrize(("overlap", "hidden_s"), [(0, UPDATE_S), (4, 50e6 + 0.75 * INSERT_S)])
def test_an_actor_next_to_the_learner_hides_behind_it(short, monkeypatch, overlap, hidden_s):
    """On a clock that only the actor moves."""
    clock_s = 0.0
    set_clock(monkeypatch, lambda: clock_s)
    made = training(short("cartpole-dqn"), overlap=overlap)
    collect = made._acting.collect

    def slow(steps, explore=True):
        nonlocal clock_s
        clock_s += 50e6 * steps
        return collect(steps, explore)

    made._acting.collect = slow
    made.warm_up()
    progress = made.advance(40)
    whole_s = 50e6 + INSERT_S + SAMPLE_S + LEARN_S + UPDATE_S
    assert progress.wall_s == pytest.approx(40 * (whole_s - hidden_s), rel=5e-3)
    made.close()


@pytest.mark.parametrize("options", [{}, {"ahead": 3}, {"overlap": 4}])
def test_it_trains_as_the_real_run_does(short, options):
    virtual = training(short("cartpole-dqn"), **options)
    arguments = {
        "presampled_batches": options.get("ahead", 0),
        "overlap": options.get("overlap", 0),
        "fusion": Fusion.NONE,
    }
    real = replay_training(
        short("cartpole-dqn"), NATIVE, batch_size=8, seed=1, schedule=Schedule(**arguments)
    )
    for made in (virtual, real):
        made.advance(60)
        made.close()
    assert real.provenance is Provenance.MEASURED
    assert virtual.environment_steps == real.environment_steps
    for name, value in virtual.learner.parameters().items():
        np.testing.assert_array_equal(value, real.learner.parameters()[name])


def test_processes_that_take_turns_with_the_learner_are_refused_in_virtual_time(short):
    with pytest.raises(
        UserError, match="actor processes: found 1; allowed: 0 in virtual time without overlap"
    ):
        training(short("cartpole-dqn"), processes=1)


@pytest.mark.parametrize("processes", [1, 2])
def test_actors_in_virtual_time_have_a_core_each(short, monkeypatch, processes):
    """Each environment step takes 3 s on a clock that only the environments move; a device works 1 s a step."""
    clock_s = 0.0
    set_clock(monkeypatch, lambda: clock_s)
    item = short("cartpole-dqn", actors=2)
    made = training(item, overlap=4, processes=processes)

    def slow(step):
        def stepped(action):
            nonlocal clock_s
            clock_s += 3e9
            return step(action)

        return stepped

    for unit in made._acting._units:
        for environment in closure_of(unit._work, "actor")._environments:
            monkeypatch.setattr(environment, "step", slow(environment.step))
    made.fill()
    begin_s, before, before_s = made._time.now_s(), made.environment_steps, made._acting.in_turns_s
    made.take(4)
    steps = made.environment_steps - before
    assert made._time.now_s() - begin_s == pytest.approx(3e9 * steps / processes, rel=0.2)
    assert made._acting.in_turns_s - before_s == pytest.approx(3e9 * steps * (1 - 1 / processes))
    made.close()


def closure_of(function, name):
    """Return a variable of a function's enclosing scope."""
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_fpga_learner_runs_in_virtual_time(short):
    mapping = Mapping.parse("fpga:u200-native-cpu")
    made = replay_training(short("cartpole-dqn"), mapping)
    made._loop.fill(40)
    made.gradient_steps = 1  # no need to warm up
    progress = made.advance(5)
    executable = made.learner.executable
    step_s = executable.step_cycles("full") / executable.clock_hz
    assert made.provenance is Provenance.MODELLED
    link_s = 8 * (ITEM_BYTES + WEIGHT_BYTES) / 16e9  # MAP VII-A: PCIe, 16 GB/s
    assert progress.terms_s["learner"] == pytest.approx(progress.gradient_steps * (step_s + link_s), rel=1e-6)
    assert progress.wall_s > progress.terms_s["learner"]
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_whole_mapping_on_the_fpga_trains_in_virtual_time(short):
    """Learner, replay management and storage on one board: all of a step but acting is told by its clock."""
    made = replay_training(short("cartpole-ddpg"), Mapping.parse("fpga:u200-fpga:u200-fpga:u200"))
    before = made.learner.parameters()
    made._loop.fill(40)
    made.gradient_steps = 1  # no need to warm up
    progress = made.advance(3)
    terms_s = progress.terms_s
    assert made.provenance is Provenance.MODELLED
    executable = made.learner.executable
    step_s = executable.step_cycles("full") / executable.clock_hz
    assert terms_s["learner"] >= progress.gradient_steps * step_s
    assert min(terms_s[term] for term in ("sample", "gather", "update", "insert")) > 0
    assert progress.wall_s >= sum(terms_s[term] for term in ("learner", "sample", "gather", "update"))
    assert any(np.any(value != before[name]) for name, value in made.learner.parameters().items())
    made.close()


def test_a_board_that_is_not_there_is_refused(short):
    for part, mapping in (("learner", "fpga:u999-native-cpu"), ("rmm", "native-fpga:u999-cpu")):
        with pytest.raises(UserError, match=rf"{part}: found fpga:u999; allowed: .*u200"):
            replay_training(short("cartpole-ddpg"), Mapping.parse(mapping))
