"""Simulates clusters of 1 to 10,000 nodes, from the times that a cluster's parts take on this machine.

    placerl bench scale [--nodes 1,10,100] [--shards 1,4,16]

A cluster has two uses: to carry out the cells (units of work) of a run, whose rows one process, the writer, stores; and
to train with actors on many nodes, a replay in several parts (shards) and one learner. The benchmark measures how long
one request to each part takes (`harness.cluster.service_times`), and simulates both uses (`harness.cluster.scale`,
which states the assumptions). It shows from how many nodes on the writer, the shards of the replay and the sending of
the weights are saturated; these limits are modelled. What one machine cannot measure is assumed: the seconds of a
cell, and a link of 10 Gbit/s.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, cell, joined, numbers, section
from placerl.harness.cluster import service_times
from placerl.harness.cluster.scale import Service, Simulated, saturation, simulate_cells, simulate_training
from placerl.harness.core.progress import Report
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import Mapping

SUITE = Suite.SCALE
NODES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
SHARDS = (1, 4, 16)
CELL_S = 25.0  # in the quick tier's plan: a profile takes 10 s, a training 20 s, a comparison 42 s
WORKLOAD, MAPPING = "hopper-ddpg", "native-native-cpu"
BROADCASTS = {"direct": False, "tree": True}


@dataclass(frozen=True, kw_only=True)
class ScaleResult(Row, table="scale_result"):
    """A rate of a simulated cluster, the fraction of the time in which a part is busy, or the nodes that saturate it.

    Attributes:
        use: "cells" or "training".
        part: the part that some nodes saturate.
        shards: number of parts of the replay.
        broadcast: how the weights are sent: "direct" or "tree".
        service: how long a request to each part takes.
    """

    nodes: int | None = None
    use: str | None = None
    part: str | None = None
    shards: int | None = None
    broadcast: str | None = None
    service: dict[str, float] | None = None


def simulate(
    service: Service, nodes: Sequence[int], shards: Sequence[int], report: Report
) -> Sequence[ScaleResult]:
    """Simulate clusters with several numbers of nodes, for two uses: measuring a run, and training.

    A run consists of cells, units of work that the nodes carry out.

    Returns:
        Rows of suite "scale": for each number of nodes the rates, and for each part the fraction of the time in which
        it is busy; and the number of nodes from which each part is saturated.
    """
    rows: list[ScaleResult] = []
    total = len(nodes) * (1 + len(shards) * len(BROADCASTS))

    def add(simulated: Simulated, **which: Any) -> None:
        report(len(rows), total * 5, f"{simulated.nodes} nodes")
        for name, value in simulated.rates_per_s.items():
            rows.append(_row(f"{name}_per_s", value, service, nodes=simulated.nodes, **which))
        for part, share in simulated.busy.items():
            rows.append(_row(f"{part}_busy", share, service, nodes=simulated.nodes, **which))

    for number in nodes:
        add(simulate_cells(service, number), use="cells")
        for parts in shards:
            for broadcast, tree in BROADCASTS.items():
                simulated = simulate_training(service, number, parts, tree=tree)
                add(simulated, use="training", shards=parts, broadcast=broadcast)
    for parts in shards:
        for part, limit in saturation(service, parts).items():
            modelled = _row("saturating_nodes", limit, service, Provenance.MODELLED, part=part, shards=parts)
            rows.append(modelled)
    return rows


def _row(
    quantity: str,
    value: float,
    service: Service,
    provenance: Provenance = Provenance.SIMULATED,
    **which: Any,
) -> ScaleResult:
    return ScaleResult(
        suite=SUITE,
        primitive="cluster",
        quantity=quantity,
        provenance=provenance,
        value=value,
        service=asdict(service),
        **which,
    )


def _of(rows: Sequence[ScaleResult], quantity: str, **which: Any) -> dict[int, float]:
    """Return values by nodes."""
    return {
        row.nodes or 0: row.value or 0.0
        for row in rows
        if row.quantity == quantity and all(getattr(row, name) == is_ for name, is_ in which.items())
    }


def table(rows: Sequence[ScaleResult]) -> str:
    """Return the results as Markdown: the inputs, the rates by nodes, and the nodes that saturate each part."""
    service = rows[0].service or {}
    nodes = list(_of(rows, "cells_per_s", use="cells"))
    shards = sorted({row.shards for row in rows if row.shards is not None})
    lines = ["# One to many nodes, simulated", ""]
    lines += ["Service times measured on this machine; `cell_s` and `link_bytes_per_s` are chosen:", ""]
    lines += [f"- {name}: {value:.4g}" for name, value in service.items()]
    lines.append("")
    rates, busy = _of(rows, "cells_per_s", use="cells"), _of(rows, "writer_busy", use="cells")
    cells = [[f"{number:,}", f"{60 * rates[number]:,.1f}", f"{busy[number]:.0%}"] for number in nodes]
    lines += section("Cells (simulated)", ("machines", "cells a minute", "writer busy"), cells)
    lines += [
        "Of training below: environment steps a second / gradient steps a second (busy: shards, link).",
        "",
    ]
    for broadcast in BROADCASTS:
        cells = [
            [f"{number:,}", *(_training(rows, number, parts, broadcast) for parts in shards)]
            for number in nodes
        ]
        columns = ("actors", *(f"{parts} shards" for parts in shards))
        lines += section(f"Training, weights sent {_WORDS[broadcast]} (simulated)", columns, cells)
    cells = []
    limits = [row for row in rows if row.quantity == "saturating_nodes"]
    for row in limits:
        part, parts = row.part or "", row.shards
        if part == "shards" or parts == shards[0]:
            cells.append([part, str(parts) if part == "shards" else "any", f"{row.value:,.0f}"])
    title = "From how many nodes on a part has no time left (modelled)"
    return "\n".join([*lines, *section(title, ("part", "shards", "nodes"), cells)])


_WORDS = {"direct": "from the learner's machine to each actor", "tree": "from actor to actor, in a tree"}


def _training(rows: Sequence[ScaleResult], nodes: int, shards: int, broadcast: str) -> str:
    which: dict[str, Any] = {"use": "training", "shards": shards, "broadcast": broadcast}
    names = ("environment_steps_per_s", "gradient_steps_per_s", "shards_busy", "link_busy")
    steps, gradients, held, link = (_of(rows, name, **which)[nodes] for name in names)
    return f"{steps:,.0f} / {gradients:,.0f} ({held:.0%}, {link:.0%})"


def plot(rows: Sequence[ScaleResult], folder: Path) -> None:
    """Plot the simulated rates over the number of nodes, with the modelled limits, in `scale.svg`.

    One plot is for clusters that measure the cells (units of work) of a run, one for clusters that train.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    cells = {number: 60 * rate for number, rate in _of(rows, "cells_per_s", use="cells").items()}
    left.loglog(list(cells), list(cells.values()), "o-", label="simulated")
    limits = [row for row in rows if row.quantity == "saturating_nodes"]
    writer = next(row for row in limits if row.part == "writer")
    left.axvline(writer.value or 0, linestyle="--", color="grey", label="writer saturates (modelled)")
    left.set(xlabel="machines", ylabel="cells / min", title="Cells: one writer")
    for number, row in enumerate(row for row in limits if row.part == "shards"):
        parts = row.shards
        for broadcast, style in (("direct", "o-"), ("tree", "s:")):
            rates = _of(rows, "environment_steps_per_s", use="training", shards=parts, broadcast=broadcast)
            label = f"{parts} shards, weights {broadcast} (simulated)"
            right.loglog(list(rates), list(rates.values()), style, color=f"C{number}", label=label)
    link = next(row for row in limits if row.part == "link")
    right.axvline(link.value or 0, linestyle="--", color="grey", label="link saturates (modelled)")
    right.set(xlabel="actors", ylabel="environment steps / s", title="Training: shards and broadcast")
    for axes in (left, right):
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(folder / "scale.svg")


def bench(
    machines: Annotated[str, typer.Option("--nodes", help="Numbers of nodes, separated by commas.")] = joined(
        NODES
    ),
    shards: Annotated[
        str, typer.Option("--shards", help="Numbers of replay shards, separated by commas.")
    ] = joined(SHARDS),
) -> Bench[ScaleResult]:
    """Simulate clusters of 1 to 10,000 nodes, from times measured here, and write a table and a plot."""
    nodes, parts = numbers("--nodes", machines), numbers("--shards", shards)
    item, mapping = workloads.load(WORKLOAD), Mapping.parse(MAPPING)

    def measure(report: Report) -> Sequence[ScaleResult]:
        service = service_times.measure(item, mapping, CELL_S, service_times.TEN_GBIT_BYTES_PER_S)
        return simulate(service, nodes, parts, report)

    cells = [cell(f"{SUITE}/{WORKLOAD}/{MAPPING}", measure)]
    return Bench(SUITE, ScaleResult, cells, table, draw=plot)
