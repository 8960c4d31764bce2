"""The algorithms, compared with SB3's own in SB3's environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.primitives.replay.adapters.library_checks import Ask, asking, names

CHECKS = Path(__file__).parent / "algorithm_checks.py"
VARIANTS = {"dqn": 10, "ddpg": 5, "td3": 6, "sac": 7}


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking("sb3", CHECKS) as ask:
        yield ask


@pytest.mark.parametrize("check", names(CHECKS))
def test_sb3(ask: Ask, check: str) -> None:
    ask(check)


@pytest.mark.parametrize(
    ("algorithm", "number"), [(name, number) for name, count in VARIANTS.items() for number in range(count)]
)
def test_with_equal_weights_a_training_is_sb3s_own_bit_for_bit(ask: Ask, algorithm: str, number: int) -> None:
    ask("check_training", algorithm=algorithm, number=number)


@pytest.mark.parametrize("algorithm", VARIANTS)
@pytest.mark.parametrize("settings", [{}, {"n_steps": 3, "normalized": True}], ids=["plain", "n_steps"])
def test_a_step_weighs_the_critics_loss_alone_and_returns_mean_td_errors(
    ask: Ask, algorithm: str, settings: dict[str, object]
) -> None:
    ask("check_weighted_step", algorithm=algorithm, **settings)
