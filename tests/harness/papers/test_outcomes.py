"""The outcomes that a claim's code names, and that a test makes each claim give each of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.papers import Claim, Outcome
from tests.harness.papers import outcomes
from tests.harness.papers.rows import claim_of

ROOT = Path(__file__).parents[3]
ELSEWHERE = (
    "tests/harness/papers/test_resources.py",
    "tests/harness/papers/test_verdicts.py",
    "tests/harness/compare/test_adapters.py",
)
"""Tests of claims outside the papers' folders: of several papers', or next to those of what the claims read."""
MEASURING = "experiment or measured or page or pytorch or compiles"
"""Words in the names of tests that take long and judge nothing that other tests don't."""

_TWO_CLOCKS = (
    "The clocks lie more than four times apart, and so do the gains: one alone meets the printed ones."
)
NEVER: dict[str, dict[Outcome, str]] = {
    "PPO-5.3.1-environment": {Outcome.REPRODUCED: "Its two readings lie a factor of four or more apart."},
    "PPO-F15": {Outcome.REPRODUCED: _TWO_CLOCKS},
}
"""Outcomes that functions behind a claim name and that this claim cannot give, with the reason."""


@pytest.mark.parametrize("key", NEVER)
def test_an_exception_is_of_an_outcome_that_the_code_names(key: str) -> None:
    assert NEVER[key].keys() <= outcomes.in_code(claim_of(key)), "superfluous"


@pytest.mark.parametrize("claim", papers.claims(), ids=lambda claim: claim.key)
def test_the_code_of_a_claim_names_its_outcomes(claim: Claim) -> None:
    """A claim that is judged can give more than one, or says that it is never run."""
    possible = outcomes.in_code(claim) - NEVER.get(claim.key, {}).keys()
    assert len(possible) > 1 or possible == {Outcome.NOT_RUN}


@pytest.mark.slow
def test_a_test_makes_each_claim_give_each_of_its_outcomes(tmp_path: Path) -> None:
    """Runs the tests of the claims that judge; the committed run, which `test_reads` judges, counts for none."""
    files = map(str, sorted(Path(__file__).parent.glob("*/test_*.py")))
    judging = ["-m", "not slow and not gpu", "-k", f"not ({MEASURING})"]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", *judging]
    plugin = ["-p", outcomes.__name__]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugin, *files, *ELSEWHERE],
        cwd=ROOT,
        env=os.environ | {outcomes.FILE: str(tmp_path / "given.json")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    given = json.loads((tmp_path / "given.json").read_text())
    for claim in papers.claims():
        never, found = NEVER.get(claim.key, {}).keys(), set(given.get(claim.key, ()))
        assert outcomes.in_code(claim) - never <= found, f"{claim.key}: no test makes it give each of these"
        assert not never & found, f"{claim.key}: given against expectation"
