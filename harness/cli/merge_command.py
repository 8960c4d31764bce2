"""The command `placerl merge`, which copies the runs of several stores into one."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, print_json, say
from placerl.harness.core.errors import UserError
from placerl.harness.core.revision import RESULTS, store_path
from placerl.harness.store.store import Store


@app.command(epilog="Example: `placerl merge laptop/results gpu-server/results --results merged`")
def merge(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Results folders, stores, or reference runs (NAME.json)."),
    ],
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Copy the runs of other stores, such as those of other machines, into one store; its own runs are unchanged.

    A committed reference run, such as `results/reference/with-gpu.json`, can be taken in like a store.
    """
    from placerl.harness.validate.portability import over_platforms

    target = store_path(results)
    paths = [store_path(source) if source.is_dir() else source for source in sources]
    taking = [_taking(path, target) for path in paths]  # every row of each is read before anything is written
    with Store.open(target) as store:
        with store.writing():  # everything or nothing
            copied = [take(store) for take in taking]
        portabilities = over_platforms(store.frame())
    if as_json:
        taken_in = [{"path": str(path), "cells": cells} for path, cells in zip(paths, copied, strict=True)]
        print_json({"taken_in": taken_in, "portability": [asdict(each) for each in portabilities]})
        return
    for path, cells in zip(paths, copied, strict=True):
        say(f"{path}: {cells} cells taken in")
    for portability in portabilities:
        say(
            f"portability over {len(portability.best)} machines, {portability.workload}, "
            f"batch size {portability.batch_size}: {portability.mean.value:,.1f} experiences/s "
            f"({portability.mean.provenance})"
            f"{', too noisy' if portability.noisy else ''}"
        )


def _taking(path: Path, target: Path) -> Callable[[Store], int]:
    """Return what takes the runs of a path into a store and returns the number of cells added.

    Raises:
        UserError: the path is neither a store nor a reference run, or it is the store that takes them in.
    """
    from placerl.harness.store import reference

    if path.suffix in reference.SUFFIXES:
        return reference.load_one(path).add_to
    if path.exists() and target.exists() and path.samefile(target):
        raise UserError("command line", "RUN", path, "a store other than the one that takes them in")
    with Store.open(path, read_only=True) as other:
        other.runs()
        other.measurements()

    def take(store: Store) -> int:
        with Store.open(path, read_only=True) as other:
            return store.copy_from(other)

    return take
