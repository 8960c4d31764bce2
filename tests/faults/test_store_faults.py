"""A store whose writer is killed, again and again."""

from pathlib import Path

import pytest

from tests.faults import store_soak

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.slow
def test_kills_at_any_moment_lose_no_cell_and_hinder_no_reader(tmp_path: Path) -> None:
    counts = store_soak.soak(tmp_path, 25)
    assert counts["kills"] == 25
    assert counts["acknowledged cells"] > 0


@pytest.mark.slow
@pytest.mark.long
def test_five_hundred_kills_lose_no_cell_and_hinder_no_reader(tmp_path: Path) -> None:
    counts = store_soak.soak(tmp_path, 500)
    assert counts["kills"] == 500
    assert counts["acknowledged cells"] > 100
    assert counts["merged cells"] > 100
