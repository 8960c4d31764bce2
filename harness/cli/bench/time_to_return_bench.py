"""Measures the seconds that this project and other libraries train until they reach a return and hold it.

    placerl bench time-to-return [--goals cartpole-ppo] [--systems placerl,sb3] [--seeds 10]

Each system trains at its own best settings, whose sources `harness/compare/own_settings.toml` states; this project
trains the shipped workload. The rule is the same for all (`harness.compare.curves`): the mean return of 20 greedy
episodes is taken after every so many environment steps, from 20 gaps on after each 5% more, and five such means in a
row must be at the return or above. The time is that of the first of them, without the evaluations' own.

The seconds of a system are those in which half of the seeds, or more, had arrived: with ten seeds, the fifth to arrive.
If fewer arrive within the budget, it takes more than the budget; a training that failed never arrived. All systems
train with one seed before the next seed begins, one after another, with one thread. The same command goes on with an
interrupted run.
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from placerl.harness.cli.bench.command import Bench, chosen, joined, section
from placerl.harness.compare.arrivals import COLUMNS, lines
from placerl.harness.compare.curves import CurveOf, Extent
from placerl.harness.compare.own_settings import Goal, goals
from placerl.harness.core.suites import Suite
from placerl.harness.runtime.seed_order import interleaved
from placerl.harness.store.rows import LearningCurve

SUITE = Suite.BENCH_TIME_TO_RETURN
GROWTH = 0.05
SEEDS = 10
DEFAULT = ("cartpole-dqn", "cartpole-ppo", "pendulum-sac")


def table(asked: Sequence[tuple[Goal, Sequence[str]]], rows: Sequence[LearningCurve]) -> str:
    """Return the results as Markdown: a table for each goal, with the sources of the settings."""
    text = [
        "# Seconds to a return",
        "",
        "Seconds of training in which half of the seeds reached the return and held it; one thread, measured. A "
        "training that failed never arrived. Start: seconds before a system learns (imports, compilation, first "
        "steps), in no other column.",
        "",
    ]
    for goal, systems in asked:
        mine = {
            name: [row for row in rows if (row.workload, row.system) == (goal.name, name)] for name in systems
        }
        text += section(f"{goal.name}: {goal.threshold:g}", COLUMNS, lines(mine))
        for name, some in mine.items():
            reasons = dict.fromkeys(row.reason for row in some if row.reason)
            sources = dict.fromkeys(row.settings_from for row in some)
            text += [f"- {name}: {said}" for said in (*reasons, *sources)]
        text.append("")
    return "\n".join(text)


def bench(
    names: Annotated[
        str, typer.Option("--goals", help="Tasks with a return to reach, separated by commas, or `all`.")
    ] = joined(DEFAULT),
    systems: Annotated[
        str,
        typer.Option(
            "--systems",
            help="`placerl` and other libraries, separated by commas; all of a goal when left out.",
        ),
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, from 0.")] = SEEDS,
    budget_s: Annotated[
        float | None,
        typer.Option("--budget-s", min=0.1, help="Seconds of each training; the goal's own when left out."),
    ] = None,
) -> Bench[LearningCurve]:
    """Train here and in other libraries, each at its best settings, until a return is reached and held.

    A library whose environment is not built is named with the command that builds it.
    """
    known = goals()
    some = [known[name] for name in (known if names == "all" else chosen("--goals", names, tuple(known)))]
    every = tuple(dict.fromkeys(name for goal in some for name in goal.systems))
    wanted = chosen("--systems", systems, every) if systems else every
    asked = [(goal, [name for name in goal.systems if name in wanted]) for goal in some]
    cells = [
        CurveOf.of(SUITE, goal, name).cell(extent_of(goal, budget_s), seed, budget_s or goal.budget_s)
        for goal, mine in asked
        for seed, name in interleaved(range(seeds), mine)
    ]
    return Bench(
        SUITE,
        LearningCurve,
        cells,
        partial(table, asked),
        selecting=("names", "systems", "seeds", "budget_s"),
    )


def extent_of(goal: Goal, budget_s: float | None) -> Extent:
    """Return when the trainings of a goal are evaluated, and end: once the return is held, or after the budget."""
    return Extent(goal.gap, GROWTH, budget_s=budget_s or goal.budget_s, threshold=goal.threshold)
