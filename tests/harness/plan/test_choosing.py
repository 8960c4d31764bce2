"""`placerl.map`: what it refuses, and how it says so. `tests/harness/cli/test_map.py` compares it with the command."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import placerl
from placerl.harness.core.errors import NotRunError, UserError
from placerl.harness.plan import choosing, predicting


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tier": "quik"}, "map: tier: found quik; allowed: quick, standard, full; did you mean quick?"),
        ({"batch_size": 0}, "map: training.batch_size: found 0; allowed: "),
        (
            {"platform": "abacus"},
            "map: platform: found abacus; allowed: this-machine, apple-m3, h200-server, jetson-agx-orin, map-",
        ),
        ({"device": "fpga:u20"}, "map: device: found 'fpga:u20'; allowed: "),
        ({"precisions": ["fixd32"]}, "map: precisions: found fixd32; allowed: "),
        ({"precisions": ["fixed32"], "platform": "map-tpds23"}, "allowed: float32 with another platform"),
        ({"precisions": ["fixed32"], "device": "fpga:u200"}, "allowed: float32 with device fpga:u200"),
        ({"device": "fpga:u200", "platform": "map-tpds23"}, "allowed: none with another platform"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name_in_python(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    with pytest.raises(UserError) as raised:
        placerl.map("cartpole-ddpg", results=results, **options)
    assert words in str(raised.value)
    assert "--" not in str(raised.value)
    assert not results.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 32),
        ("platform", "map-tpds23"),
        ("device", "fpga:u200"),
        ("precisions", ["fixed32"]),
        ("tier", "full"),
        ("results", "elsewhere"),
    ],
)
def test_a_program_takes_no_option_that_would_be_ignored(name: str, value: object) -> None:
    program = placerl.Program("CartPole-v1", {}, lambda *_: None, lambda *_: None)  # type: ignore[arg-type]
    options: dict[str, Any] = {name: value}
    with pytest.raises(UserError, match=rf"map: {name}: found .*; allowed: none with a Program"):
        placerl.map(program, **options)


def test_without_a_choice_the_message_says_what_each_strategy_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = predicting.predictions("cartpole-ddpg", 32, platform="map-tpds23")
    lacking = replace(made.rows[0], status="not_run", reason="needs: a time", value=None, low=None, high=None)
    none = replace(made, rows=[lacking], elsewhere=[])
    monkeypatch.setattr(choosing, "predictions", lambda *_, **__: none)
    with pytest.raises(NotRunError, match=r"cartpole-ddpg: no mapping was chosen: .*: needs: a time"):
        placerl.map("cartpole-ddpg")
