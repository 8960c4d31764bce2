"""Every shipped workload: it loads with its environment, and has the sizes that its papers give."""

import pytest

from placerl.harness import workloads
from placerl.harness.workloads.task import algorithm_of
from placerl.primitives.algorithms import networks

# Names and sizes: MAP Table III; PAL VI-A; PRL 6.1; PPO 5.1; FIX V-B.
PAPERS = {
    "MAP": {"cartpole-ddpg", "hopper-ddpg", "pong-dqn"},
    "PAL": {"lunarlander-dqn", "ant-ddpg", "ant-sac", "ant-td3"},
    "PRL": {"cartpole-dqn", "mountaincar-ddpg", "pong-dqn"},
    "PPO": {"hopper-ppo", "humanoid-ppo", "pong-ppo"},
    "FIX": {"halfcheetah-ddpg", "hopper-ddpg-400-300", "swimmer-ddpg"},
}


@pytest.mark.parametrize("name", workloads.names())
def test_it_loads_and_its_environment_has_the_sizes_it_says(name):
    loaded = workloads.load(name)
    assert loaded.name == name
    assert loaded.description
    assert loaded.training.batch_size in loaded.training.batch_sizes
    assert algorithm_of(loaded).action_kind == loaded.environment.action_kind


@pytest.mark.parametrize("paper", PAPERS)
def test_each_paper_has_its_workloads(paper):
    standing = {
        name for name in workloads.names() if paper in {row.paper for row in workloads.load(name).stands_for}
    }
    assert standing == PAPERS[paper]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("hopper-ppo", {"policy": (11, 64, 64, 3), "value": (11, 64, 64, 1)}),
        ("humanoid-ppo", {"policy": (348, 128, 64, 17), "value": (348, 128, 64, 1)}),
        ("halfcheetah-ddpg", {"actor": (17, 400, 300, 6), "critic": (23, 400, 300, 1)}),
        ("swimmer-ddpg", {"actor": (8, 400, 300, 2), "critic": (10, 400, 300, 1)}),
        ("cartpole-ddpg", {"actor": (4, 8, 8, 1), "critic": (5, 8, 8, 1)}),
    ],
)
def test_networks_have_the_papers_sizes(name, sizes):
    made = algorithm_of(workloads.load(name)).networks
    assert {part: network.sizes for part, network in made.items()} == sizes


def test_pong_has_the_nature_network_with_six_actions():
    network = algorithm_of(workloads.load("pong-dqn")).networks["q"]
    assert network == networks.NatureCNN((4, 84, 84), head=6)


@pytest.mark.parametrize("name", ["hopper-ppo", "humanoid-ppo", "pong-ppo"])
def test_an_iteration_of_ppo_fills_whole_minibatches(name):
    loaded = workloads.load(name)
    samples = loaded.training.actors * loaded.algorithm.hyperparameters["trajectory_length"]
    assert loaded.replay.capacity == loaded.training.learning_starts == samples
    assert all(samples % size == 0 for size in loaded.training.batch_sizes)
