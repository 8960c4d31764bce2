"""GPUs of other machines: what their primitives took there, as the committed reference runs have it.

A user without a GPU asks what one would change (`placerl map --device h200`). The times of a GPU's primitives are taken
from the committed runs of machines that have it, those of the CPU from this machine, and cycles of the simulated FPGA
from the committed table. A lent time stays `measured`; its notes name its machine and run, and its target the GPU:
`torch:cuda:h200` is PyTorch on an H200 that is not here.

Only what the GPU itself computes is lent. The launches of its kernels are in its times, so that these depend on the
other machine's host, too. The actors' inference runs on the host whatever the learner's device is, so that it is timed
here. Calls of the training loop, in which host and device take turns, never leave their machine; the strategies that
predict from them (`composed_loop`) make no predictions here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd

from placerl.harness import platforms
from placerl.harness.core.errors import COMMAND_LINE, OptionName, UserError
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import STRATEGIES, Target, predict
from placerl.harness.mapping.answer import MACHINE
from placerl.harness.mapping.strategies import composed_loop
from placerl.harness.platforms import PlatformFile, what_if
from placerl.harness.platforms.machine import Machine
from placerl.harness.profile import simulated
from placerl.harness.store import reference
from placerl.harness.store.reference import Reference
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.workloads import Workload

CUDA = "cuda"
PRIMITIVES = (
    "learner.step",
    "storage.gather",
    "storage.insert",
    "sum_tree.insert",
    "sum_tree.sample",
    "sum_tree.update",
)
"""What a GPU lends."""
OWN = ("actor.", "environment.", "learner.", "storage.", "sum_tree.")
"""The beginnings of the names of a machine's own primitives; its other times are of calls of the loop."""
SUITES = (Suite.PROFILE, Suite.VALIDATION)
"""Suites with times of primitives: a profile before a validation, in which they share their rounds with trainings."""
BOARD = "fpga:u200"
"""The simulated FPGA that joins the choice."""
_LEADING = "pearl24"
"""The strategy whose choice is given first: it alone counts transfers over the links between devices."""
PREDICTING = dict(
    sorted(
        ((name, one) for name, one in STRATEGIES.items() if name not in composed_loop.NAMES.values()),
        key=lambda item: item[0] != _LEADING,
    )
)
"""The strategies that predict from primitives alone."""
_LEFT_OUT = re.compile(r"nvidia|\d+\s*gi?b|hbm\w*", re.IGNORECASE)
"""Words of a GPU's name that do not tell models apart."""


@dataclass(frozen=True)
class LentGpu:
    """A GPU of another machine, as one committed run measured it.

    Attributes:
        key: its name here, such as "h200".
        device: its name on its machine, such as "cuda:0".
        reference: the run, with the times of the GPU's primitives.
    """

    key: str
    device: str
    reference: Reference

    @property
    def location(self) -> str:
        """Return the device that its targets name, such as "cuda:h200"."""
        return f"{CUDA}:{self.key}"

    @property
    def machine(self) -> str:
        """Return the machine and the run as text."""
        run = self.reference.run
        cpu = run.machine["cpu"]
        return (
            f"{self.name} next to {cpu['usable_cores']} cores of {cpu['model']}, committed run "
            f"{self.reference.name} of {run.started_at[:10]}, revision {run.revision[:12]}"
        )

    @property
    def note(self) -> str:
        """Return what the GPU of a mapping is, as a sentence without its full stop."""
        return f"{self.location} is {self.machine}"

    @property
    def name(self) -> str:
        """Return the vendor's name of the GPU."""
        return next(
            str(a["name"]) for a in self.reference.run.machine["accelerators"] if a["device"] == self.device
        )

    def rows(self, workload: str, batch_size: int) -> list[PieceTime]:
        """Return the times of its primitives under its name here; empty if they were not measured there."""
        found = [
            row
            for row in self.reference.measurements
            if isinstance(row, PieceTime) and (row.workload, row.batch_size) == (workload, batch_size)
        ]
        suite = next((suite for suite in SUITES if any(row.suite == suite for row in found)), None)
        return [self._lent(row) for row in found if row.suite == suite]

    def _lent(self, row: PieceTime) -> PieceTime:
        target = Target.parse(row.target or "")
        here = replace(target, location=self.key if target.backend == CUDA else self.location)
        notes = {**row.notes, MACHINE: self.machine}
        return replace(row, target=str(here), device=here.device, notes=notes)


