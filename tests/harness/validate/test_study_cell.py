"""What is timed in a cell of the study, with a clock on which every piece and every training takes a millisecond."""

import pytest
import torch

from placerl.harness import platforms, workloads
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Loop, Mapping, Target
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.measure.timed_case import Timing
from placerl.harness.profile import simulated
from placerl.harness.validate import piece_times, study_cell, tried
from placerl.harness.validate.space import MORE_ACTORS, Decision, Setting
from placerl.harness.validate.study import OURS, StudiedCell, study
from placerl.harness.validate.study_cell import FewCores, MeasuredCell
from placerl.harness.validate.study_file import FinalRounds, Search, StudyFile
from placerl.harness.validate.study_summary import choice_part, results, summary
from tests.harness.validate.achieved import unmoved

DQN = workloads.override(workloads.load("cartpole-dqn"), "replay.capacity", 4096, "test")
PPO = workloads.load("cartpole-ppo")
PLATFORM = platforms.load("map-tpds23")
MAPPINGS = ("native-native-cpu", "torch-native-cpu", "native-flat-cpu", "native[bfloat16]-native-cpu")
PARTS = (
    "prepare",
    "collect",
    "insert",
    "write",
    "sample",
    "gather",
    "learn",
    "update",
    "runtime",
    "steps",
    "publish",
    "request",
    "receive",
)
ROUNDS = 6


@pytest.fixture
def timed(monkeypatch):
    """The names of the cases of each call of `measure`, which times nothing."""
    calls = []
    monkeypatch.setattr(study_cell, "set_blas_threads", lambda threads: None)

    def measured(cases, protocol, progress, narrow):
        calls.append({case.name: case for case in cases})
        names = [f"{case.name}{part}" for case in cases for part in ("", *(f": {part}" for part in PARTS))]
        samples, numbers = unmoved(*[1e-3] * ROUNDS), tuple(range(ROUNDS))
        return {
            name: Timing(
                name, "ok", "", samples, 1e-3, 1e-3, 1e-3, 1, numbers, {}, samples.values.tolist(), numbers
            )
            for name in names
        }

    monkeypatch.setattr(study_cell.measure, "measure", measured)
    monkeypatch.setattr(tried, "mappings", lambda *_: list(map(Mapping.parse, MAPPINGS)))
    return calls


@pytest.fixture
def cell(timed):
    measured_cell = MeasuredCell(DQN, 32, 2, PLATFORM)
    measured_cell.profile(1.0, silent)
    yield measured_cell
    measured_cell.close()


def test_every_choice_of_the_space_is_predicted(cell):
    lacking = [str(choice) for choice in cell.choices if cell.predict(choice) is None]
    assert not lacking
    assert len({choice.setting for choice in cell.choices}) == 4


def test_pieces_of_a_setting_are_those_that_its_choices_need(cell, timed):
    (pieces,) = timed
    own = [name for name in pieces if name.startswith("1 threads, 1 actors")]
    more = [name for name in pieces if name.startswith(f"2 threads, {MORE_ACTORS} actors")]
    assert not [name for name in pieces if "fpga" in name or "fresh" in name or "binary" in name]
    assert any(name.endswith("round of replay flat") for name in own)
    assert any("learner.step torch" in name for name in own)
    assert any(name.endswith("round of learner torch") for name in more)
    assert any(name.endswith("round of replay native") for name in more)
    assert not [name for name in more if "flat" in name or "opencl" in name or "learner.step" in name]


def test_the_papers_strategies_choose_under_their_own_loop_in_float32(cell):
    found = cell.strategies()
    assert set(found) >= {"map-tpds23", "pearl24", "pal21", "primitive-sum", "exhaustive"}
    assert not {"composed-loop", "relaxed-loop"} & set(found), "they are this project's"
    choice = found["map-tpds23"]
    assert (choice.loop, choice.threads, choice.actors) == (Loop.RELAXED, 1, 1)
    assert choice.ahead > 0
    for one in found.values():
        assert isinstance(one, str) or one.mapping.learner.precision == "float32"


class Run:
    """A training that takes a millisecond a step, and notes what it is asked for."""

    gradient_steps, simulated = 10, False

    def __init__(self):
        self.calls, self.threads, self.closed = [], [], False

    def block(self, calls):
        self.calls.append(calls)
        self.threads.append(torch.get_num_threads())
        return calls * self.gradient_steps * 1e-3

    def close(self):
        self.closed = True


