"""Starts the `placerl` command."""

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; exits with 2 on a user's mistake and with 130 on Ctrl-C."""
    try:
        from harness.cli import run_app
    except ModuleNotFoundError as error:
        sys.exit(
            f"placerl: the command line needs the extra 'harness', which is not installed "
            f"({error.name} is missing): pip install 'placerl[harness]'"
        )
    try:
        run_app()
    except SystemExit as end:
        # Everything is closed; on a busy machine Python would take seconds to unload its modules.
        if end.code == INTERRUPTED:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
