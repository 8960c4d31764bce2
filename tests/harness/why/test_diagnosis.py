"""Each cause is found in samples that show it, with the gain that its formula gives, and in no others."""

from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch

from placerl.harness.why.causes import own_code, replay, shapes
from placerl.harness.why.causes.base import Evidence, Finding
from placerl.harness.why.diagnosis import findings
from placerl.harness.why.profile import profile
from placerl.harness.why.recording import AS_IT_WAS, MAIN, ONE_THREAD, Recording, Steps
from placerl.harness.why.stacks import Frame, Stack

SCRIPT = """
class Slow(gym.Wrapper):
    def step(self, action):
        state, *rest = self.env.step(action)
        return sorted(state), *rest  # wrapper

def sample(count):
    rows = choose(count)
    columns = [torch.from_numpy(column[rows]) for column in table]  # columns
    items = [table[k] for k in rows]  # items
    return torch.tensor(table.states)[rows]  # copy

def evaluate():
    return env.step(0)  # evaluation

def tutorial():
    batch = Transition(*zip(*memory.sample(512)))
    states = torch.cat(batch.state)  # joined

def synchronise():
    acting.load_state_dict({name: value.clone() for name, value in net.state_dict().items()})  # weights

def main():
    while True:
        action = net(state)  # act
        env.step(action)  # step
        loss = net(sample(8))
        loss.backward()  # learn
        wandb.log(loss)  # log
"""
OWN_ENVIRONMENT = """
class Own(gym.Env):
    def step(self, action):
        return simulate(action)

class Scaled(gym.Wrapper):
    def step(self, action):
        return self.env.step(action)
"""
INSIDE = Frame("CartPoleEnv.step", "/x/site-packages/gymnasium/envs/classic_control/cartpole.py", 1)
FUNCTIONS = {
    "wrapper": "Slow.step",
    "columns": "sample",
    "items": "sample",
    "copy": "sample",
    "evaluation": "evaluate",
    "joined": "tutorial",
    "weights": "synchronise",
}
FACTS: list[dict[str, Any]] = [
    {"fact": "optimizer", "kinds": [["float32", "cpu"]], "shapes": [[64, 4], [64], [2, 64], [2]]},
    {"fact": "environment", "kind": "SyncVectorEnv", "count": 4},
    {"fact": "batch", "rows": 128},
    {"fact": "threads", "torch": torch.get_num_threads()},
]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(dedent(SCRIPT), encoding="utf-8")
    return path


def found(script: Path, parts: dict[str, int], facts: list[dict[str, Any]] = FACTS) -> list[Finding]:
    """The findings for samples by the comments of the lines that they are at; the rest is the environment's own."""
    numbers = {text.rpartition("# ")[2]: line for line, text in enumerate(SCRIPT.splitlines(), 1)}
    stacks = [
        Stack(1, 1, (Frame(FUNCTIONS.get(name, "main"), str(script), numbers[name]),), count)
        for name, count in parts.items()
    ]
    stacks.append(Stack(1, 1, (stacks[0].frames[0], INSIDE), 100 - sum(parts.values())))
    steps = {MAIN: Steps(np.full((2, 2), 1000), np.ones((2, 2)))}
    recording = Recording(
        ["python", str(script)], seconds=10.0, process=1, stacks=stacks, facts=facts, steps=steps
    )
    return findings(Evidence(recording, profile(stacks, 1)))


RELOAD_S = 2e-4


