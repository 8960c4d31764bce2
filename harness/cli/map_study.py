"""Prints `placerl map --device GPU` without a workload: what is the best mapping for all that was measured on a GPU."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from placerl.harness.cli.common import out, print_json
from placerl.harness.core.errors import UserError


def show_study(
    device: str | None, tier_name: str, results: Path, as_json: bool, given: Mapping[str, object]
) -> None:
    """Print which mapping is the best with a GPU of another machine, for everything that was measured on it.

    Args:
        given: options that need a workload, with their values.
    """
    from placerl.harness.plan.device_study import study
    from placerl.harness.profile import lent
    from placerl.harness.validate import predicted_regret

    if device not in lent.devices():
        allowed = f"a workload, or none with --device {' or '.join(lent.devices()) or 'of a committed run'}"
        raise UserError("command line", "WORKLOAD", "nothing", allowed)
    for option, value in given.items():
        raise UserError("command line", option, value, "none without a workload")
    cells = study(device, tier_name, results)
    if as_json:
        print_json([asdict(cell) for cell in cells])
        return
    table = Table(title=f"The best mapping with {device}, and what choices lose, predicted (modelled)")
    for column in predicted_regret.COLUMNS:
        table.add_column(column)
    for cell in cells:
        table.add_row(*cell.line)
    out.print(table)
    for line in (*predicted_regret.summary(cells), *dict.fromkeys(cell.machine for cell in cells)):
        out.print(line, markup=False)
    out.print(
        "~: from a time that is too noisy; ?: noise alone may explain the loss; –: not predicted",
        markup=False,
    )
