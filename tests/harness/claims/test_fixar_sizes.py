"""FIX's statements about sizes, checked against environments that are made for it."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.claims import fixar_sizes
from harness.claims.base import Check, Outcome
from harness.claims.number import Number
from harness.provenance import Provenance


def test_making_the_environments_writes_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """MuJoCo's own handler of warnings prints them and logs them in the working directory."""
    pytest.importorskip("mujoco").set_mju_user_warning(None)
    monkeypatch.chdir(tmp_path)
    assert fixar_sizes.environment_sizes(pd.DataFrame()).outcome in set(Outcome)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def stating(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Has the paper print other numbers, in its text and its tables."""
    for name in ("from_text", "from_cell"):
        found = getattr(fixar_sizes, name)
        if name == "from_text":
            monkeypatch.setattr(
                fixar_sizes, name, lambda *keys, found=found: tuple(map(scaled, found(*keys)))
            )
        else:
            monkeypatch.setattr(fixar_sizes, name, lambda *place, found=found: scaled(found(*place)))

    def scaled(number: Number) -> Number:
        return replace(number, value=factor * number.value)


@pytest.mark.parametrize(
    "check", [fixar_sizes.network_size, fixar_sizes.weight_memory, fixar_sizes.activation_memory]
)
def test_sizes_that_can_be_counted_are_consistent_and_others_no_verdict(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = check(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert {number.provenance for number in finding.ours} == {Provenance.MODELLED}
    stating(monkeypatch, 3)
    assert check(pd.DataFrame()).outcome is Outcome.NO_VERDICT


def test_a_memory_of_what_comes_out_of_the_layers_would_be_consistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = fixar_sizes.from_text
    memory = replace(found("FIX.activation_memory")[0], value=2.88)
    monkeypatch.setattr(
        fixar_sizes,
        "from_text",
        lambda *keys: (memory,) if keys == ("FIX.activation_memory",) else found(*keys),
    )
    finding = fixar_sizes.activation_memory(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert "comes out of the layers" in finding.explanation


def test_sizes_of_environments_are_read_and_reproduce_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    assert fixar_sizes.environment_sizes(pd.DataFrame()).outcome is Outcome.CONSISTENT
    hopper = fixar_sizes.hopper_actions(pd.DataFrame())
    assert hopper.outcome is Outcome.NO_VERDICT
    assert [number.value for number in hopper.ours] == [3]
    stating(monkeypatch, 0.5)
    assert fixar_sizes.environment_sizes(pd.DataFrame()).outcome is Outcome.NO_VERDICT
    assert fixar_sizes.hopper_actions(pd.DataFrame()).outcome is Outcome.CONSISTENT
