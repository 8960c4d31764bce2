"""Compares whole trainings without a GPU: this project and other libraries on the same workload, in interleaved rounds.

    placerl bench training [--cells cartpole-ppo] [--mapping native-native-cpu] [--flush-subnormals]

This project steps native environments, whose trajectories are Gymnasium's to the last bit, and its whole loop is C++ on
one thread. Other libraries step what they come with: Gymnasium's, except for PufferLib's and RLtools' own.
`harness.compare.rounds` describes the rounds, the comparison of this project with itself, and that of the returns after
the same number of steps. The seconds before a system learns (imports, compilation, its first steps) have a column of
their own and count in no rate. The table also has the measured peak arithmetic of a core, and says whether a goal that
is a number is met.

This project's native learner treats subnormal numbers as zero. With `--flush-subnormals` the libraries that compute
with PyTorch run once more with that switch (`torch.set_flush_denormal`), in the same rounds and within the same
budget, and have a second line in the table.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import typer

from placerl.harness import workloads
from placerl.harness.cli.bench.command import Bench, chosen, joined, reached, section, shown
from placerl.harness.cli.compare_command import departures, returns
from placerl.harness.compare import rounds
from placerl.harness.compare.equal_steps import FASTER, NOT_COMPARED, StepExtent
from placerl.harness.compare.parts import our_side
from placerl.harness.core.errors import UserError
from placerl.harness.core.progress import Report
from placerl.harness.mapping import Mapping
from placerl.harness.plan import tiers
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import ComparisonResult as Result
from placerl.harness.store.store import Run
from placerl.harness.workloads import Workload
from placerl.primitives import _native

NAME = "bench-training"
DEFAULT_MAPPING = "native-native-cpu"
SB3_DEFAULTS = {
    "training.actors": 1,
    "algorithm.trajectory_length": 2048,
    "algorithm.policy_learning_rate": 3e-4,
    "algorithm.value_learning_rate": 3e-4,
    "algorithm.target_kl": None,
    "algorithm.maximum_gradient_norm": 0.5,
    "network.activation": "tanh",
    "replay.capacity": 2048,
    "training.learning_starts": 2048,
    "training.batch_size": 64,
    "training.update_interval": 6,
}
"""The fields of workload hopper-ppo that differ if it is trained with Stable-Baselines3's default settings of PPO."""


@dataclass(frozen=True)
class TrainingCell:
    """A workload that this project and other libraries train in the same rounds, with a goal for this project.

    Attributes:
        workload: the shipped workload that it is made from.
        changes: fields of the shipped workload that differ, such as "training.actors", with their new values.
        rate: the rate of this project that must be at least `at_least`: "trained" (samples in gradient steps per
            second) or "gradient" (gradient steps per second); "" if the goal is relative to something else.
        alone: the part of this project's loop whose rate alone the goal is relative to, "environment" or "learner";
            "" if there is none. On one thread, the loop has the fraction of that rate that the part has of the time.
        at_least: the lowest rate on one core that meets the goal, 1/s, or the lowest fraction of the rate of `alone`.
        level_with: a baseline whose throughput this project must reach; "" if there is none.
    """

    name: str
    workload: str
    baselines: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    goal: str = ""
    rate: str = ""
    alone: str = ""
    at_least: float = 0.0
    level_with: str = ""

    def item(self) -> Workload:
        """Return the workload with the changes made, under the name of this object."""
        item = workloads.load(self.workload)
        tables = item.tables()
        for place, value in {**self.changes, "name": self.name}.items():
            *path, last = place.split(".")
            table = tables
            for part in path:
                table = table[part]
            if value is None:
                table.pop(last, None)
            else:
                table[last] = value
        sizes = [size for size in tables["training"]["batch_sizes"] if size <= tables["replay"]["capacity"]]
        tables["training"]["batch_sizes"] = sizes
        return workloads.from_tables(tables, f"cell {self.name}")


