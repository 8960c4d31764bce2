"""Rounds of training that are timed in parts: how many rounds a call runs, and which of them are timed."""

import pytest

from placerl.harness.loop import recorder
from placerl.harness.loop.nothing import Nothing
from placerl.harness.loop.recorder import Recorder
from placerl.harness.loop.training_loop import Shape, Traffic, TrainingLoop
from placerl.harness.profile.cases import rounds as rounds_module
from placerl.harness.profile.cases.rounds import FIRST_ROUNDS, SHORT_ROUND_S, STRETCH_S, TIMED_EVERY, Round
from tests.harness.profile.cases.host_clock import HostClock


@pytest.fixture(autouse=True)
def host(monkeypatch):
    clock = HostClock()
    for module in (recorder, rounds_module):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


class Counting(Nothing):
    """Parts that count their calls; a gradient step takes a given time."""

    def __init__(self, host, step_s=0.0):
        super().__init__()
        self.steps, self.taken, self._host, self._step_s = 0, [], host, step_s

    def step(self, *_):
        self.steps += 1
        self._host.now_s += self._step_s
        return super().step()

    def take(self, gradient_steps):
        self.taken.append(gradient_steps)


def round_of(host, step_s, cold=False, gradient_steps=1):
    parts, clock = Counting(host, step_s), Recorder()
    loop = TrainingLoop(clock, parts.units, Shape(gradient_steps=gradient_steps), Traffic())
    return Round(loop, clock, parts, gradient_steps, cold), parts


def test_a_long_round_is_run_once_with_all_parts(host):
    rounds, parts = round_of(host, 1.5 * SHORT_ROUND_S)
    rounds.run()
    rounds.taken()
    before = parts.steps
    rounds.run()
    found = rounds.taken()
    assert parts.steps == before + 1
    assert {part: len(pieces) for part, pieces in found.items()} == dict.fromkeys(
        ("collect", "insert", "sample", "learn", "update", "runtime"), 1
    )


def test_a_short_round_has_each_part_timed_in_rounds_of_its_own(host):
    rounds, parts = round_of(host, SHORT_ROUND_S / 10)
    rounds.run()
    found = rounds.taken()
    assert set(found) == {"collect", "insert", "sample", "learn", "update", "runtime"}
    apart = len(found["learn"])
    assert apart == STRETCH_S / (SHORT_ROUND_S / 10) / TIMED_EVERY == 5
    assert parts.steps == FIRST_ROUNDS + 5 * apart * TIMED_EVERY, "five parts"
    assert all(len(found[part]) == apart for part in found if part != "runtime")
    assert {piece.calls for part in found if part != "runtime" for piece in found[part]} == {1.0}
    (runtime,) = found["runtime"]
    assert runtime.calls == apart
    assert parts.taken[-1] == apart, "gradient steps of the runtime's timed call"
    assert min(piece.seconds for piece in found["learn"]) == pytest.approx(SHORT_ROUND_S / 10, rel=0.01)


def test_rounds_with_emptied_caches_are_never_short(host):
    rounds, parts = round_of(host, 0.0, cold=True)
    rounds.run()
    assert parts.steps == 1


@pytest.mark.parametrize("step_s", [SHORT_ROUND_S / 10, SHORT_ROUND_S])
def test_in_a_round_of_several_gradient_steps_the_time_is_one_step_s(host, step_s):
    """Predictions multiply these times by the number of steps; of what a round calls once they do not."""
    rounds, parts = round_of(host, step_s, gradient_steps=4)
    rounds.run()
    rounds.taken()
    before = parts.steps
    rounds.run()
    found = rounds.taken()
    of_a_call = {
        part: sum(p.seconds for p in some) / sum(p.calls for p in some) for part, some in found.items()
    }
    assert of_a_call["learn"] == pytest.approx(step_s, rel=0.01)
    calls = {part: sum(piece.calls for piece in some) for part, some in found.items()}
    assert calls["collect"] == calls["insert"] >= 1
    assert calls["sample"] == calls["learn"] == calls["update"] == 4 * calls["collect"]
    assert (parts.steps - before) % 4 == 0
