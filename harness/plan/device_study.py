"""Which mapping is the best with a GPU of another machine, for everything that was measured on it."""

from contextlib import closing
from pathlib import Path

from placerl.harness import platforms, workloads
from placerl.harness.core.revision import RESULTS
from placerl.harness.plan import tiers
from placerl.harness.plan.predicting import begin, loaded, profiled, simulated
from placerl.harness.profile import lent
from placerl.harness.store.rows import PieceTime
from placerl.harness.validate.predicted_regret import JudgedCell, with_gpu


def study(device: str, tier: str = "quick", results: Path = RESULTS) -> list[JudgedCell]:
    """Return the judged choices for each shipped workload and batch size that a GPU was measured with.

    The devices are this machine's and the GPU, then the simulated FPGA as well, where its cycles are known. Times of
    this machine that the store does not hold are measured first.

    Args:
        device: a name of `harness.profile.lent.devices`.
    """
    chosen, shipped = tiers.tier(tier), set(workloads.names())
    cells = []
    with closing(begin(results, chosen)) as run:
        for name, sizes in lent.cells(device).items():
            for size, gpu in sizes.items() if name in shipped else ():
                item = loaded(name, size)
                own = [row for row in profiled(run, item, chosen) if isinstance(row, PieceTime)]
                counted = [row for row in simulated(run, item, lent.BOARD) if isinstance(row, PieceTime)]
                cells += with_gpu(item, size, own, counted, gpu, platforms.of_this_machine())
    return cells