PPO = ("sb3", "sbx", "cleanrl_style", "torchrl", "pufferlib")
OFF_POLICY = ("sb3", "sbx", "cleanrl_style", "torchrl")
SMALL: dict[str, Any] = {"network.hidden": [8, 8]}
SIXTEEN: dict[str, Any] = {"training.actors": 16, "training.update_interval": 1}
CELLS = (
    TrainingCell(
        "cartpole-ppo-1-epoch",
        "cartpole-ppo",
        PPO,
        {"algorithm.epochs": 1, "training.update_interval": 256},
        "800,000 trained steps/s on one core",
        rate="trained",
        at_least=8e5,
    ),
    TrainingCell(
        "cartpole-dqn-8-8",
        "cartpole-dqn",
        OFF_POLICY,
        SMALL,
        "60,000 gradient steps/s with one environment",
        rate="gradient",
        at_least=6e4,
    ),
    TrainingCell(
        "cartpole-dqn-8-8-16-actors",
        "cartpole-dqn",
        OFF_POLICY,
        {**SMALL, **SIXTEEN},
        "100,000 gradient steps/s with inference over 16 environments",
        rate="gradient",
        at_least=1e5,
    ),
    TrainingCell(
        "cartpole-ddpg-8-8",
        "cartpole-ddpg",
        OFF_POLICY,
        {"training.update_interval": 1},
        "60,000 gradient steps/s with one environment",
        rate="gradient",
        at_least=6e4,
    ),
    TrainingCell(
        "cartpole-ddpg-8-8-16-actors",
        "cartpole-ddpg",
        OFF_POLICY,
        SIXTEEN,
        "100,000 gradient steps/s with inference over 16 environments",
        rate="gradient",
        at_least=1e5,
    ),
    TrainingCell(
        "hopper-ppo-sb3",
        "hopper-ppo",
        PPO,
        SB3_DEFAULTS,
        "80% of the rate of the environment alone",
        alone="environment",
        at_least=0.8,
    ),
    TrainingCell(
        "hopper-ddpg-256",
        "hopper-ddpg",
        OFF_POLICY,
        {},
        "95% of the rate of the learner alone",
        alone="learner",
        at_least=0.95,
    ),
    TrainingCell(
        "pendulum-sac-64",
        "pendulum-sac",
        ("sb3", "sbx", "cleanrl_style", "torchrl", "rltools"),
        {},
        "wall time level with RLtools over the same steps",
        level_with="rltools",
    ),
)
PYTORCH = ("sb3", "cleanrl_style", "torchrl", "pufferlib")
"""The libraries that compute with PyTorch, and so can flush subnormal numbers to zero."""
PEERS = tuple(dict.fromkeys(name for cell in CELLS for name in cell.baselines))
_COLUMNS = (
    "side",
    "gradient steps/s",
    "environment steps/s",
    "samples trained/s",
    "ours / its [95%]",
    "return at equal steps",
    "start, s",
    "verdict",
)
OURS = "this project"


def measure(
    cell: TrainingCell,
    mapping: Mapping,
    baselines: Sequence[str],
    budget_s: float,
    extent: StepExtent | None,
    report: Report,
    *,
    flushed: bool = False,
) -> Sequence[Result]:
    """Time this project and other libraries on a workload in the same rounds, and compare what they learn.

    Args:
        extent: how long both systems of each comparison are trained for their returns; None: not at all.
        flushed: whether the libraries in `PYTORCH` run once more with subnormal numbers treated as zero.

    Returns:
        The rows of `harness.compare.rounds.compare`.
    """
    settings = rounds.ComparisonSettings(
        returns=extent,
        ours=our_side(cell.item(), mapping),
        flushed=[name for name in baselines if name in PYTORCH] if flushed else [],
    )
    return rounds.compare(
        cell.item(), mapping, baselines, budget_s=budget_s, progress=report, settings=settings
    )


