"""Entry point of the `placerl` command."""

import sys


def main() -> None:
    """Run the command line; exit 2 on a user's mistake, 130 on Ctrl-C."""
    try:
        from harness.cli import run_app
    except ModuleNotFoundError as error:
        sys.exit(
            f"placerl: the command line needs the extra 'harness', which is not installed "
            f"({error.name} is missing): pip install 'placerl[harness]'"
        )
    run_app()


if __name__ == "__main__":
    main()
