"""The mapping that the composer chooses for a program, from given times and from measured ones."""

import re
from types import SimpleNamespace

import pytest
import torch

from placerl.harness import platforms
from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import STRICT, Schedule
from placerl.harness.mapping import Mapping
from placerl.harness.pieces import learners
from placerl.harness.runtime import choice, program
from placerl.harness.runtime.program import Settings
from placerl.primitives import learner, sum_tree
from tests.harness.runtime.test_program import FIRST, SHORT, Sides, act, step

NAMES = ("learner.step", "sum_tree.sample", "sum_tree.update", "sum_tree.insert")


def backend(name, **other):
    return SimpleNamespace(**{"name": name, "available": True, "simulated": False} | other)


@pytest.fixture(autouse=True)
def not_trained(monkeypatch):
    """A training that only keeps its mapping."""
    monkeypatch.setattr(
        program, "OwnTraining", lambda resolved, **_: SimpleNamespace(mapping=resolved.mapping)
    )


@pytest.fixture
def given(monkeypatch):
    """Two learners and two trees that take given seconds, None for what fails, on MAP's host."""
    backends = [backend("reference"), backend("native"), backend("torch"), backend("fpga", simulated=True)]
    trees = [backend("native"), backend("flat"), backend("binary"), backend("cuda", available=False)]
    monkeypatch.setattr(learner, "backends", lambda: backends)
    monkeypatch.setattr(sum_tree, "backends", lambda: trees)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(choice, "of_this_machine", lambda: platforms.load("map-tpds23"))
    asked = []

    def use(**seconds):
        def measure(cases, protocol):
            found = {}
            for case in cases:
                asked.append(case.name)
                primitive, _, target = case.name.removeprefix("fresh_").partition(" ")
                time_s = seconds.get(f"{target}_{primitive.split('.')[0]}", 1e-6)
                found[case.name] = SimpleNamespace(
                    median_s=time_s, low_s=None, high_s=None, reason="" if time_s else f"{target} broke"
                )
            return found

        monkeypatch.setattr(choice, "measure", measure)
        return asked

    return use


def composed(options=STRICT, **settings):
    return program.compose(
        Sides, FIRST, step, act, settings=Settings(learning_starts=100, **settings), schedule=options
    )


def test_the_fastest_learner_and_replay_are_chosen_and_the_user_is_told_why(given, capsys):
    asked = given(torch_learner=1e-3, native_learner=5e-3, flat_sum_tree=1e-5, native_sum_tree=2e-5)
    training = composed()
    assert training.mapping == Mapping.parse("torch-flat-cpu")
    (said,) = capsys.readouterr().err.splitlines()
    pattern = (
        r"program: chose torch-flat-cpu, for which PRL's composer predicts (\d+) gradient steps/s, (1\.\d\d) times the "
        r"(\d+) of torch-native-cpu; the longest part of a step is learner, 1,000\.0 us"
    )
    found = re.fullmatch(pattern, said)
    assert found, said
    best, times, second = map(float, found.groups())
    assert times == pytest.approx(best / second, abs=0.01)
    assert {name.partition(" ")[2] for name in asked} == {"native", "torch", "flat", ""}, (
        "no reference, no simulation"
    )


def test_the_choice_for_a_program_is_what_compose_takes_and_has_an_interval(given, capsys):
    given(torch_learner=1e-3, native_learner=5e-3, flat_sum_tree=1e-5, native_sum_tree=2e-5)
    mine = program.Program(Sides, FIRST, step, act, Settings(learning_starts=100))
    found = mine.choose().answer()
    training = composed()
    assert Mapping.parse(found.mapping) == training.mapping == Mapping.parse("torch-flat-cpu")
    (said,) = capsys.readouterr().err.splitlines()
    assert str(found) == said.removeprefix("program: "), "the choice itself prints nothing"
    assert found.strategy == "pearl24"
    assert found.runner_up.mapping == "torch-native-cpu"
    assert found.low_gps == found.gps == found.high_gps, "the given times have no interval"


def test_the_interval_of_a_choice_has_the_slow_and_the_fast_ends_of_all_times(given, monkeypatch):
    given()
    exact = choice.measure

    def within_a_quarter(cases, protocol):
        found = exact(cases, protocol)
        for timing in found.values():
            timing.low_s, timing.high_s = 0.8 * timing.median_s, 1.25 * timing.median_s
        return found

    monkeypatch.setattr(choice, "measure", within_a_quarter)
    found = program.Program(Sides, FIRST, step, act, Settings(learning_starts=100)).choose().answer()
    for rate in (found, found.runner_up):
        assert rate.low_gps < rate.gps < rate.high_gps
        assert rate.gps / rate.low_gps == pytest.approx(1.25, rel=0.05)
        assert rate.high_gps / rate.gps == pytest.approx(1.25, rel=0.05)


def test_what_cannot_run_the_program_is_left_out_with_its_reason(given, capsys):
    given(torch_learner=None, native_learner=5e-3)
    training = composed()
    assert str(training.mapping).startswith("native-")
    assert "program: without learner.step on torch: torch broke" in capsys.readouterr().err


def test_a_program_that_nothing_runs_is_an_error_with_the_reasons(given):
    given(torch_learner=None, native_learner=None)
    with pytest.raises(UserError, match=r"learner\.step on native: native broke"):
        composed()


def test_a_uniform_replay_needs_no_tree(given):
    asked = given()
    training = composed(prioritized=False)
    assert str(training.mapping) == "native-native-cpu"
    assert "sum_tree.sample uniform" in asked
    assert not any(name.startswith("sum_tree") and not name.endswith("uniform") for name in asked)


def test_learners_are_timed_with_the_threads_that_they_will_have(given, monkeypatch):
    given()
    timed, seen = choice.measure, []
    monkeypatch.setattr(learners, "created", lambda *arguments: seen.append(arguments[-1]))

    def measure(cases, protocol):
        cases = list(cases)
        for case in cases:
            if "learner" in case.name:
                case.setup()
        seen.append(protocol.threads)
        return timed(cases, protocol)

    monkeypatch.setattr(choice, "measure", measure)
    for threads in (1, 2):
        composed(Schedule(threads=threads))
        assert set(seen) == {threads}, "also where PyTorch would take all cores"
        seen.clear()


def test_a_given_mapping_is_taken_without_measuring(monkeypatch):
    monkeypatch.setattr(program, "choose", lambda *_: pytest.fail("it was given"))
    training = program.compose(Sides, FIRST, step, act, mapping="native-native-cpu", settings=SHORT)
    assert str(training.mapping) == "native-native-cpu"


def test_every_part_is_checked_and_timed_here(monkeypatch):
    monkeypatch.setattr(learner, "backends", lambda: [backend("native")])
    monkeypatch.setattr(sum_tree, "backends", lambda: [backend("native")])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(choice, "of_this_machine", lambda: platforms.load("map-tpds23"))
    monkeypatch.setattr(choice, "ROUNDS", 5)
    kept = []
    monkeypatch.setattr(program, "choose", lambda *asked: kept.append(choice.choose(*asked)) or kept[-1])
    composed()
    (found,) = kept
    assert (str(found.prediction.mapping), found.others, found.left_out) == ("native-native-cpu", (), {})
    assert {name for name, _ in found.prediction.cells} == set(NAMES)
    assert found.prediction.gps > 0
