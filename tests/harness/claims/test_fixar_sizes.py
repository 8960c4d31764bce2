"""FIX's statements about sizes, checked against environments that are made for it."""

from pathlib import Path

import pandas as pd
import pytest

from harness.claims import fixar_sizes
from harness.claims.base import Outcome


def test_making_the_environments_writes_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """MuJoCo's own handler of warnings prints them and logs them in the working directory."""
    pytest.importorskip("mujoco").set_mju_user_warning(None)
    monkeypatch.chdir(tmp_path)
    assert fixar_sizes.environment_sizes(pd.DataFrame()).outcome in set(Outcome)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
