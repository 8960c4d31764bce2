"""Records which outcomes tests make the claims give, and says which of those that their code names no test gives.

    PLACERL_OUTCOMES=FOLDER python -m pytest -p tests.harness.papers.given_outcomes ...
    python -m tests.harness.papers.given_outcomes FOLDER

As a plugin of pytest it writes, for each process, a file of the outcomes that every claim gave in the tests of claims
that judge. The committed run, which `test_reads` judges, counts for none. As a program it reads these files; `make
test` ends with it.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # else imported when the tests' settings are made
    from placerl.harness.papers.base import Claim, Finding, Verdict

FOLDER = "PLACERL_OUTCOMES"
TESTS = Path(__file__).parents[2]
ELSEWHERE = (
    "harness/papers/test_resources.py",
    "harness/papers/test_verdicts.py",
    "harness/compare/test_adapters.py",
)
"""Tests of claims outside the papers' folders: of several papers', or next to those of what the claims read."""


_given: dict[str, set[str]] = defaultdict(set)
_counts = False
"""Whether the test that runs now is one of a claim that judges."""


def counts(path: Path) -> bool:
    """Return whether a file's tests are of claims that judge."""
    return path.parent.parent == Path(__file__).parent or path in [TESTS / name for name in ELSEWHERE]


def _recorded(key: str, check: Any) -> Any:
    @wraps(check)
    def recording(*arguments: Any, **options: Any) -> "Finding":
        found: Finding = check(*arguments, **options)
        if _counts:
            _given[key].add(found.outcome)
        return found

    return recording


def pytest_configure() -> None:
    """Record what claims give, and what `judge` gives where a test calls it itself."""
    from placerl.harness import papers
    from placerl.harness.papers.base import Claim

    evaluate, every = Claim.evaluate, papers.claims()

    @wraps(evaluate)
    def recording(claim: "Claim", *arguments: Any) -> "Verdict":
        found = evaluate(claim, *arguments)
        if _counts and any(claim is each for each in every):  # tests make claims of their own
            _given[claim.key].add(found.finding.outcome)
        return found

    Claim.evaluate = recording  # type: ignore[method-assign]
    for claim in every:
        type(claim).judge = _recorded(claim.key, type(claim).judge)  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tell whether the test counts, from before its fixtures until after them."""
    global _counts
    _counts = counts(item.path)
    try:
        return (yield)
    finally:
        _counts = False


def pytest_sessionfinish() -> None:
    """Write what was given in this process."""
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({key: sorted(some) for key, some in _given.items()})
    (folder / f"{os.getpid()}.json").write_text(text)


def faults(given: dict[str, set[str]]) -> list[str]:
    """Return a line for each claim whose given outcomes are not those that its code names, empty if none."""
    from placerl.harness import papers
    from tests.harness.papers.outcomes import NEVER, in_code

    lines = []
    for claim in papers.claims():
        never, found = NEVER.get(claim.key, {}).keys(), given.get(claim.key, set())
        if missing := in_code(claim) - never - found:
            lines.append(f"{claim.key}: no test makes it give {', '.join(sorted(missing))}")
        if wrong := never & found:
            lines.append(f"{claim.key}: given against expectation: {', '.join(sorted(wrong))}")
    return lines


def main(folder: Path) -> int:
    """Print what the files of a run of the tests lack; return the exit status."""
    given: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*.json"):
        for key, some in json.loads(path.read_text()).items():
            given[key].update(some)
    lines = faults(given)
    print(*lines, sep="\n", file=sys.stderr)
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
