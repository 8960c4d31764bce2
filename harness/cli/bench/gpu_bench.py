"""Measures gradient steps with replay that stay on a device, and the same steps called one by one by the host.

    placerl bench gpu [--device cuda]

Without a GPU, `--device opencl` or `--device host` rehearses it on the processor.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, cell, section, shown
from placerl.harness.core.errors import UserError
from placerl.harness.core.suites import Suite
from placerl.harness.profile import resident_steps
from placerl.harness.profile.resident_steps import PREDICTED, STRICT, ResidentStep
from placerl.primitives.device import KINDS

SUITE = Suite.BENCH_GPU


def table(rows: Sequence[ResidentStep]) -> str:
    """Return the results as Markdown: a line for each way of taking a workload's gradient steps."""
    strict_s = {
        (row.workload, row.batch_size): row.value / row.gradient_steps
        for row in rows
        if row.primitive == STRICT and row.value and row.gradient_steps
    }
    lines = []
    for row in rows:
        against, steps = strict_s.get((row.workload, row.batch_size)), row.gradient_steps or 1
        if row.primitive == PREDICTED:
            against = None
        times = f"{against / (row.value / steps):.1f}" if against and row.value else "-"
        size = str(row.batch_size)
        lines.append([row.workload, size, row.device, row.primitive, shown(row, 1e6 / steps), times])
    columns = ("workload", "B", "device", "steps", "us a gradient step", "times the strict step's rate")
    said = [f"- {row.workload}, {row.primitive}: {row.reason}" for row in rows if row.reason]
    for row in rows:
        if row.environment_steps and row.value:
            rate = row.environment_steps / row.value
            said.append(f"- {row.workload}: {rate:,.0f} environment steps/s, each learnt from once.")
    said += [
        f"- {row.workload}, B = {row.batch_size}: the model of the resident loop, from the parts of a round timed "
        f"alone, is {row.error:+.1%} [{row.error_low:+.1%}, {row.error_high:+.1%}] off the achieved rate."
        for row in rows
        if row.error is not None
    ]
    head = [
        "# Gradient steps that stay on a device",
        "",
        "Sampling, gathering, the gradient step and the priorities' update; a round has the environments too, "
        "and an iteration of PPO all of its parts. "
        "With a batch ahead, the next is sampled on a second stream while the learner works. "
        "Median and 95% interval over the rounds; provenance: measured; ~ too noisy. "
        "A predicted round is modelled, from times as the clock had them.",
        "",
    ]
    return "\n".join([*head, *section("gradient steps", columns, lines), *said])


def bench(
    kind: Annotated[str, typer.Option("--device", help=f"One of {', '.join(KINDS)}.")] = "cuda",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Time of each workload.")] = 10.0,
) -> Bench[ResidentStep]:
    """Time gradient steps that stay on a device, and the same steps called by the host."""
    if kind not in KINDS:
        raise UserError("command line", "--device", kind, ", ".join(KINDS), name=kind)
    cells = [
        cell(
            f"{SUITE}/{name}/{size}/{kind}",
            partial(resident_steps.profile, workloads.load(name), size, kind, seconds),
            seconds,
        )
        for name, size in resident_steps.TIMED
    ]
    return Bench(SUITE, ResidentStep, cells, table, selecting=("kind",))