def key_of(name: str) -> str:
    """Return the name here of a GPU with a vendor's name: "h100" for "NVIDIA H100 80GB HBM3"."""
    return "_".join(re.findall(r"[a-z0-9]+", _LEFT_OUT.sub(" ", name).lower()))


def _of_a_gpu(table: pd.DataFrame) -> "pd.Series[bool]":
    timed = table["suite"].isin(SUITES) & table["primitive"].isin(PRIMITIVES) & (table["status"] != "failed")
    return timed & table["device"].astype(str).str.startswith(CUDA) & table["value"].notna()


@cache
def gpus() -> tuple[LentGpu, ...]:
    """Return the GPUs on which committed runs timed primitives, the last run first; one may be in several runs."""
    found = [
        LentGpu(key_of(accelerator["name"]), accelerator["device"], one)
        for one in reference.load(kept=_of_a_gpu)
        if one.measurements
        for accelerator in _first_cuda(one.run.machine)
    ]
    return tuple(sorted(found, key=lambda gpu: gpu.reference.run.started_at, reverse=True))


def _first_cuda(machine: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the device that mappings mean by "cuda", as a list of at most one."""
    usable = [one for one in machine.get("accelerators", ()) if one["kind"] == CUDA and one["usable"]]
    return usable[:1]


def devices() -> tuple[str, ...]:
    """Return the names of the GPUs that are lent, such as "h200"."""
    return tuple(sorted({gpu.key for gpu in gpus()}))


def cells(device: str) -> dict[str, dict[int, LentGpu]]:
    """Return the workloads and batch sizes at which a GPU was measured, each with the last run that did."""
    found: dict[str, dict[int, LentGpu]] = {}
    for gpu in gpus():
        for row in gpu.reference.measurements if gpu.key == device else ():
            if row.batch_size is not None:
                found.setdefault(row.workload, {}).setdefault(row.batch_size, gpu)
    return {workload: dict(sorted(sizes.items())) for workload, sizes in sorted(found.items())}


def measured(device: str, workload: str, batch_size: int) -> LentGpu:
    """Return the GPU with the last run that measured a workload at a batch size on it.

    Raises:
        UserError: no committed run did; the message says what was measured.
    """
    found = cells(device)
    if workload not in found:
        raise UserError(
            COMMAND_LINE, "workload", workload, f"what {device} was measured with: {', '.join(found)}"
        )
    sizes = found[workload]
    if batch_size not in sizes:
        allowed = f"what {device} was measured with: {', '.join(map(str, sizes))}"
        raise UserError(COMMAND_LINE, OptionName("batch_size"), batch_size, allowed)
    return sizes[batch_size]


def times(own: Iterable[PieceTime], gpu: LentGpu, workload: str, batch_size: int) -> list[PieceTime]:
    """Return the times of a machine's primitives, with those of a GPU of another machine.

    Args:
        own: the times of the machine, simulated ones as well.
    """
    host = [row for row in own if row.primitive.startswith(OWN)]
    acting = [
        replace(row, target=f"torch:{gpu.location}")
        for row in host
        if (row.primitive, row.target) == ("actor.infer", "torch")
    ]
    return [*host, *acting, *gpu.rows(workload, batch_size)]


def platform(host: PlatformFile, gpu: LentGpu, rows: Iterable[PieceTime]) -> PlatformFile:
    """Return a platform to which a GPU of another machine is added, with its memory and its link as they are there.

    Args:
        rows: the times of the platform's primitives; the simulated FPGA is added too if its times are among them.
    """
    if any(row.device == BOARD and row.value is not None for row in rows):
        host = simulated.with_device(host, BOARD)
    there = platforms.of_machine(Machine.model_validate(gpu.reference.run.machine))
    return host.with_device(there, gpu.device, gpu.location)


def predictions(
    workload: Workload,
    batch_size: int,
    own: Sequence[PieceTime],
    gpu: LentGpu,
    host: PlatformFile,
    changes: Sequence[str] = (),
) -> list[PredictedRate]:
    """Return what the strategies predict for a machine with a GPU of another machine, and what they choose.

    Args:
        own: the times of the machine's primitives; the simulated FPGA takes part if its times are among them.
        changes: numbers of the machine with the GPU to change (`platforms.what_if`).

    Returns:
        The rows of `predict.with_slow_links`, which are not to be stored; a note names the GPU's machine.
    """
    rows = times(own, gpu, workload.name, batch_size)
    devices = what_if.changed(platform(host, gpu, rows), changes)
    predicted = predict.with_slow_links(workload, batch_size, rows, devices, PREDICTING)
    return [replace(row, notes={MACHINE: gpu.note}) for row in predicted]
