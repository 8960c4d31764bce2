"""Selects the times of primitives on CPU, GPU and FPGA, and draws them over the batch size.

A primitive is an operation that is timed on its own: `learner.step`, `sum_tree.sample` or `sum_tree.update`.
"""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from placerl.harness.core.suites import Suite
from placerl.harness.mapping.candidates import REFERENCE
from placerl.harness.papers import charts
from placerl.harness.papers.charts import Panel
from placerl.harness.papers.evidence import number, records, select
from placerl.harness.papers.number import Number
from placerl.harness.papers.papers_own import PapersOwn
from placerl.harness.profile import simulated as simulated_profile

CPU, GPU, FPGA, OPENCL = "cpu", "cuda", "fpga", "opencl"
WORDS = {
    CPU: "the same on the CPU",
    GPU: "a CUDA device",
    FPGA: "FPGA primitives (simulated)",
}
FPGA_AND_GPU = f"{WORDS[GPU]} and {WORDS[FPGA]}"
NAMES = {CPU: "CPU", OPENCL: "OpenCL", GPU: "GPU", FPGA: "FPGA"}
"""Names of the kinds of devices, as readers see them."""
WITHOUT_LINK = (
    "The GPU's calls copy their data from the host and back; the FPGA's times are those of its cycles, without a "
    "link."
)
"""Said where times of both devices are compared."""
AT_MOST = "Both favour the FPGA, so that one ahead of a GPU is consistent with the paper at most."
"""Said where the paper has the FPGA ahead."""
OPERATIONS = {
    "learner.step": "gradient step",
    simulated_profile.PIPELINE: "gradient step in the FPGA's pipeline",
    "sum_tree.sample": "prefix sum index",
    "sum_tree.update": "priority update",
    simulated_profile.BANKED["sum_tree.sample"]: "prefix sum index with several sub-trees",
    simulated_profile.BANKED["sum_tree.update"]: "priority update with several sub-trees",
}
"""Names of the timed operations, as readers see them."""


def commands(workload: str, *batch_sizes: int) -> tuple[str, ...]:
    """Return the commands that profile a workload on this machine's devices and on the simulated FPGA.

    A claim lists such commands if only a large tier of the plan profiles the workload.
    """
    return tuple(
        f"placerl profile {workload} --batch-size {size}{device}"
        for size in batch_sizes
        for device in ("", " --device fpga:u200")
    )


def reads(workload: str) -> tuple[str, ...]:
    """Return the keys of the cells (pieces of the plan) that profile a workload's primitives."""
    return f"profile/{workload}", f"{simulated_profile.CELL}/{workload}"


def times(frame: pd.DataFrame, workload: str, *primitives: str) -> pd.DataFrame:
    """Return the times per call of some primitives of one workload, on real devices and on the simulated FPGA.

    Returns:
        The rows of `frame` with these times, except those of the reference backend. A column `kind` is added: the
        device's name up to the colon, such as "cpu", "cuda" or "fpga".
    """
    suites = (Suite.PROFILE, simulated_profile.SUITE)
    rows = select(frame, quantity="time_per_call", workload=workload)
    rows = rows[rows["suite"].isin(suites) & rows["primitive"].isin(primitives)]
    rows = rows[rows["backend"] != REFERENCE]
    return rows.assign(kind=rows["device"].str.split(":").str[0])


def learner_times(frame: pd.DataFrame, workload: str) -> pd.DataFrame:
    """Return the times of a workload's gradient step, on real devices and on the simulated FPGA.

    On the FPGA these are the times of two learners: the one on the systolic core, and MAP's pipeline.

    Returns:
        The rows of `frame` with these times, with a column `kind`: "cpu", "cuda" or "fpga".
    """
    return times(frame, workload, "learner.step", simulated_profile.PIPELINE)


def replay_times(frame: pd.DataFrame, workload: str, call: str) -> pd.DataFrame:
    """Return the times of a replay operation, on real devices and on the simulated FPGA.

    On the FPGA these are the times of two replay managers: with one sub-tree (S = 1), and with as many as MAP's
    exploration chooses (VI-A2), where a tier simulates it.

    Returns:
        The rows of `frame` with these times, with a column `kind`: "cpu", "cuda" or "fpga".
    """
    return times(frame, workload, call, simulated_profile.BANKED[call])


