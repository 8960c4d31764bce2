"""The outcomes that a claim's code names, and those that tests make it give."""

import json
from pathlib import Path

import pytest

from placerl.harness import papers
from placerl.harness.papers import Claim, Outcome
from tests.harness.papers import given_outcomes, outcomes
from tests.harness.papers.outcomes import NEVER
from tests.harness.papers.rows import claim_of


@pytest.mark.parametrize("key", NEVER)
def test_an_exception_is_of_an_outcome_that_the_code_names(key: str) -> None:
    assert NEVER[key].keys() <= outcomes.in_code(claim_of(key)), "superfluous"


@pytest.mark.parametrize("claim", papers.claims(), ids=lambda claim: claim.key)
def test_the_code_of_a_claim_names_its_outcomes(claim: Claim) -> None:
    """A claim that is judged can give more than one, or says that it is never run."""
    possible = outcomes.in_code(claim) - NEVER.get(claim.key, {}).keys()
    assert len(possible) > 1 or possible == {Outcome.NOT_RUN}


def test_every_file_whose_tests_count_is_there() -> None:
    assert all((given_outcomes.TESTS / name).is_file() for name in given_outcomes.ELSEWHERE)
    assert given_outcomes.counts(Path(__file__).parent / "ppo" / "test_table_2.py")
    assert not given_outcomes.counts(Path(__file__).parent / "test_reads.py")


def test_an_outcome_that_no_test_gives_is_named_and_one_against_expectation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files of two processes count together."""
    given = {
        claim.key: outcomes.in_code(claim) - NEVER.get(claim.key, {}).keys() for claim in papers.claims()
    }
    whole = {key: sorted(some) for key, some in given.items()}
    halves = [
        {key: some[::2] for key, some in whole.items()},
        {key: some[1::2] for key, some in whole.items()},
    ]
    for number, half in enumerate(halves):
        (tmp_path / f"{number}.json").write_text(json.dumps(half))
    assert given_outcomes.main(tmp_path) == 0
    (tmp_path / "2.json").write_text(json.dumps({"PPO-F15": [Outcome.REPRODUCED]}))
    (tmp_path / "0.json").write_text(json.dumps({}))
    assert given_outcomes.main(tmp_path) == 1
    lines = capsys.readouterr().err.splitlines()
    assert f"PPO-F15: given against expectation: {Outcome.REPRODUCED}" in lines
    lost = next(key for key, some in whole.items() if some)
    assert f"{lost}: no test makes it give {whole[lost][0]}" in "\n".join(lines)