@pytest.fixture(autouse=True)
def reloading(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is slower right after another call is so by 0.2 ms."""
    for module in (own_code, shapes):
        monkeypatch.setattr(module, "reload_s", lambda calls, cleared_by: RELOAD_S)


@pytest.mark.parametrize(
    ("line", "cause", "gain"),
    [
        ("wrapper", "slow wrapper", 2),
        ("copy", "copies in the loop", 1 / (0.5 - 100 * RELOAD_S)),
        ("evaluation", "frequent evaluation", 10),
        ("log", "frequent logging", 1 / 0.55),
    ],
)
def test_time_in_own_lines(script: Path, line: str, cause: str, gain: float) -> None:
    (one,) = found(script, {line: 50})
    assert one.cause == cause
    assert one.gain == pytest.approx(gain)
    assert one.lines[0].line == next(
        k for k, text in enumerate(SCRIPT.splitlines(), 1) if text.endswith(f"# {line}")
    )


def test_an_environment_of_the_users_is_not_its_wrapper(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(dedent(OWN_ENVIRONMENT), encoding="utf-8")
    step, around = Frame("Own.step", str(path), 4), Frame("Scaled.step", str(path), 8)
    for frames, causes in (((around, step), []), ((around,), ["slow wrapper"])):
        stacks = [Stack(1, 1, frames, 50), Stack(1, 1, (INSIDE,), 50)]
        recording = Recording(["python"], seconds=10.0, process=1, stacks=stacks, facts=FACTS)
        assert [one.cause for one in findings(Evidence(recording, profile(stacks, 1)))] == causes


def test_a_replay_that_is_read_by_items(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "gather_s", lambda rows, width, columns: 0.0005)
    (one,) = found(script, {"items": 50})
    assert found(script, {"joined": 50}) == [replace(one, lines=(Frame("tutorial", str(script), 18),))]
    assert one.cause == "per-item replay"
    assert one.gain == pytest.approx(1 / 0.6)  # 200 batches per second of 0.5 ms: a tenth of the time remains


def test_weights_that_are_copied_are_copies_and_no_work_of_a_network(script: Path) -> None:
    line = Frame("synchronise", str(script), 21)
    module = "/x/site-packages/torch/nn/modules/module.py"
    for function, causes in (("Module.load_state_dict", ["copies in the loop"]), ("Module._call_impl", [])):
        stacks = [Stack(1, 1, (line, Frame(function, module, 1)), 50), Stack(1, 1, (INSIDE,), 50)]
        recording = Recording(["python"], seconds=10.0, process=1, stacks=stacks, facts=FACTS)
        named = findings(Evidence(recording, profile(stacks, 1)))
        assert [one.cause for one in named] == causes


@pytest.mark.parametrize("line", ["columns", "act", "learn", "step"])
def test_what_a_sound_script_does_is_no_cause(script: Path, line: str) -> None:
    assert found(script, {line: 60}) == []


def changed(fact: str, **values: Any) -> list[dict[str, Any]]:
    return [one | values if one["fact"] == fact else one for one in FACTS]


def test_shapes_of_the_work(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "interleaved", lambda *calls: [4.0, 2.0])
    monkeypatch.setattr(shapes, "gather_s", lambda rows, width, columns: 1.0)
    (double,) = found(script, {"learn": 80}, changed("optimizer", kinds=[["float64", "cpu"]]))
    assert (double.cause, double.gain) == ("float64", pytest.approx(1 / 0.6))
    (tiny,) = found(script, {"learn": 80}, changed("batch", rows=8))
    expected = 1 / (0.2 + 0.8 / 32 - 100 * RELOAD_S * 15 / 16)
    assert (tiny.cause, tiny.gain) == ("tiny batches", pytest.approx(expected))
    (single,) = found(script, {"act": 80}, changed("environment", count=1))
    assert (single.cause, single.gain) == (
        "one environment",
        pytest.approx(1 / (0.2 + 0.8 / 16 - 200 * RELOAD_S * 7 / 8)),
    )


def test_networks_with_convolutions_are_timed_where_their_shapes_are_known(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shapes, "interleaved", lambda *calls: [4.0, 2.0])
    weights = [[8, 1, 3, 3], [8], [2, 8 * 6 * 6], [2]]
    facts = changed("optimizer", kinds=[["float64", "cpu"]], shapes=weights)
    assert found(script, {"learn": 80}, facts) == []
    facts.append(
        {
            "fact": "convolution",
            "weight": [8, 1, 3, 3],
            "input": [1, 8, 8],
            "stride": [1, 1],
            "padding": [0, 0],
        }
    )
    (double,) = found(script, {"learn": 80}, facts)
    assert (double.cause, double.gain) == ("float64", pytest.approx(1 / 0.6))


def test_threads_are_judged_by_the_turns_of_both(script: Path) -> None:
    """Gradient steps take twice as long with many threads, and environment steps as long; most steps are the latter."""
    counts = np.array([[900, 100], [100, 0]])
    turns = {
        table: Steps(np.array([[5, 5], [5, 0]]), np.array([[0.005, step_s * 5], [0.005, 0.0]]))
        for table, step_s in ((AS_IT_WAS, 0.02), (ONE_THREAD, 0.01))
    }
    steps = {MAIN: Steps(counts, np.ones((2, 2))), **turns}
    stacks = [Stack(1, 1, (INSIDE,), 100)]
    recording = Recording(["python"], seconds=10.0, process=1, stacks=stacks, steps=steps, facts=FACTS)
    (one,) = findings(Evidence(recording, profile(stacks, 1)))
    assert (one.cause, one.gain) == ("oversubscribed threads", pytest.approx(3.0 / 2.0))


def test_without_samples_nothing_is_found() -> None:
    assert findings(Evidence(Recording(["python"]), profile([], 1))) == []
