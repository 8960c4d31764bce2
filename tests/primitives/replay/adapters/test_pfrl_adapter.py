"""The buffer, compared with PFRL's own in PFRL's environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.primitives.replay.adapters.library_checks import Ask, asking, names

CHECKS = Path(__file__).parent / "pfrl_checks.py"


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking("pfrl", CHECKS) as ask:
        yield ask


@pytest.mark.parametrize("check", names(CHECKS))
def test_pfrl(ask: Ask, check: str) -> None:
    ask(check)