def test_a_turn_is_as_long_as_it_was_asked_for_with_the_choice_s_threads(cell, monkeypatch):
    made = []
    monkeypatch.setattr(cell, "_started", lambda choice: made.append(Run()) or made[-1])
    before = torch.get_num_threads()
    try:
        choice = next(one for one in cell.choices if one.threads == 2 and one.loop is Loop.FUSED)
        expected_s = Run.gradient_steps / cell.predict(choice).gps
        assert cell.turn(choice, 3 * expected_s) == pytest.approx(1000)
        assert cell.turn(choice, 1e-9) == pytest.approx(1000)
        (run,) = made
        assert (run.calls, run.threads) == ([3, 1], [2, 2])
        cell.close()
        assert run.closed
    finally:
        torch.set_num_threads(before)


def test_what_waits_for_the_learner_is_not_kept_between_turns_if_it_is_large(cell, monkeypatch):
    made = []
    monkeypatch.setattr(cell, "_started", lambda choice: made.append(Run()) or made[-1])
    deep = next(one for one in cell.choices if one.ahead > 2)
    monkeypatch.setattr(study_cell, "KEPT_BYTES", 1)
    cell.turn(deep, 1e-3)
    cell.turn(deep, 1e-3)
    assert [run.closed for run in made] == [True, True]


def test_a_choice_that_fails_says_why_and_takes_no_further_turn(cell, monkeypatch):
    def broken(choice):
        raise OSError("no such device")

    monkeypatch.setattr(cell, "_started", broken)
    choice = cell.choices[0]
    assert cell.turn(choice, 1e-3) is None
    assert cell.failures == {choice: "OSError: no such device"}
    assert cell.turn(choice, 1e-3) is None


@pytest.mark.parametrize("ends", [True, False])
def test_a_training_that_fails_in_its_turn_is_closed_though_its_end_may_fail_too(cell, monkeypatch, ends):
    class Broken(Run):
        def block(self, calls):
            raise OSError("no such device")

        def close(self):
            super().close()
            if not ends:
                raise OSError("nor to end it")

    run = Broken()
    monkeypatch.setattr(cell, "_started", lambda choice: run)
    choice = cell.choices[0]
    assert cell.turn(choice, 1e-3) is None
    assert run.closed
    assert cell.failures == {choice: "OSError: no such device"}


def test_a_final_pairs_each_training_with_the_pieces_of_its_rounds(cell, timed, monkeypatch):
    plain = Decision(Mapping.parse("native-native-cpu"))
    torch_on = Decision(Mapping.parse("torch-native-cpu"))
    made = cell._training

    def training(choice, runs):
        runs["run"] = Run()
        return made(choice, {})

    monkeypatch.setattr(cell, "_training", training)
    beside = [choice for choice in cell.choices if choice.processes and choice.mapping == plain.mapping]
    found = cell.finals([plain, torch_on, *beside], 1.0, silent)
    assert all(len(found[choice].errors) == ROUNDS for choice in beside)
    names = set(timed[-1])
    assert {str(plain), str(torch_on)} <= names
    assert any("fused round native" in name for name in names)
    assert not any("flat" in name for name in names), "no finalist needs it"
    # A call of 10 gradient steps takes a millisecond.
    assert found[plain].rates == dict.fromkeys(range(ROUNDS), pytest.approx(1e4))
    # Predicted from pieces of a millisecond each: collection, insertion, fused steps, the loop.
    assert found[plain].errors == (pytest.approx(1 / 4e-3 / 1e4 - 1),) * ROUNDS


