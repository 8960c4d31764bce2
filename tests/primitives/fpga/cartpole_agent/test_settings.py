"""Settings of the CartPole agent: what they may be."""

from typing import Any

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.cartpole_agent.settings import AgentSettings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hidden": 8}, "hidden: found 8; allowed: 4, 16, 64"),
        ({"batch": 32}, "batch: found 32; allowed: 1, 2, 4, 8, 16"),
        ({"levels": 0}, "levels: found 0; allowed: 1 to 14"),
        ({"warm_steps": 0}, "warm_steps: found 0; allowed: 1 to 65535"),
        ({"target_period": 3}, "target_period: found 3; allowed: 2, 4, 8"),
        ({"explore_decay": 100, "explore_last": 98}, "explore_last: found 98; allowed: 99 to 65535"),
        ({"solved_episodes": 256}, "solved_episodes: found 256; allowed: 1 to 255"),
    ],
)
def test_what_the_hardware_cannot_be_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AgentSettings(**wrong)


def test_the_replay_holds_a_transition_per_leaf() -> None:
    assert AgentSettings().capacity == 4096
    assert AgentSettings(levels=4).capacity == 16
