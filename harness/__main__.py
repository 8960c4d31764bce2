"""Entry point of the `placerl` command."""

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; exit 2 on a user's mistake, 130 on Ctrl-C."""
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
        if (
            end.code == INTERRUPTED
        ):  # all is closed: on a busy machine Python would take seconds to forget its modules
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
