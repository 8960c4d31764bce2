"""FIX's statements about sizes, checked against environments that are made for it."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Check, Outcome
from placerl.harness.papers.fix import sizes as fixar_sizes
from placerl.harness.papers.number import Number


def test_making_the_environments_writes_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """MuJoCo's own handler of warnings prints them and logs them in the working directory."""
    pytest.importorskip("mujoco").set_mju_user_warning(None)
    monkeypatch.chdir(tmp_path)
    assert fixar_sizes.SizesOfEnvironments().judge(pd.DataFrame()).outcome in set(Outcome)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def stating(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Has the paper's text give other numbers."""
    found = fixar_sizes.from_text
    monkeypatch.setattr(
        fixar_sizes,
        "from_text",
        lambda *keys: tuple(replace(number, value=factor * number.value) for number in found(*keys)),
    )


@pytest.mark.parametrize(
    "check", [fixar_sizes.WeightsFillMemory().judge, fixar_sizes.ActivationsFillMemory().judge]
)
def test_sizes_that_can_be_counted_are_consistent_and_others_no_verdict(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = check(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert {number.provenance for number in finding.ours} == {Provenance.MODELLED}
    stating(monkeypatch, 3)
    apart = check(pd.DataFrame())
    assert apart.outcome is Outcome.NO_VERDICT
    assert finding.explanation != apart.explanation


def test_sizes_are_those_of_the_networks_that_the_text_gives() -> None:
    weights = fixar_sizes.WeightsFillMemory().judge(pd.DataFrame())
    actor, critic = 18 * 400 + 401 * 300 + 301 * 6, 24 * 400 + 401 * 300 + 301
    assert [number.value for number in weights.ours] == pytest.approx([4e-6 * (actor + critic)])
    assert weights.explanation == "They fit, and fill it."
    activations = fixar_sizes.ActivationsFillMemory().judge(pd.DataFrame())
    # 400, 300 and 6 activations in 25, 19 and 1 vectors of 16, 17 inputs in 2.
    assert [number.value for number in activations.ours] == [0.064 * 45, 0.064 * 46]
    assert "the printed size is that of what goes into them" in activations.explanation


def printing(monkeypatch: pytest.MonkeyPatch, key: str, value: float) -> None:
    """Has the text give one number otherwise."""
    found = fixar_sizes.from_text

    def changed(*keys: str) -> tuple[Number, ...]:
        return tuple(
            replace(number, value=value) if name == key else number
            for name, number in zip(keys, found(*keys), strict=True)
        )

    monkeypatch.setattr(fixar_sizes, "from_text", changed)


@pytest.mark.parametrize(
    ("share", "outcome"),
    [
        (0.94, Outcome.NO_VERDICT),
        (0.96, Outcome.CONSISTENT),
        (1.0, Outcome.CONSISTENT),
        (1.001, Outcome.NO_VERDICT),
    ],
)
def test_weights_that_fill_a_memory_take_nearly_all_of_it(
    share: float, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = fixar_sizes.WeightsFillMemory().judge(pd.DataFrame()).ours[0].value
    printing(monkeypatch, "FIX.weight_memory", size / share)
    found = fixar_sizes.WeightsFillMemory().judge(pd.DataFrame())
    assert found.outcome is outcome
    assert ("They fit, and fill it." in found.explanation) == (outcome is Outcome.CONSISTENT)


@pytest.mark.parametrize(
    ("printed", "outcome", "words"),
    [
        (2.876, Outcome.CONSISTENT, "comes out of the layers"),
        (2.884, Outcome.CONSISTENT, "comes out of the layers"),
        (2.886, Outcome.NO_VERDICT, "Neither"),
        (2.940, Outcome.CONSISTENT, "goes into them"),
        (2.938, Outcome.NO_VERDICT, "Neither"),
    ],
)
def test_a_printed_memory_is_known_to_two_decimals(
    printed: float, outcome: Outcome, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printing(monkeypatch, "FIX.activation_memory", printed)
    found = fixar_sizes.ActivationsFillMemory().judge(pd.DataFrame())
    assert found.outcome is outcome
    assert words in found.explanation


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
    finding = fixar_sizes.ActivationsFillMemory().judge(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert "comes out of the layers" in finding.explanation


def test_sizes_of_environments_are_read_and_reproduce_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    sizes = fixar_sizes.SizesOfEnvironments().judge(pd.DataFrame())
    assert sizes.outcome is Outcome.CONSISTENT
    assert [number.value for number in sizes.ours] == [17, 6, 11, 8, 2]
    stating(monkeypatch, 0.5)
    assert fixar_sizes.SizesOfEnvironments().judge(pd.DataFrame()).outcome is Outcome.NO_VERDICT