def test_a_final_that_was_killed_goes_on_after_its_last_round(cell, timed, monkeypatch, tmp_path):
    choices = [Decision(Mapping.parse(text)) for text in MAPPINGS[:2]]
    file = StudyFile(tmp_path / "study.json", {"cell": "one"})
    file.begin_final(Search(cell.tables, {}, {}))
    made, whole = cell._training, study_cell.measure.measure

    def training(choice, runs):
        runs["run"] = Run()
        return made(choice, {})

    def killed(cases, protocol, progress, narrow):
        names = [case.name for case in cases]
        for done in (1, 2):
            narrow({name: dict.fromkeys(range(done), 2e-3) for name in names}, dict.fromkeys(names, 0.0), 1.0)
        raise KeyboardInterrupt

    def measured(cases, protocol, progress, narrow):
        asked.append(protocol)
        return whole(cases, protocol, progress, narrow)

    asked = []
    monkeypatch.setattr(cell, "_training", training)
    monkeypatch.setattr(study_cell.measure, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        cell.finals(choices, 1.0, silent, file)
    monkeypatch.setattr(study_cell.measure, "measure", measured)
    found = cell.finals(choices, 1.0, silent, file)
    (protocol,) = asked
    assert protocol.rounds == piece_times.PROTOCOL.rounds - 2
    assert 0 < protocol.budget_s < 1
    # The first two rounds were half as fast.
    assert found[choices[0]].rates == pytest.approx(
        {0: 5e3, 1: 5e3} | dict.fromkeys(range(2, 2 + ROUNDS), 1e4)
    )
    assert StudyFile(file.path, {"cell": "another"}).rounds() == FinalRounds()


def test_a_cell_with_the_simulated_device_predicts_its_choices_from_its_cycles_too(timed, monkeypatch):
    monkeypatch.setattr(
        tried, "mappings", lambda *_: [Mapping.parse("fpga-native-cpu"), Mapping.parse("native-fpga-cpu")]
    )
    here = simulated.with_device(platforms.of_this_machine(), piece_times.BOARD)
    measured_cell = MeasuredCell(DQN, 32, 2, here, simulated=True)
    try:
        measured_cell.profile(1.0, silent)
        (pieces,) = timed
        assert any(name.endswith("round of learner fpga") for name in pieces)
        predictions = [measured_cell.predict(choice) for choice in measured_cell.choices]
        assert len(predictions) == 6
        assert all(predictions)
        assert all(prediction.provenance is not Provenance.MEASURED for prediction in predictions)
        row = StudiedCell("cartpole-dqn", 32, 2).row(
            "placerl", measured_cell.choices[0], quantity="regret", value=0.0
        )
        assert row.provenance is Provenance.MODELLED
    finally:
        measured_cell.close()


def test_on_policy_actors_in_processes_have_their_own_pieces(timed):
    measured_cell = MeasuredCell(PPO, 32, 2, PLATFORM)
    try:
        measured_cell.profile(1.0, silent)
        assert {choice.setting for choice in measured_cell.choices} == {
            Setting(threads, 8, processes) for threads in (1, 2) for processes in (0, 2)
        }
        assert all(measured_cell.predict(choice) for choice in measured_cell.choices)
        (pieces,) = timed
        assert [name for name in pieces if "8 actors, 2 processes: iteration of learner native" in name]
        one = next(choice for choice in measured_cell.choices if choice.processes)
        cells = measured_cell.predict(one).cells
        assert ("iteration.collect", one.mapping.learner) in cells
        assert ("round.collect", one.mapping.learner) not in cells
        assert all(isinstance(why, str) for why in measured_cell.strategies().values())
    finally:
        measured_cell.close()


def test_a_platform_of_fewer_cores_is_the_same_otherwise():
    few = FewCores(PLATFORM, 1)
    assert (few.name, few.cpu_cores) == (PLATFORM.name, 1)
    assert few.bytes_per_s("fpga", "cpu") == PLATFORM.bytes_per_s("fpga", "cpu")
    assert few.latency_s("fpga", "cpu") == PLATFORM.latency_s("fpga", "cpu")


@pytest.mark.slow
def test_a_small_cell_is_studied_for_real(monkeypatch):
    """Some choices on one core: all run, all are predicted, and strategies that choose are judged."""
    monkeypatch.setattr(tried, "mappings", lambda *_: list(map(Mapping.parse, MAPPINGS)))
    monkeypatch.setattr(study_cell, "COMPARED_ONLY", (*COMPARED_ONLY, "flat", "opencl"))
    measured_cell = MeasuredCell(DQN, 32, 1, platforms.of_this_machine())
    kept = ("native-native-cpu", "torch-native-cpu")
    measured_cell.choices = [
        choice
        for choice in measured_cell.choices
        if str(choice.mapping) in kept and choice.actors == 1 and choice.loop in (Loop.FUSED, Loop.STRICT)
    ]
    try:
        rows = study(StudiedCell("cartpole-dqn", 32, 1), measured_cell, 0.0)
    finally:
        measured_cell.close()
    (cell,) = results(rows)
    assert cell.failed == 0
    assert 0 <= cell.regrets[OURS].value < 1
    assert {"map-tpds23", "pearl24", "primitive-sum"} <= set(cell.regrets)
    assert "native" in {choice_part(row, "learner") for row in cell.predictions}
    assert max(abs(row.error) for row in cell.predictions) < 3, "of the same order at least"
    assert len(summary([cell])) <= 40


@pytest.mark.parametrize(
    ("item", "learner", "threads"),
    [(PPO, "native", (1, 1)), (PPO, "torch", (2, 1)), (DQN, "native", (2, 2)), (DQN, "torch", (2, 2))],
)
def test_a_choice_has_the_threads_of_its_training(timed, monkeypatch, item, learner, threads):
    """On-policy, PyTorch and NumPy run only small forward passes for another learner."""
    asked = []
    monkeypatch.setattr(study_cell, "set_threads", lambda *found: asked.append(found))
    measured_cell = MeasuredCell(item, 32, 2, PLATFORM)
    try:
        measured_cell._set_threads(2, Target(learner))
    finally:
        measured_cell.close()
    assert asked == [threads]
