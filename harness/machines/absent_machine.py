"""Predicts mappings on a machine of which the card or a bundle is known, for `placerl map --platform CARD`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from placerl.harness.core.provenance import Provenance
from placerl.harness.machines.rates import Times, rates
from placerl.harness.machines.renting import known_machines, machine
from placerl.harness.mapping import STRATEGIES
from placerl.harness.mapping.answer import MACHINE
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.workloads import Workload


def predictions(
    workload: Workload, path: Path, known: Sequence[Path], other_sizes: bool
) -> tuple[list[PieceTime], list[PredictedRate], list[PredictedRate]]:
    """Return the times of a workload's pieces on the machine of a card, and every strategy's predictions from them.

    Args:
        workload: a shipped workload, with the batch size that is asked for.
        path: file of the card, or of a bundle: where it has times of the workload these are taken, not predicted.
        known: bundles of machines from which times are predicted, next to the committed ones.
        other_sizes: whether to predict at the other batch sizes, too, that a known machine has.

    Returns:
        The times; the predictions; and those at other batch sizes. Each says whose machine it is of in a note.

    Raises:
        UserError: a file is refused, or no known machine has times of the workload at its batch size.
    """
    (card, own), size = machine(path), workload.training.batch_size
    bundles = known_machines(known, workload.name, size, own)
    times = Times(bundles)

    def at(batch_size: int) -> tuple[list[PieceTime], list[PredictedRate]]:
        pieces = times.on(card, workload.name, batch_size)
        said = f"{card.facts.cpu}, {card.facts.usable_cores} cores, "
        if pieces[0].provenance is Provenance.MEASURED:
            said += "as measured there"
        else:
            count = sum(one.has(workload.name, batch_size) for one in bundles)
            said += f"predicted from its card and {count} known machine{'s' * (count > 1)}"
        notes = {MACHINE: said}
        rated = rates(workload, batch_size, card, pieces, STRATEGIES)
        return [replace(one, notes=notes) for one in pieces], [replace(one, notes=notes) for one in rated]

    elsewhere: list[PredictedRate] = []
    if other_sizes:
        sizes = {row.batch_size for one in bundles for row in one.rows if row.workload == workload.name}
        for other in sorted(sizes - {size}):
            elsewhere += at(other)[1]
    return *at(size), elsewhere
