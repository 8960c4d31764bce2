"""The command line, run in this process."""

import pytest

from placerl.harness import cli
from placerl.harness.measure.noise import Noise
from placerl.harness.platforms import this_machine
from tests.harness.cli.command_line import Outcome, Placerl


@pytest.fixture
def placerl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Placerl:
    """Runs the command line in this process."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["placerl", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.run_app()
        code = stopped.value.code
        captured = capsys.readouterr()
        return Outcome(code if isinstance(code, int) else int(code is not None), captured.out, captured.err)

    return run


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the machine quiet, whatever else runs on it: no command warns."""
    quiet = Noise(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.1, None)
    monkeypatch.setattr(this_machine, "measure_noise", lambda cores: quiet)
