"""Starts the `placerl` command."""

import os
import sys

from harness.core import interrupts


def main() -> None:
    """Run the command line; exits with 2 on a user's mistake and with 130 on Ctrl-C, at any moment."""
    interrupts.leave_at_once()
    try:
        from harness.cli import run_app
    except ModuleNotFoundError as error:
        sys.exit(
            f"placerl: the command line needs the extra 'harness', which is not installed "
            f"({error.name} is missing): pip install 'placerl[harness]'"
        )
    try:
        try:
            interrupts.raise_outside_imports()
            run_app()
        finally:
            interrupts.leave_at_once()
    except KeyboardInterrupt:  # between the lines above, or once more while the first is reported
        interrupts.leave()
    except SystemExit as end:
        # Everything is closed; on a busy machine Python would take seconds to unload its modules.
        if end.code == interrupts.INTERRUPTED:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(interrupts.INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
