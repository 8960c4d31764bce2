"""The command `placerl gpu-claims`, which measures what only a CUDA device decides, in a few minutes."""

from collections.abc import Iterator
from typing import Annotated

import typer

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, ResultsOption, exit_if_failed, print_json, say
from placerl.harness.cli.screen import Screen
from placerl.harness.core.errors import NotRunError
from placerl.harness.core.progress import bar
from placerl.harness.core.revision import RESULTS
from placerl.harness.store.peak_memory import recorded


@app.command(name="gpu-claims", epilog="Example: `placerl gpu-claims --minutes 12 --results results/gpu`")
def gpu_claims_command(
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, help="The time that there is.")] = 12.0,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what an earlier run finished, on any machine.")
    ] = False,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Measure what only a CUDA device decides, most important first, in a given time; it can be resumed."""
    import time

    from placerl.harness.plan import gpu_claims, within
    from placerl.harness.plan.predicting import begin

    begin_s = time.monotonic()
    if reason := _lacks_device():
        raise NotRunError(f"gpu-claims needs a CUDA device: {reason}")
    cells = gpu_claims.cells()
    opened = begin(results, gpu_claims.GPU, fresh)
    done = set() if fresh else within.held(opened.counted(), cells)
    said = Screen(stderr=True)
    said.print(f"{len(cells)} cells, {len(done)} finished before.", markup=False)
    for line in _left_out():
        said.print(f"Left out here: {line}", markup=False, soft_wrap=True)
    with bar("gpu-claims") as report, recorded(opened):
        left_s = 60 * minutes - (time.monotonic() - begin_s)
        outcome = within.measure(opened, cells, left_s, report, report.last, done=done)
    if as_json:
        print_json(
            {
                "measured": list(outcome.cells),
                "finished_before": sorted(done),
                "cut_off": outcome.cut_off or None,
                "left": [cell.key for cell in outcome.left],
            }
        )
    else:
        say(f"{len(outcome.cells)} cells measured, {len(done)} finished before, {len(outcome.left)} to go.")
        if outcome.cut_off:
            say(f"The time was up during {outcome.cut_off}, of which nothing is stored.")
        if outcome.left:
            say("The same command goes on with these, on this machine or another.")
    exit_if_failed([cell.key for cell in cells if cell.key in outcome.cells and cell.failed(opened)])


def _left_out() -> Iterator[str]:
    """Yield a line for each thing that this machine lacks beside the device."""
    from placerl.harness.plan import gpu_claims
    from placerl.primitives.device import unavailable_reason

    if reason := unavailable_reason("cuda"):
        yield f"sum trees and kernels of this project on the device: {reason}"
    for name in gpu_claims.libraries_left_out():
        yield f"{name}, whose environment is not built: `placerl baselines {name}`"


def _lacks_device() -> str:
    """Return why there is no CUDA device; empty if PyTorch sees one."""
    import torch

    return "" if torch.cuda.is_available() else "PyTorch sees none"
