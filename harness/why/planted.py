"""Scripts into which a cause of slowness is planted, and their repaired variants, from `cases/cases.toml`."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer

from placerl.harness.core.errors import NotRunError
from placerl.harness.core.toml_models import TomlTable, check, read_toml

FOLDER = Path(__file__).with_name("cases")
_WARM_UP_STEPS = 600
"""Environment steps before the clock starts: imports and the first random actions."""
_LIMIT_S = 120.0
Change = tuple[str, str]


class Case(TomlTable):
    """A script with one cause of slowness.

    Attributes:
        cause: name of the cause, as `Finding.cause`.
        script: name of the script in `cases/` without the cause.
        planted: texts that are replaced to plant the cause, each with what replaces it.
        repaired: texts that are replaced where the repaired script differs from the one in `cases/`.
        both: texts that are replaced in both, before.
    """

    cause: str
    script: str
    planted: tuple[Change, ...]
    repaired: tuple[Change, ...] = ()
    both: tuple[Change, ...] = ()

    @property
    def name(self) -> str:
        """Its name, such as "slow wrapper, dqn"."""
        return f"{self.cause}, {self.script}"

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the planted and the repaired script into a folder, and return their paths."""
        text = (FOLDER / f"{self.script}.py").read_text(encoding="utf-8")
        paths = []
        for name, changes in (("planted", self.planted), ("repaired", self.repaired)):
            changed = text
            for before, after in (*self.both, *changes):
                assert before in changed, f"{self.name}: {before}"
                changed = changed.replace(before, after)
            path = folder / f"{self.script}_{name}.py"
            path.write_text(changed, encoding="utf-8")
            paths.append(path)
        return paths[0], paths[1]


class Cases(TomlTable):
    """The contents of `cases.toml`."""

    case: tuple[Case, ...]


def cases() -> tuple[Case, ...]:
    """Return all cases."""
    path = FOLDER / "cases.toml"
    return check(Cases, read_toml(path), path).case


def steps_per_s(command: Sequence[str], seconds: float) -> float:
    """Run a script of these for some seconds, and return the environment steps that it trains on per second.

    Args:
        command: the interpreter and the script, which prints `step NUMBER` as it goes.

    Raises:
        NotRunError: the script ended, or did not train within two minutes.
    """
    script = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )

    def end() -> None:
        with suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)  # with what it started, which may hold its output open

    limit = Timer(_LIMIT_S, end)  # a script that prints nothing gives no other occasion to look at the clock
    limit.start()
    signals = {"first": (0.0, 0), "last": (0.0, 0)}
    try:
        assert script.stdout is not None
        for line in script.stdout:
            now, step = time.monotonic(), int(line.split()[1])
            if step >= _WARM_UP_STEPS and not signals["first"][1]:
                signals["first"] = now, step
            signals["last"] = now, step
            if signals["first"][1] and now - signals["first"][0] >= seconds:
                break
    finally:
        limit.cancel()
        end()
        script.communicate()
    (began, first), (ended, last) = signals["first"], signals["last"]
    if not first or last <= first:
        raise NotRunError(f"{command[-1]} did not train")
    return (last - first) / (ended - began)
