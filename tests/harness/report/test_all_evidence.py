"""The page of verdicts over all evidence: committed, counted, and complete."""

import re

from placerl.harness import papers
from placerl.harness.core.outcome import Outcome
from placerl.harness.papers.base import Finding, Verdict
from placerl.harness.papers.machines import JointVerdict
from placerl.harness.report import all_evidence, headline
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from placerl.harness.store.store import RunRecord

PAGE = (headline.ROOT / headline.VERDICTS).read_text(encoding="utf-8")
LINE = re.compile(r"^\| ([A-Z]{3}-\S+) \| (.+?) \| ([a-z ]+) \| (.+?) \| (.*) \|$", re.MULTILINE)


def made(name: str, fingerprint: str, started_at: str) -> Reference:
    run = RunRecord(1, name, "quick", "0" * 40, fingerprint, started_at, {})
    return Reference(name, run, (), ())


def test_a_line_names_the_machines_by_outcome_and_what_would_decide() -> None:
    claim = papers.claims("MAP-F12-threads")[0]
    needs = Finding(Outcome.NOT_RUN, needs="two | cores")
    unsure = Finding(Outcome.NO_VERDICT, explanation="Noise.")
    references = [made("old", "a", "2026-01-01"), made("new", "b", "2026-02-01")]
    both = {"b": Verdict(claim, needs), "a": Verdict(claim, unsure)}
    page = all_evidence.page([JointVerdict(claim, Outcome.NO_VERDICT, both)], references)
    assert "Of 1 claims: 1 no verdict." in page
    assert "| A |" in page.partition("`new`")[0].splitlines()[-1], "the last run's machine is the first"
    assert "| no verdict | A: not run; B: no verdict | Noise. |" in page
    known = Finding(Outcome.NO_VERDICT, explanation="Noise.", decides="a quiet | machine")
    page = all_evidence.page(
        [JointVerdict(claim, Outcome.NO_VERDICT, {"a": Verdict(claim, known)})], references
    )
    assert "| no verdict | B: no verdict | a quiet \\| machine |" in page
    neither = {"b": Verdict(claim, needs), "a": Verdict(claim, needs)}
    page = all_evidence.page([JointVerdict(claim, Outcome.NOT_RUN, neither)], references)
    assert "| not run | A, B: not run | two \\| cores |" in page


def test_the_committed_page_lists_every_claim_and_counts_them() -> None:
    lines = LINE.findall(PAGE)
    assert [key for key, *_ in lines] == [claim.key for claim in papers.claims()]
    outcomes = [outcome for _, _, outcome, *_ in lines]
    counted = re.search(r"^Of (\d+) claims: (.+)\.$", PAGE, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) == len(lines)
    said = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z ]+)", counted[2])}
    assert said == {word: outcomes.count(word) for word in set(outcomes)}
    for _, _, outcome, _, missing in lines:
        assert bool(missing) is (outcome in all_evidence.UNDECIDED)


def test_of_machines_that_could_not_run_it_the_one_with_the_device_came_nearest() -> None:
    claim = papers.claims("MAP-F11")[0]
    references = [made("old", "a", "2026-01-01"), made("new", "b", "2026-02-01")]
    nearest = Finding(Outcome.NOT_RUN, needs="batch sizes")
    without = Finding(Outcome.NOT_RUN, needs="a CUDA device")
    by_machine = {"b": Verdict(claim, without), "a": Verdict(claim, nearest)}
    page = all_evidence.page([JointVerdict(claim, Outcome.NOT_RUN, by_machine)], references)
    assert "| batch sizes |" in page


def test_the_committed_page_says_in_short_what_would_decide_each_claim() -> None:
    for key, _, outcome, _, decides in LINE.findall(PAGE):
        assert (10 < len(decides) < 300) == (outcome in map(str, all_evidence.UNDECIDED)), key


def test_the_committed_page_names_every_reference() -> None:
    for one in reference.load():
        assert f"`{one.name}` ({one.run.started_at[:10]}, `{one.run.revision[:12]}`)" in PAGE
