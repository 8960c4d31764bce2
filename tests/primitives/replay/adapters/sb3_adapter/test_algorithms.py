"""The algorithms, compared with SB3's own in SB3's environment."""

import pytest

from tests.primitives.replay.adapters.library_checks import Ask, suite

ask, test_sb3 = suite(
    "sb3",
    "sb3_adapter/training_checks.py",
    "sb3_adapter/refusal_checks.py",
    "sb3_adapter/saving_checks.py",
)
VARIANTS = {"dqn": 10, "ddpg": 5, "td3": 6, "sac": 7}


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
