"""What training workers share, in this environment: it needs Gymnasium and NumPy alone."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from placerl.harness import workloads
from placerl.harness.compare import protocol, registry
from placerl.harness.runtime.evaluation import Evaluation
from placerl.primitives.algorithms.dqn import DqnHyperparameters


@pytest.fixture
def agent(monkeypatch):
    monkeypatch.syspath_prepend(str(registry.BASELINES))
    monkeypatch.syspath_prepend(str(registry.ENVIRONMENTS))
    import agent

    return agent


@pytest.mark.parametrize(
    ("actors", "interval", "expected"), [(1, 1, (1, 1)), (1, 4, (4, 1)), (4, 1, (1, 4)), (4, 6, (3, 2))]
)
def test_a_round_keeps_the_update_interval(agent, actors, interval, expected):
    steps, gradient_steps = agent.cadence({"actors": actors, "update_interval": interval})
    assert (steps, gradient_steps) == expected
    assert steps * actors == interval * gradient_steps


def test_step_sizes_fall_to_what_the_algorithm_leaves_of_them(agent):
    rate, steps = 0.25, 8
    annealed, constant = (torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=rate) for _ in range(2))
    settings = workloads.load("cartpole-dqn").tables()["algorithm"]
    hyperparameters = DqnHyperparameters(annealing_steps=steps)
    for taken in (0, 1, 5, 8, 1000):
        agent.anneal([annealed], settings | {"annealing_steps": steps}, taken)
        agent.anneal([constant], settings | {"annealing_steps": None}, taken)
        left = float(hyperparameters.annealing(torch.tensor(float(taken))))
        assert annealed.param_groups[0]["lr"] == pytest.approx(rate * left)
        assert constant.param_groups[0]["lr"] == rate


def environments_of(agent, name, actors):
    tables = workloads.load(name).tables()
    tables["training"]["actors"] = actors
    returns = []
    return agent.Environments(tables, 3, returns), returns


def test_episodes_end_restart_and_are_summed(agent):
    environments, returns = environments_of(agent, "cartpole-dqn", 3)
    lengths, taken = [], np.zeros(3, int)
    for _ in range(60):
        before = environments.observations
        following, rewards, terminated, truncated = environments.step(np.zeros(3, int))
        assert following.shape == environments.observations.shape == before.shape == (3, 4)
        assert (rewards == 1).all()
        taken += 1
        lengths += taken[terminated | truncated].tolist()
        taken[terminated] = 0
        # What a step led to is kept apart from the first observation of the next episode.
        assert (np.abs(environments.observations[terminated]) <= 0.05).all()
        assert (np.abs(following[terminated][:, 2]) > 0.2).all()
    assert len(returns) > 9
    assert returns == lengths  # a reward of 1 a step


def test_actions_are_scaled_to_the_bounds_of_the_environment(agent):
    environments, _ = environments_of(agent, "pendulum-sac", 2)
    seen = []
    environments.environments = [
        SimpleNamespace(step=lambda action: (seen.append(action), (np.zeros(3), 0.0, False, False, {}))[1])
    ] * 2
    environments.step(np.array([[1.0], [-0.5]], np.float32))
    np.testing.assert_allclose(seen, [[2.0], [-1.0]])
    assert np.abs(environments.random_actions()).max() <= 1


def test_an_environment_that_is_not_there_is_refused(agent):
    with pytest.raises(Exception, match="NoSuch-v0") as failure:
        agent.make_environment({"id": "NoSuch-v0", "kwargs": {}})
    assert type(failure.value).__name__ == "UnsupportedError"


def test_a_result_counts_what_its_own_job_did(agent):
    class Counting(agent.Agent):
        def iterate(self):
            self.gradient_steps += 3
            self.environment_steps += 6
            self.episode_returns.append(1.0)

    counting = Counting()
    counting.warm_up()
    first, second = counting.advance(7), counting.advance(3)
    assert (first["gradient_steps"], first["environment_steps"], len(first["episode_returns"])) == (9, 18, 3)
    assert (second["gradient_steps"], second["episode_returns"]) == (3, [1.0])
    protocol.WorkerResult.model_validate(json.loads(json.dumps(second)))


def test_greedy_episodes_begin_where_this_project_s_own_do(agent):
    """The same policy has the same returns in both, also of actions that are scaled."""

    class Still(agent.Agent):
        def iterate(self): ...

        def greedy(self, observation):
            return np.array([0.25]) if len(observation) == 3 else 1

    for name in ("pendulum-sac", "cartpole-dqn"):
        item = workloads.load(name)
        still, own = Still(), Evaluation(item, 7)
        theirs = still.evaluate(item.tables()["environment"], 7, 3)
        assert theirs == pytest.approx(own.returns(still.greedy, 3), rel=1e-9)  # actions are rounded apart


def test_learner_and_replay_alone_take_no_round(agent):
    class Alone(agent.Agent):
        learns_alone = True

        def iterate(self):
            raise AssertionError("no environment step is taken")

        def learn(self, gradient_steps):
            self.gradient_steps += min(4, gradient_steps)

    alone = Alone()
    alone.alone = True
    alone.warm_up()
    assert alone.gradient_steps == agent.WARM_UP_GRADIENT_STEPS
    result = alone.advance(7)
    assert (result["gradient_steps"], result["environment_steps"]) == (7, 0)


def test_one_that_steps_its_environment_all_the_same_is_found_out(agent):
    class Steps(agent.Agent):
        alone = learns_alone = True

        def iterate(self):
            self.learn(1)

        def learn(self, gradient_steps):
            self.gradient_steps += 1
            self.environment_steps += 1

    with pytest.raises(RuntimeError, match="environment steps"):
        Steps().advance(3)


@pytest.mark.parametrize(("name", "said"), [("cartpole-dqn", "not mapped"), ("cartpole-ppo", "no replay")])
def test_who_cannot_learn_alone_says_so(agent, monkeypatch, name, said):
    import job_loop

    job = {"workload": workloads.load(name).tables(), "gradient_steps": 3, "environment": False}
    monkeypatch.setattr("sys.stdin", [json.dumps(job)])
    (answer,) = job_loop._answers(lambda _: pytest.fail("nothing is made"))
    assert said in answer["error"]


class Instant:
    """An agent that multiplies two numbers whose product is subnormal, with PyTorch."""

    anneals = True

    def __init__(self, job):
        self.job = job

    def advance(self, gradient_steps):
        product = float(torch.full((8,), 1e-30).mul(1e-10)[0])
        return {"gradient_steps": gradient_steps, "product": product, "notes": {"replay": "uniform"}}


@pytest.mark.parametrize("flushes", [False, True])
def test_subnormal_numbers_are_flushed_where_the_job_says_so(agent, monkeypatch, flushes):
    import job_loop

    job = {"workload": workloads.load("cartpole-dqn").tables(), "gradient_steps": 3}
    lines = [json.dumps(job | {"flush_subnormals": flushes})] * 2
    monkeypatch.setattr("sys.stdin", lines)
    try:
        answers = list(job_loop._answers(Instant))
    finally:
        torch.set_flush_denormal(False)
    assert [answer["product"] == 0 for answer in answers] == [flushes] * 2
    noted = {"subnormal numbers": "flushed to zero"} if flushes else {}
    assert [answer["notes"] for answer in answers] == [{"replay": "uniform"} | noted] * 2


def test_a_processor_that_cannot_flush_is_refused(agent, monkeypatch):
    import job_loop

    monkeypatch.setattr(torch, "set_flush_denormal", lambda on: False)
    job = {"workload": workloads.load("cartpole-dqn").tables(), "gradient_steps": 3, "flush_subnormals": True}
    monkeypatch.setattr("sys.stdin", [json.dumps(job)])
    (answer,) = job_loop._answers(lambda _: pytest.fail("nothing is made"))
    assert "cannot flush" in answer["error"]


@pytest.mark.parametrize(("on_policy", "expected"), [(True, (20, 256)), (False, (60, 768))])
def test_a_warm_up_of_ppo_is_one_iteration(agent, on_policy, expected):
    """A longer one would be a lead over this project, whose warm-up is one iteration, at equal environment steps."""

    class Counting(agent.Agent):
        def iterate(self):
            self.environment_steps += 256
            self.gradient_steps += 20

    made = Counting()
    made.on_policy = on_policy
    made.warm_up()
    assert (made.gradient_steps, made.environment_steps) == expected
