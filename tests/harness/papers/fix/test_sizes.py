"""FIX's statements about sizes, checked against environments that are made for it."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.papers.base import Claim, Outcome
from placerl.harness.papers.fix import sizes as fixar_sizes


def test_making_the_environments_writes_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """MuJoCo's own handler of warnings prints them and logs them in the working directory."""
    pytest.importorskip("mujoco").set_mju_user_warning(None)
    monkeypatch.chdir(tmp_path)
    assert fixar_sizes.SizesOfEnvironments().judge(pd.DataFrame()).outcome in set(Outcome)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


def stating(monkeypatch: pytest.MonkeyPatch, factor: float, *claims: type[Claim]) -> None:
    """Has the paper's text give other numbers."""
    text = fixar_sizes.from_text
    for changed in claims:
        published = tuple(replace(number, value=factor * number.value) for number in changed.published)
        monkeypatch.setattr(changed, "published", published)
    monkeypatch.setattr(
        fixar_sizes,
        "from_text",
        lambda *keys: tuple(replace(number, value=factor * number.value) for number in text(*keys)),
    )


@pytest.mark.parametrize("claim", [fixar_sizes.WeightsFillMemory, fixar_sizes.ActivationsFillMemory])
def test_sizes_that_can_be_counted_are_consistent_and_others_no_verdict(
    claim: type[Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = claim().judge(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert {number.provenance for number in finding.ours} == {Provenance.MODELLED}
    stating(monkeypatch, 3, claim)
    apart = claim().judge(pd.DataFrame())
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


def printing(monkeypatch: pytest.MonkeyPatch, claim: type[Claim], value: float) -> None:
    """Has the text give another number for a claim."""
    (number,) = claim.published
    monkeypatch.setattr(claim, "published", (replace(number, value=value),))


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
    printing(monkeypatch, fixar_sizes.WeightsFillMemory, size / share)
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
    printing(monkeypatch, fixar_sizes.ActivationsFillMemory, printed)
    found = fixar_sizes.ActivationsFillMemory().judge(pd.DataFrame())
    assert found.outcome is outcome
    assert words in found.explanation


def test_a_memory_of_what_comes_out_of_the_layers_would_be_consistent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printing(monkeypatch, fixar_sizes.ActivationsFillMemory, 2.88)
    finding = fixar_sizes.ActivationsFillMemory().judge(pd.DataFrame())
    assert finding.outcome is Outcome.CONSISTENT
    assert "comes out of the layers" in finding.explanation


def test_sizes_of_environments_are_read_and_reproduce_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco")
    sizes = fixar_sizes.SizesOfEnvironments().judge(pd.DataFrame())
    assert sizes.outcome is Outcome.CONSISTENT
    assert [number.value for number in sizes.ours] == [17, 6, 11, 8, 2]
    stating(monkeypatch, 0.5, fixar_sizes.SizesOfEnvironments)
    assert fixar_sizes.SizesOfEnvironments().judge(pd.DataFrame()).outcome is Outcome.NO_VERDICT
