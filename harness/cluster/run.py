"""Measures `placerl run --ray`, training on a cluster."""

from dataclasses import asdict, dataclass, replace

from harness.cluster.connection import check_address, connected
from harness.cluster.placement import Placement
from harness.cluster.training import ClusterTraining, Size, check
from harness.core.progress import Report
from harness.core.row import Measurement
from harness.core.suites import Suite
from harness.mapping import Mapping
from harness.runtime import measured_run
from harness.runtime.measured_run import Extent, Setup
from harness.store.cell import Cell
from harness.store.store import Run
from harness.workloads import Workload

SUITE = Suite.CLUSTER


@dataclass(frozen=True)
class Asked:
    """The cluster that the command line requests.

    Attributes:
        address: "local", "auto" or HOST:PORT.
        size: number of each role.
        place: machines of the roles; see `Placement.of`.

    Raises:
        UserError: `place` does not name a role.
    """

    address: str
    size: Size
    place: str = ""

    def __post_init__(self) -> None:
        Placement().chosen(self.place)

    def cell(self, item: Workload, mapping: Mapping, batch_size: int, seed: int, extent: Extent) -> Cell:
        """Return the cell of a training on the cluster; see `ClusterTraining`.

        Its rows are those of `measured_run.train`, but with suite `cluster`. `details["cluster"]` gives the
        number of each role, the number of machines that held them, and what Ray had to restart.

        Raises:
            UserError: workload, mapping and sizes are not compatible, or nothing listens at the address.
        """
        check_address(self.address)
        check(item, mapping, self.size, batch_size)
        placement = Placement.of(mapping).chosen(self.place)

        def measure(run: Run, report: Report) -> list[Measurement]:
            with connected(self.address, placement.resources()):
                training = ClusterTraining(
                    item, mapping, self.size, placement=placement, batch_size=batch_size, seed=seed
                )
                rows = measured_run.measured(training, Setup(item, mapping, batch_size, seed), extent, report)
            told = asdict(self.size)
            told |= {"machines": len(set(training.nodes.values())), "restarts": training.restarts}
            return [replace(row, suite=SUITE, details={**row.details, "cluster": told}) for row in rows]

        roles = f"{self.size.actors}-{self.size.shards}-{self.size.learners}"
        return Cell(f"{SUITE}/{item.name}/{batch_size}/seed{seed}/{mapping}/{roles}", extent.seconds, measure)