def _of_the_papers(frame: pd.DataFrame) -> pd.DataFrame:
    in_pytorch = (frame["backend"] == "torch") & frame["device"].str.split(":").str[0].isin((CPU, GPU))
    steps = (frame["primitive"] == "learner.step") & ~in_pytorch
    trained = (frame["suite"] == Suite.VALIDATION) & frame["mapping"].str.match(
        "native|opencl|cuda", na=False
    )
    return frame[~(steps | trained)]


LEARNERS_OF_THE_PAPERS = PapersOwn(
    "PyTorch on CPU and GPU, a pipeline with units for each layer on the FPGA", _of_the_papers
)
"""The learners of MAP (VI-B) and of PRL (4.2.1)."""


def fastest_rows(rows: pd.DataFrame) -> dict[str, dict[int, Any]]:
    """Return the measurement of the fastest backend of each kind of device at each batch size, as a named tuple.

    Returns:
        The measurements by kind of device ("cpu", "cuda", "fpga"), and then by batch size.
    """
    by_kind: dict[str, dict[int, Any]] = {}
    first = rows.groupby(["kind", "batch_size"])["value"].idxmin()
    for row in records(rows.loc[first]):
        by_kind.setdefault(row.kind, {})[int(row.batch_size)] = row
    return by_kind


def fastest(rows: pd.DataFrame) -> dict[str, dict[int, Number]]:
    """Return the time of the fastest backend of each kind of device at each batch size.

    Returns:
        The times by kind of device ("cpu", "cuda", "fpga"), and then by batch size.
    """
    return {
        kind: {size: number(row, _name(row)) for size, row in by_size.items()}
        for kind, by_size in fastest_rows(rows).items()
    }


def _name(row: Any) -> str:
    where = row.device if row.backend == row.kind else f"{row.backend} on {row.device}"
    return f"{OPERATIONS.get(row.primitive, row.primitive)}, {where}, batch size {row.batch_size}"


def lacking(by_kind: dict[str, dict[int, Number]], *kinds: str) -> str:
    """Return a text that names the devices whose times a check needs and does not have; empty if none is missing."""
    return " and ".join(WORDS[kind] for kind in kinds if kind in WORDS and kind not in by_kind)


def shared_sizes(by_kind: dict[str, dict[int, Number]]) -> list[int]:
    """Return the batch sizes at which all kinds of devices that have times have one, ascending.

    Args:
        by_kind: times from `fastest`, by kind of device; kinds other than CPU, GPU and FPGA do not count.
    """
    kinds = [kind for kind in (CPU, GPU, FPGA) if kind in by_kind]
    return sorted(set.intersection(*(set(by_kind[kind]) for kind in kinds))) if kinds else []


def missing_sizes(sizes: Collection[int], small: int, large: int) -> str:
    """Return a text that names the sizes that a statement on small and large batches lacks; empty if none is missing.

    Args:
        large: the least batch size that counts as large.
    """
    missing = []
    if not any(size <= small for size in sizes):
        missing.append(f"of at most {small}")
    if not any(size >= large for size in sizes):
        missing.append(f"of at least {large}")
    if not missing:
        return ""
    there = ", ".join(map(str, sorted(sizes))) or "none"
    return f"a batch size {' and one '.join(missing)} (found: {there})"


def listed(by_kind: dict[str, dict[int, Number]]) -> tuple[Number, ...]:
    """Return times in one list, sorted by kind of device and batch size."""
    return tuple(by_kind[kind][size] for kind in sorted(by_kind) for size in sorted(by_kind[kind]))


def panel(rows: pd.DataFrame, title: str, published_x: Sequence[tuple[str, float]] = ()) -> Panel:
    """Return the axes of a chart with the time over the batch size, one line per kind of device.

    The line of a kind of device, such as the GPU, shows its fastest backend.

    Args:
        published_x: batch sizes that the paper names, each as (label, batch size).
    """
    by_kind = fastest(rows)
    return Panel(
        "batch size",
        "time per call (s)",
        [charts.line(NAMES[kind], sorted(by_kind[kind].items())) for kind in NAMES if kind in by_kind],
        title,
        log_x=True,
        log_y=True,
        published_x=published_x,
    )
