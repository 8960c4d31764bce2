"""The buffers, compared with tianshou's own in tianshou's environment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.primitives.replay.adapters.library_checks import Ask, asking, names

CHECKS = Path(__file__).parent / "tianshou_checks.py"


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking("tianshou", CHECKS) as ask:
        yield ask


@pytest.mark.parametrize("check", names(CHECKS))
def test_tianshou(ask: Ask, check: str) -> None:
    ask(check)
