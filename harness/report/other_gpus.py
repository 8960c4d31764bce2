"""What a GPU of another machine would change: mappings that the models predict for it and this report's machine.

The GPU's times are those of committed runs (`harness.profile.lent`), so that a report without a GPU answers, too.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pydantic import ValidationError

from placerl.harness import platforms, workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.papers.evidence import last_attempts, optional, records
from placerl.harness.papers.machines import with_shared
from placerl.harness.platforms import PlatformFile
from placerl.harness.platforms.machine import Machine
from placerl.harness.profile import lent, simulated
from placerl.harness.profile.lent import LentGpu
from placerl.harness.report.machine_facts import in_a_line
from placerl.harness.report.markdown_text import code, escaped
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from placerl.harness.store.rows import PieceTime
from placerl.harness.store.store import RunRecord
from placerl.harness.validate.predicted_regret import COLUMNS, JudgedCell, summary, with_gpu


def times(frame: pd.DataFrame) -> Iterator[tuple[str, int, list[PieceTime], LentGpu]]:
    """Yield the times of a machine and a GPU of another one, where both were measured.

    Returns:
        Workload and batch size, the machine's times of primitives with those of its simulated FPGA, and the GPU; sorted
        by GPU, workload and batch size. A GPU that the machine has itself is left out.
    """
    chosen = frame[
        frame["suite"].isin((Suite.PROFILE, Suite.SIMULATED_PROFILE))
        & (frame["quantity"] == "time_per_call")
        & frame["value"].notna()
        & frame["target"].notna()
    ]
    own: dict[tuple[str, int], list[PieceTime]] = {}
    for row in records(chosen[chosen["batch_size"].notna()]):
        own.setdefault((row.workload, int(row.batch_size)), []).append(_typed(row))
    here = set(frame["fingerprint"])
    for device in lent.devices():
        for name, sizes in lent.cells(device).items():
            for size, gpu in sizes.items():
                rows = own.get((name, size), [])
                measured = any(row.suite == Suite.PROFILE for row in rows)
                if measured and name in workloads.names() and gpu.reference.run.fingerprint not in here:
                    yield name, size, rows, gpu


def _typed(row: Any) -> PieceTime:
    return PieceTime(
        suite=row.suite,
        workload=row.workload,
        primitive=row.primitive,
        batch_size=int(row.batch_size),
        quantity=row.quantity,
        provenance=Provenance(row.provenance),
        status=row.status,
        reason=row.reason,
        value=float(row.value),
        low=optional(row.low),
        high=optional(row.high),
        backend=row.backend,
        device=row.device,
        target=row.target,
        mapped=row.mapped,
    )


def judged(frame: pd.DataFrame, run: RunRecord | None) -> list[JudgedCell]:
    """Return what choices of mappings lose where a GPU of another machine could be chosen; see `predicted_regret`.

    Args:
        frame: the measurements of a machine, with those that depend on no machine.
        run: describes the machine; without its links, as of earlier versions, nothing is returned.
    """
    host = _platform(run)
    if host is None:
        return []
    cells = []
    for name, size, rows, gpu in times(frame):
        own = [row for row in rows if row.suite == Suite.PROFILE]
        counted = [row for row in rows if row.device == lent.BOARD]
        cells += with_gpu(workloads.load(name), size, own, counted, gpu, host)
    return cells


def page(references: Sequence[Reference]) -> str:
    """Return the page in Markdown: for the CPU of each reference run, what choices lose with the GPU of another."""
    lines = [
        "# With a GPU of another machine: the best mapping, and what choices lose",
        "",
        "The CPU of a committed run, a GPU as another committed run measured it, and the simulated FPGA. No "
        "machine has all, so that no mapping here was run. MAP's Equation 3, in which transfers cost nothing, "
        "and PRL's Equation 6, which counts them, predict the gradient steps per second of every mapping "
        "(modelled, from measured and simulated times). The columns on the right say how much of the best "
        "prediction a choice loses: native code on the CPU for every part, and what MAP, PRL and PAL choose. "
        "A strategy that is judged by another one's model may lose because it optimises something else. "
        "`placerl map --device h200` prints the table for your CPU.",
        "",
        f"The FPGA's cycles take their time at {simulated.clock(lent.BOARD).value:g} MHz, which is assumed.",
        "",
        "~ from a time that is too noisy; ? noise alone may explain the loss; – not predicted.",
        "",
    ]
    everything = reference.all_rows(references)
    for number, one in enumerate(references, 1):
        own = last_attempts(everything[everything["run"] == number])
        cells = judged(with_shared(own, everything), one.run)
        if not cells:
            continue
        lines += [f"## The CPU of {code(one.name)}", "", f"{escaped(in_a_line(one.run.machine))}.", ""]
        lines += [f"- {escaped(line)}" for line in summary(cells)]
        lines += ["", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        lines += [f"| {' | '.join(map(escaped, cell.line))} |" for cell in cells if cell.has_board]
        lines += ["", *(f"{escaped(text)}.\n" for text in dict.fromkeys(cell.machine for cell in cells))]
    return "\n".join(lines).rstrip() + "\n"


def _platform(run: RunRecord | None) -> PlatformFile | None:
    try:
        machine = Machine.model_validate(run.machine) if run else None
    except ValidationError:  # of an earlier version
        return None
    return platforms.of_machine(machine) if machine and machine.links else None
