"""PPO's iterations with an accelerator: its cycles and the links' time by hand, and the training that the host does."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.loop import real_time, virtual_time
from placerl.harness.mapping import Mapping
from placerl.harness.measure import full_speed
from placerl.harness.runtime import accelerated
from placerl.harness.runtime.accelerated import HOST_TERMS, AcceleratedTraining, NetworkAccelerator
from placerl.harness.runtime.actors import actor
from placerl.harness.runtime.actors.in_process import InlineActors
from placerl.primitives.algorithms.ppo import PPO
from placerl.primitives.algorithms.ppo_objective import PpoObjective
from tests.harness.mapping.links import Links
from tests.harness.runtime.test_on_policy import PENDULUM, small
from tests.harness.runtime.trainings import on_policy_training, resolved

CARTPOLE = ("CartPole-v1", (4,), "discrete", 2)
AGENTS, STEPS, MINIBATCH, UPDATES = 2, 32, 16, 8  # of `small`: 2 epochs of 64 samples
LATENCY_S = 1e4
NATIVE = Mapping.parse("native-native-cpu")


class Cycles:
    """A number of cycles for each sample, so many that the host's own time is nothing."""

    def forward_cycles(self, batch: int) -> int:
        return 10**6 * batch

    def training_cycles(self, batch: int) -> int:
        return 7 * 10**6 * batch


def training(environment: tuple = CARTPOLE, latency_s: float = 0.0) -> AcceleratedTraining:
    """Bytes take a second each to the accelerator, and two back; a transfer takes a latency."""
    accelerator = NetworkAccelerator("fpga", Cycles(), 1.0, Provenance.MODELLED)
    speeds = {("cpu", "fpga"): 1.0, ("fpga", "cpu"): 0.5}
    links = Links(lambda *pair: speeds[pair], lambda *_: latency_s)
    return AcceleratedTraining(resolved(small(environment), NATIVE), accelerator, lambda: links)


@pytest.mark.parametrize(("environment", "observation", "outputs"), [(CARTPOLE, 4, 3), (PENDULUM, 3, 2)])
@pytest.mark.parametrize("latency_s", [0.0, LATENCY_S])
def test_an_iteration_takes_its_runs_and_transfers(
    environment: tuple, observation: int, outputs: int, latency_s: float
) -> None:
    """Words of 4 bytes; the outputs are the policy's and a value. The last observations are evaluated, too."""
    made = training(environment, latency_s)
    made.warm_up()
    count, sent_bytes = made.transfers.count, made.transfers.sent_bytes
    progress = made.advance(1)
    assert progress.gradient_steps == UPDATES
    assert made.transfers.count - count == 2 * (STEPS + 1) + 3 * UPDATES
    inferred, trained = AGENTS * (STEPS + 1), MINIBATCH * UPDATES
    there, back = 4 * observation * (inferred + trained), 4 * outputs * (inferred + trained)
    again = 4 * outputs * trained  # the gradients
    assert made.transfers.sent_bytes - sent_bytes == there + back + again
    infer_s = 4 * inferred * (observation + 2 * outputs) + latency_s * 2 * (STEPS + 1)
    learner_s = 4 * trained * (observation + 3 * outputs) + latency_s * 3 * UPDATES
    expected = {
        "infer": 1e6 * inferred,
        "learner": 8e6 * trained,
        "infer_links": infer_s,
        "learner_links": learner_s,
    }
    for term, seconds in expected.items():
        assert progress.terms_s[term] == pytest.approx(seconds)
    assert progress.wall_s == pytest.approx(sum(expected.values()), abs=10.0)
    for term in HOST_TERMS:
        assert progress.terms_s[term] > 0
    assert made.provenance is Provenance.MODELLED
    made.close()


def test_only_the_host_s_pieces_and_the_devices_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that only the slowed calls move: neither the learner nor the policy on the host counts.

    The accelerator and its links take no time.
    """
    now_s = 0.0
    for module in (accelerated, actor, real_time, virtual_time, full_speed):
        monkeypatch.setattr(module, "perf_counter", lambda: now_s)
    monkeypatch.setattr(full_speed, "waited_s", lambda: 0.0)

    def slow(owner: object, name: str, seconds: float) -> None:
        work = getattr(owner, name)

        def slowed(*arguments: Any, **options: Any) -> Any:
            nonlocal now_s
            now_s += seconds
            return work(*arguments, **options)

        monkeypatch.setattr(owner, name, slowed)

    deal = PPO.minibatches

    def dealt(*arguments: Any) -> Iterator[Any]:
        nonlocal now_s
        for batch in deal(*arguments):
            now_s += 3.0
            yield batch

    quick = NetworkAccelerator("fpga", Cycles(), 1e30, Provenance.SIMULATED)
    made = AcceleratedTraining(resolved(small(), NATIVE), quick, Links)
    for owner, name in ((made.learner, "step"), (made.learner, "explore"), (PPO, "prepare")):
        slow(owner, name, 1000.0)  # only the simulation does these on the host
    slow(made._acting, "collect", 5.0)
    slow(PpoObjective, "drawn", 0.25)
    slow(made, "_prepared", 4.0)
    monkeypatch.setattr(PPO, "minibatches", dealt)
    slow(made._objectives, "step", 2.0)
    progress = made.warm_up()
    made.close()
    assert progress.gradient_steps == UPDATES
    assert now_s > 1000 * (STEPS + UPDATES), "the learner was called on the host"
    host_s = {
        "environment": 5.0,
        "draw": 0.25 * STEPS,
        "prepare": 4.0,
        "deal": 3.0 * UPDATES,
        "objective": 2.0 * UPDATES,
    }
    assert {term: progress.terms_s[term] for term in HOST_TERMS} == pytest.approx(host_s)
    assert progress.terms_s["learner"] == pytest.approx(0.0, abs=1e-12)
    assert progress.wall_s == pytest.approx(sum(host_s.values()))


def test_it_trains_as_the_host_would() -> None:
    """The numbers are those of the host's learner with the same seed."""
    made, whole = training(), on_policy_training(small(), NATIVE)
    for one in (made, whole):
        one.advance(2 * UPDATES)
    for name, value in whole.learner.parameters().items():
        np.testing.assert_array_equal(made.learner.parameters()[name], value)
        assert np.isfinite(value).all()
    for one in (made, whole):
        one.close()


def test_an_accelerator_without_a_link_leaves_no_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    monkeypatch.setattr(InlineActors, "close", lambda self: closed.append(self))

    def without_links() -> Links:
        raise UserError("map", "link", "cpu to fpga", "a platform with this link")

    accelerator = NetworkAccelerator("fpga", Cycles(), 1.0, Provenance.MODELLED)
    with pytest.raises(UserError, match="a platform with this link"):
        AcceleratedTraining(resolved(small(CARTPOLE), NATIVE), accelerator, without_links)
    assert len(closed) == 1