def judged(cell: TrainingCell, rows: Sequence[Result]) -> str:
    """Return the goal of a workload, and whether this project meets it, as text.

    A rate meets the goal if its whole interval is at or above it, and misses it if the whole interval is below it; so
    does a part's fraction of the time, if the goal is relative to the rate of that part alone. A
    goal to be level with another library is met and missed by the verdict of the comparison, "faster" and "slower",
    which also heeds how this project compares with itself and, for "faster", the returns.
    """
    if cell.level_with:
        ratio = next((row for row in _ratios(rows) if _name(row) == cell.level_with), None)
        return f"{cell.goal}: {_level(ratio)}"
    ours = next((row for row in rows if row.part == "ours" and row.value is not None), None)
    if cell.alone:
        share = next((row for row in rows if row.part == f"ours, {cell.alone}, of the time"), None)
        return (
            f"{cell.goal}: {_against(share, cell.at_least, share.value if share else None, ' of the time')}"
        )
    scale = (ours.batch_size or 1) if ours and cell.rate == "trained" else 1
    value = ours.value * scale if ours and ours.value is not None else None
    return f"{cell.goal}: {_against(ours, cell.at_least / scale, value, '/s')}"


NOT_TIMED = "not run: this project or the other side was not timed"
_LEVEL = {FASTER: "met", NOT_COMPARED: "met in throughput", "slower": "missed"}
"""What verdicts of a comparison say about the goal to be level; the others leave it open."""


def _level(row: Result | None) -> str:
    """Return a ratio of throughputs, and what the verdict of its comparison says about being level."""
    if row is None:
        return NOT_TIMED
    verdict = str(row.verdict)
    said = f"{_LEVEL[verdict]} ({verdict})" if verdict in _LEVEL else verdict
    return f"{row.value:,.4g}x its throughput, {said}"


def _against(row: Result | None, at_least: float, value: float | None, unit: str) -> str:
    """Return a value beside the least that is asked for."""
    if row is None or row.value is None or value is None:
        return NOT_TIMED
    low, high = row.low or row.value, row.high or row.value
    return f"{value:,.4g}{unit}, {reached(low, high, at_least)}"


def _name(row: Result) -> str:
    """Return the baseline of a comparison, without what is said of this project."""
    return _shown_name(str(row.baseline))


def _shown_name(baseline: str) -> str:
    return baseline.partition(", this project")[0]


def _ratios(rows: Sequence[Result]) -> Sequence[Result]:
    return [row for row in rows if row.quantity == "throughput_ratio" and row.value is not None]


def _find(rows: Sequence[Result], baseline: str, quantity: str, part: str | None = None) -> Result | None:
    """Return the row of a comparison, if it has a value."""
    for row in rows:
        here = (row.baseline, row.quantity) == (baseline, quantity)
        if here and row.value is not None and part in (None, row.part):
            return row
    return None


def lines(rows: Sequence[Result], batch_size: int) -> list[list[str]]:
    """Return the lines of a workload's table, as text for each column: this project's, then one per baseline.

    A baseline that was not timed has the reason in its line.
    """
    baselines = list(dict.fromkeys(str(row.baseline) for row in rows))
    sides = [_side(OURS, rows, (name, "ours"), batch_size) for name in baselines]
    table = [next((line for line in sides if line[1]), [OURS, *[""] * (len(_COLUMNS) - 1)])]
    for name in baselines:
        line = _side(_shown_name(name), rows, (name, "theirs"), batch_size)
        ratio = _find(rows, name, "throughput_ratio")
        if ratio and ratio.low is not None and ratio.high is not None:
            line[4] = shown(ratio)
            line[-1] = str(ratio.verdict)
        else:
            reasons = [row.reason for row in rows if row.baseline == name and row.value is None]
            line[-1] = next(iter(reasons), "")
        table.append(line)
    return table


