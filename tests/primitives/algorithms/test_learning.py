"""Each algorithm learns a small task in seconds; with gradients of the wrong sign, or untrained, it does not.

An agent has learnt where its greedy episodes return more than 25 on average, of 40 at most. A test judges by the
majority of 9 to 15 seeds and stops once it is certain. `MEASURED` is what single seeds did, and `tests.majority` turns
that into how often a test errs: with 95% confidence below 1 in 10,000, which a test here works out again.
"""

from collections.abc import Iterator

import pytest
import torch

from tests.majority import ALLOWED, error_bound, majority
from tests.primitives.algorithms.trainings import AGENTS, RIGHT, TASKS, UNTRAINED, WRONG, final_return

LEARNT = 25.0
"""Chosen when the first ten seeds of DDPG and PPO, and a few agents of other settings, were known."""

# Right and wrong agents: seeds 0 to 31 with AVX-512, and 8 each with ATEN_CPU_CAPABILITY=avx2, with =default, and with
# ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2; on an AMD EPYC (Zen 4) with PyTorch 2.13.0. Their returns do
# not differ between instruction sets by more than between seeds. Untrained agents: seeds 0 to 999 with AVX-512.
MEASURED = {
    # algorithm, agent: errors, seeds, median return, and the return nearest to the other agents'
    ("dqn", RIGHT): (0, 56, 37.6, 34.2),
    ("dqn", WRONG): (0, 56, 3.4, 3.7),
    ("dqn", UNTRAINED): (15, 1000, 3.7, 37.6),
    ("ddpg", RIGHT): (2, 56, 36.4, 7.7),
    ("ddpg", WRONG): (0, 56, 3.7, 3.7),
    ("ddpg", UNTRAINED): (0, 1000, 11.8, 21.5),
    ("td3", RIGHT): (1, 56, 37.9, 4.6),
    ("td3", WRONG): (0, 56, 3.7, 3.7),
    ("td3", UNTRAINED): (0, 1000, 11.8, 21.5),
    ("sac", RIGHT): (0, 56, 35.3, 30.3),
    ("sac", WRONG): (0, 56, 3.4, 3.7),
    ("sac", UNTRAINED): (0, 1000, 11.9, 21.5),
    ("ppo", RIGHT): (0, 56, 38.1, 37.3),
    ("ppo", WRONG): (0, 56, 2.7, 3.7),
    ("ppo", UNTRAINED): (29, 1000, 3.7, 33.5),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks on one thread: more only wait for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learns(name: str, agent: str) -> bool:
    """Whether most seeds of the agent have learnt."""
    seeds = TASKS[name].seeds
    return majority((final_return(name, seed, agent) > LEARNT for seed in range(seeds)), seeds)


@pytest.mark.parametrize("name", TASKS)
def test_it_learns(name: str) -> None:
    assert learns(name, RIGHT)


@pytest.mark.parametrize("name", TASKS)
def test_untrained_it_does_not(name: str) -> None:
    assert not learns(name, UNTRAINED)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_with_the_wrong_sign_it_does_not(name: str) -> None:
    assert not learns(name, WRONG)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("agent", AGENTS)
def test_what_was_measured_allows_the_rule(name: str, agent: str) -> None:
    errors, seeds, *_ = MEASURED[name, agent]
    assert error_bound(errors, seeds, TASKS[name].seeds) < ALLOWED
