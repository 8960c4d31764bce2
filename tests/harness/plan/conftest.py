"""A run whose store is empty."""

from pathlib import Path

import pytest

from placerl.harness.store.store import Run, Store

MACHINE = {"fingerprint": "here"}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store.open(tmp_path / "store.sqlite").begin_run("tiny", "revision", MACHINE)
