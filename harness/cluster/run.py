"""Implements `placerl run --ray`: trains a workload on a Ray cluster, and measures its throughput."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from placerl.harness.cluster.connection import check_address, connected
from placerl.harness.cluster.placement import Placement
from placerl.harness.cluster.training import ClusterTraining, Size, check
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.loop.schedule import STRICT, Fusion
from placerl.harness.loop.training_loop import Shape
from placerl.harness.mapping import Mapping
from placerl.harness.runtime import measured_run
from placerl.harness.runtime.measured_run import Extent
from placerl.harness.runtime.resolve import Resolved
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import TrainingResult
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload

SUITE = Suite.CLUSTER


@dataclass(frozen=True)
class Asked:
    """The cluster that the command line requests.

    Attributes:
        address: "local", "auto" or HOST:PORT.
        place: resources that the machines of actors, shards or learners must offer, such as "learners=cuda"; empty for
            the mapping's own.

    Raises:
        UserError: `place` has another form or does not name actors, shards or learners.
    """

    address: str
    size: Size
    place: str = ""

    def __post_init__(self) -> None:
        Placement().chosen(self.place)

    def cell(self, item: Workload, mapping: Mapping, seed: int, extent: Extent) -> Cell:
        """Return a cell (a piece of work whose rows are stored together) that trains on the cluster.

        Its rows hold the throughput and learning results of a training on one machine (`measured_run.train`), but with
        suite `cluster`. `cluster` gives the number of actors, shards and learners, the number of machines
        that ran them, and which of them Ray had to restart.

        Raises:
            UserError: workload, mapping and sizes are not compatible, or nothing listens at the address.
        """
        check_address(self.address)
        check(item, mapping, self.size)
        placement = Placement.of(mapping).chosen(self.place)
        batch_size = item.training.batch_size
        shape = Shape(batch_size=batch_size)  # the shards sample by themselves, so no calls are joined
        resolved = Resolved(item, mapping, STRICT, Fusion.NONE, shape, self.size.actors)

        def measure(run: Run, report: Report) -> Sequence[Row]:
            with connected(self.address, placement.resources()):
                training = ClusterTraining(item, mapping, self.size, placement=placement, seed=seed)
                rows = measured_run.measured(training, resolved, seed, extent, report)
            told = asdict(self.size)
            told |= {"machines": len(set(training.nodes.values())), "restarts": training.restarts}
            return [
                replace(row, suite=SUITE, cluster=told) for row in rows if isinstance(row, TrainingResult)
            ]

        roles = f"{self.size.actors}-{self.size.shards}-{self.size.learners}"
        return Cell(f"{SUITE}/{item.name}/{batch_size}/seed{seed}/{mapping}/{roles}", extent.seconds, measure)
