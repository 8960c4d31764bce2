"""Starts the `placerl` command."""

import os
import sys
from collections.abc import Callable

from placerl.harness.core import interrupts, surroundings


def main() -> None:
    """Run the command line.

    Exits with 2 on a user's mistake, with 1 if the surroundings lack something, and with 130 on Ctrl-C, at any moment.
    """
    interrupts.leave_at_once()
    surroundings.check()
    try:
        try:
            run_app = _loaded()
            interrupts.raise_outside_imports()
            run_app()
        finally:
            interrupts.leave_at_once()
    except KeyboardInterrupt:  # between the lines above, or once more while the first is reported
        interrupts.leave()
    except SystemExit as end:
        # Everything is closed; on a busy machine Python would take seconds to unload its modules.
        if end.code == interrupts.INTERRUPTED:
            surroundings.flush()
            os._exit(interrupts.INTERRUPTED)
        surroundings.leave(end)
        raise
    except Exception as error:
        surroundings.leave(error)
        raise


def _loaded() -> Callable[[], None]:
    try:
        from placerl.harness.cli import run_app
    except ModuleNotFoundError as error:
        sys.exit(
            f"placerl: the command line needs the extra 'harness', which is not installed "
            f"({error.name} is missing): pip install 'placerl[harness]'"
        )
    return run_app


if __name__ == "__main__":
    main()