def _side(name: str, rows: Sequence[Result], of: tuple[str, str], batch_size: int) -> list[str]:
    """Return one side's cells, empty where there is no value."""
    baseline, part = of
    rate = _find(rows, baseline, "gradient_steps_per_s", part)
    steps = _find(rows, baseline, "environment_steps_per_s", f"{part}, environment")
    learnt = _find(rows, baseline, "return_at_equal_steps", f"{part}, return")
    interval = shown(learnt, 1, ".4g") if learnt else ""
    return [
        name,
        _shown(rate, lambda value: value),
        _shown(steps, lambda value: value),
        _shown(rate, lambda value: value * batch_size),
        "",
        interval,
        f"{rate.start_s:.1f}" if rate else "",
        "",
    ]


def _shown(row: Result | None, scaled: Callable[[float], float]) -> str:
    return "" if row is None or row.value is None else f"{scaled(row.value):,.4g}"


def table(cells: Sequence[TrainingCell], mapping: str, rows: Sequence[Result]) -> str:
    """Return the results as Markdown: a table for each workload, its goal, and notes.

    The notes compare the returns, and say how each library's training differs from the workload as stated.
    """
    text = [
        "# Training without a GPU",
        "",
        f"One thread a side, in interleaved rounds; this project under {mapping}, with native environments. Peak of "
        f"one core: {_native.learner.peak_gflops():.4g} GFLOP/s in float32. Medians; the ratio, of gradient steps or "
        "for PPO of environment steps, is of the faster halves' means, from pairs of the same rounds. Start: imports, "
        "compilation and the steps before learning, in no rate. Provenance: measured.",
        "",
    ]
    for cell in cells:
        mine = [row for row in rows if row.workload == cell.name]
        text += section(cell.name, _COLUMNS, lines(mine, cell.item().training.batch_size))
        text += [f"Goal: {judged(cell, mine)}.", ""]
        text += [f"- {line}" for line in (*returns(mine), *departures(mine))] + [""]
    return "\n".join(text)


def bench(
    cells: Annotated[str, typer.Option("--cells", help="Only cells whose name contains this.")] = "",
    baselines: Annotated[
        str, typer.Option("--baselines", help="Other libraries, separated by commas.")
    ] = joined(PEERS),
    mapping: Annotated[str, typer.Option("--mapping", help="This project's mapping.")] = DEFAULT_MAPPING,
    budget_s: Annotated[
        float, typer.Option("--budget-s", min=0, help="Seconds of one cell's rounds; 15 are the fewest.")
    ] = 90.0,
    no_returns: Annotated[
        bool, typer.Option("--no-returns", help="Leave out the trainings for the returns.")
    ] = False,
    flush_subnormals: Annotated[
        bool,
        typer.Option(
            "--flush-subnormals",
            help="Run PyTorch's libraries once more with subnormal numbers flushed to zero, as the native learner has "
            "them.",
        ),
    ] = False,
) -> Bench[Result]:
    """Train in this project and in other libraries, without a GPU, and compare speeds and returns."""
    some = [cell for cell in CELLS if cells in cell.name]
    if not some:
        raise UserError("command line", "--cells", repr(cells), "a part of a cell's name")
    wanted, side = chosen("--baselines", baselines, PEERS), Mapping.parse(mapping)
    beside = [(cell, [name for name in cell.baselines if name in wanted]) for cell in some]
    if not any(others for _, others in beside):
        theirs = dict.fromkeys(name for cell in some for name in cell.baselines)
        raise UserError(
            "command line", "--baselines", repr(baselines), f"one at least of {', '.join(theirs)}"
        )
    for cell, others in beside:
        if not others:
            typer.echo(f"left out: {cell.name}, which is compared with {', '.join(cell.baselines)}", err=True)

    def measured(cell: TrainingCell, others: Sequence[str], run: Run, report: Report) -> Sequence[Result]:
        extent = None if no_returns else tiers.tier(run.record.tier).returns
        return measure(cell, side, others, budget_s, extent, report, flushed=flush_subnormals)

    timed = [(cell, others) for cell, others in beside if others]
    return Bench(
        NAME,
        Result,
        [Cell(f"{NAME}/{cell.name}", budget_s, partial(measured, cell, others)) for cell, others in timed],
        partial(table, [cell for cell, _ in timed], mapping),
        selecting=("cells",),
    )
