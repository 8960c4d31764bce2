"""What a choice of mapping loses by the papers' models, where no machine has all of its devices.

A GPU of another machine (`harness.profile.lent`) and a simulated FPGA can be chosen, but not run together with the CPU
here. So a choice is judged by what a model predicts for every mapping. Two models judge, each for its loop: MAP's
Equation 3, in which everything overlaps and transfers cost nothing, and PRL's Equation 6, which counts them. What MAP,
PRL and PAL choose is judged by both, as is keeping every part in native code on the CPU.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placerl.harness.mapping import STRATEGIES, predict
from placerl.harness.mapping.metrics import regret
from placerl.harness.mapping.target import NATIVE_MAPPING
from placerl.harness.platforms import PlatformFile
from placerl.harness.profile import lent
from placerl.harness.profile.lent import LentGpu
from placerl.harness.store.rows import PieceTime, PredictedRate
from placerl.harness.validate.regret import BEST, Loss
from placerl.harness.workloads import Workload

JUDGES = ("map-tpds23", "pearl24")
"""The strategies whose models judge."""
CHOOSERS = ("map-tpds23", "pearl24", "pal21")
"""The papers' strategies, whose choices are judged."""
NATIVE = "native CPU"
"""The choice of native code on the CPU for every part."""
COLUMNS = (
    "workload",
    "batch size",
    "devices",
    "judged by",
    "best mapping",
    "gradient steps/s",
    NATIVE,
    *CHOOSERS,
)
STRATEGIES_HERE = {name: STRATEGIES[name] for name in CHOOSERS}
SAME = 1e-9
"""Relative difference up to which two predictions are the same: many mappings differ in what a model does not count."""


@dataclass(frozen=True)
class JudgedCell:
    """The choices for one workload and batch size, judged by one model.

    Attributes:
        workload, batch_size: the cell.
        devices: the devices that could be chosen, such as "cpu, cuda:h200".
        machine: which of them is another machine's, and of which.
        judge: the strategy whose model judges.
        best: the mapping for which it predicts the highest throughput.
        losses: what each choice loses against that one, by strategy or `NATIVE`; None if the model predicts nothing for
            the choice, or there is none.
        chosen: the choices, as mappings, by the same names.
    """

    workload: str
    batch_size: int
    devices: str
    machine: str
    judge: str
    best: PredictedRate
    losses: Mapping[str, Loss | None]
    chosen: Mapping[str, str]

    @property
    def has_board(self) -> bool:
        """Return whether the simulated FPGA could be chosen."""
        return lent.BOARD in self.devices

    @property
    def line(self) -> tuple[str, ...]:
        """Return the cell as texts, one for each of `COLUMNS`; "~": too noisy, "?": no verdict."""
        noise = "~" if self.best.status == "too_noisy" else ""
        return (
            self.workload,
            f"{self.batch_size:,}",
            self.devices,
            f"{self.judge} ({STRATEGIES[self.judge].loop})",
            self.best.mapping,
            f"{noise}{self.best.value:,.0f}",
            *(_text(loss) for loss in self.losses.values()),
        )


def _text(loss: Loss | None) -> str:
    if loss is None:
        return "–"
    return f"{loss.value:.1%}" + (" ?" if loss.verdict == "no verdict" else "")


def with_gpu(
    workload: Workload,
    batch_size: int,
    own: Sequence[PieceTime],
    counted: Sequence[PieceTime],
    gpu: LentGpu,
    host: PlatformFile,
) -> list[JudgedCell]:
    """Return the choices for a machine with a GPU of another machine, then those with the simulated FPGA as well.

    Args:
        own: times of calls on this machine.
        counted: those on the simulated FPGA; without any there are no choices with it.
    """
    cells = []
    for more in ((), counted) if any(row.value is not None for row in counted) else ((),):
        rows = lent.times([*own, *more], gpu, workload.name, batch_size)
        platform = lent.platform(host, gpu, rows)
        predicted = predict.measurements(workload, batch_size, rows, platform, STRATEGIES_HERE)
        devices = f"cpu, {gpu.location}" + (f", {lent.BOARD}" if more else "")
        cells += judged(predicted, devices, gpu.note)
    return cells


def judged(rows: Iterable[PredictedRate], devices: str, machine: str) -> list[JudgedCell]:
    """Return the choices for one workload and batch size, judged by each model that predicts something.

    Args:
        rows: the predictions of the strategies (`harness.mapping.predict`).
        machine: which of them is another machine's, and of which.
    """
    predicted = [row for row in rows if row.value is not None]
    chosen = {row.strategy: row.mapping for row in predicted if row.chosen and row.strategy in CHOOSERS}
    chosen = {NATIVE: NATIVE_MAPPING} | {name: chosen[name] for name in CHOOSERS if name in chosen}
    return [
        _judged(of_judge, judge, devices, machine, chosen)
        for judge in JUDGES
        if (of_judge := [row for row in predicted if row.strategy == judge])
    ]


def _judged(
    rows: Sequence[PredictedRate], judge: str, devices: str, machine: str, chosen: Mapping[str, str]
) -> JudgedCell:
    by_mapping = {row.mapping: row for row in rows}
    most = max(row.value or 0.0 for row in rows)
    equal = [row for row in rows if (row.value or 0.0) >= most * (1 - SAME)]
    best = max(equal, key=lambda row: (bool(row.chosen), row.mapping == NATIVE_MAPPING))
    assert best.batch_size is not None, "predictions are for a batch size"
    losses = {
        name: _loss(by_mapping[chosen[name]], best) if chosen.get(name) in by_mapping else None
        for name in (NATIVE, *CHOOSERS)
    }
    return JudgedCell(best.workload, best.batch_size, devices, machine, judge, best, losses, chosen)


def _loss(choice: PredictedRate, best: PredictedRate) -> Loss:
    """Return what a choice loses; without a verdict if noise of the times alone could make it the best."""
    assert choice.value is not None, "only predictions are judged"
    assert best.value is not None, "only predictions are judged"
    if choice.value >= best.value * (1 - SAME):
        return BEST
    value = regret(choice.value, [best.value])
    if None in (choice.low, choice.high, best.low, best.high):
        return Loss(value, None, None, "no verdict", "a prediction has no interval")
    low, high = 1 - choice.high / best.low, 1 - choice.low / best.high  # type: ignore[operator]
    if low > 0:
        return Loss(value, low, high, "lost", "")
    return Loss(value, low, high, "no verdict", "the intervals of the predictions overlap")


def summary(cells: Sequence[JudgedCell]) -> list[str]:
    """Return how often each mapping is the best and what each choice loses, as lines of text, by devices and model."""
    lines = []
    for devices, judge in dict.fromkeys((cell.devices, cell.judge) for cell in cells):
        mine = [cell for cell in cells if (cell.devices, cell.judge) == (devices, judge)]
        counts: dict[str, int] = {}
        for cell in mine:
            counts[cell.best.mapping] = counts.get(cell.best.mapping, 0) + 1
        best = ", ".join(
            f"{name} ({count})" for name, count in sorted(counts.items(), key=lambda one: -one[1])
        )
        lost = ", ".join(
            f"{name} {_text(max(losses, key=lambda loss: loss.value))}"
            for name in (NATIVE, *CHOOSERS)
            if (losses := [loss for cell in mine if (loss := cell.losses[name])])
        )
        lines.append(f"{devices}, by {judge}, {len(mine)} cells: best {best}; at most lost: {lost}.")
    return lines
