"""Measures how many steps per second environments take on one core.

    placerl bench environments [--environments CartPole-v1,Hopper-v5] [--count 1024]

It times this project's native environments, Gymnasium's, EnvPool's, PufferLib's and, for MuJoCo, `mj_step` alone (the
simulator without the rest of the environment). Those of one environment take turns. Before they are timed, the native
ones must equal Gymnasium's bit for bit. `mj_step` alone repeats a run that was recorded from the native environments,
and must end in the same states, bit for bit. PufferLib's environments in C have rules of their own; they run in the
environment of its trainer (`baselines/pufferlib`), which `--build` creates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import typer
from placerl.primitives._native import environments as native

from placerl.harness.cli.bench import environment_cases as cases_of
from placerl.harness.cli.bench.command import Bench, BuildOption, cell, chosen, joined, reached, section
from placerl.harness.cli.bench.environment_cases import Recording, Stepping
from placerl.harness.core import simulator_warnings
from placerl.harness.core.progress import Report
from placerl.harness.core.suites import Suite
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.store.rows import BenchResult
from placerl.primitives import environments

SUITE = Suite.BENCH_ENVIRONMENTS
MILLION = 1e6
GOALS_PER_S = {
    "CartPole-v1": 50 * MILLION,
    "Pendulum-v1": 10 * MILLION,
    "MountainCar-v0": 10 * MILLION,
    "MountainCarContinuous-v0": 10 * MILLION,
    "Acrobot-v1": 10 * MILLION,
}
"""Environment steps per second on one core that the native environments should reach."""
GOAL_OF_BARE = 0.95
"""Fraction of the rate of `mj_step` alone that the native MuJoCo environments should reach."""
SMALL_COUNT = 16
"""Environments of a vector of MuJoCo's or of LunarLander, whose steps take longer."""
COLUMNS = ("native", "Gymnasium", "EnvPool", "PufferLib", "mj_step alone", "sines alone")
OTHERS: dict[str, Callable[[str], str]] = {
    "EnvPool": cases_of.envpool_reason,
    "PufferLib": cases_of.pufferlib_reason,
}
"""Libraries that may be missing, and why each cannot step an environment here; empty if it can."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentResult(BenchResult, table="environment_result"):
    """The time of some steps of a vector of environments; the batch size is the number of environment steps.

    Attributes:
        environments: number of environments in the vector.
        sine: the function by which native environments compute sines.
    """

    environments: int | None = None
    sine: str | None = None


def stepping_of(id: str, count: int) -> Stepping:
    """Return which environments a timed call steps, and for how many steps.

    A call takes one step of a vector of classic control, or four steps of a smaller vector, whose steps take longer.
    """
    return Stepping(id, count, 1) if id in native.classic_ids() else Stepping(id, SMALL_COUNT, 4)


def cases(stepping: Stepping) -> list[Case[Any]]:
    """Return the functions to time for one environment: a case for each implementation that can run on this machine."""
    if stepping.id in native.mujoco_files():
        implementations: list[Case[Any]] = [*cases_of.repeated_cases(stepping, Recording.of(stepping))]
    else:
        implementations = [cases_of.native_case(stepping)]
    if stepping.id in native.classic_ids():
        implementations.append(cases_of.sines_case(stepping))
    implementations.append(cases_of.gymnasium_case(stepping))
    # ContinuousCartPole-v0 is this project's; EnvPool says itself what it has.
    if not cases_of.envpool_reason(stepping.id):
        implementations.append(cases_of.envpool_case(stepping))
    if not cases_of.pufferlib_reason(stepping.id):
        implementations.append(cases_of.pufferlib_case(stepping))
    return implementations


def environment_steps(name: str, stepping: Stepping) -> int:
    """Return the number of environment steps in a timed call of one implementation of an environment."""
    return cases_of.gymnasium_steps(stepping) if name == "Gymnasium" else stepping.environment_steps


def rows_of(stepping: Stepping, timings: Mapping[str, Timing]) -> Sequence[EnvironmentResult]:
    """Return the timings of one environment as rows of the store, and a row with the reason if EnvPool cannot run."""
    rows = [
        timing.measurement(
            EnvironmentResult,
            suite=SUITE,
            workload=stepping.id,
            primitive="environment.step",
            backend=name,
            device="cpu",
            batch_size=environment_steps(name, stepping),
            environments=stepping.count,
            sine=environments.sine_source(),
        )
        for name, timing in timings.items()
    ]
    for name, reason_of in OTHERS.items():
        if reason := reason_of(stepping.id):
            row = Timing(name, "failed", reason).measurement(
                EnvironmentResult,
                suite=SUITE,
                workload=stepping.id,
                primitive="environment.step",
                backend=name,
                device="cpu",
                batch_size=stepping.environment_steps,
            )
            rows.append(replace(row, status="not_run"))
    return rows


def rate(row: EnvironmentResult | None) -> tuple[float, float, float] | None:
    """Return environment steps per second with the bounds of their 95% interval; None if there is no time."""
    if row is None or row.value is None:
        return None
    steps = row.batch_size or 0
    return steps / row.value, steps / (row.high or row.value), steps / (row.low or row.value)


def verdict(id: str, rates: Mapping[str, tuple[float, float, float] | None]) -> tuple[str, str]:
    """Return the speed that the native environments should reach, and whether they reach it, as two texts.

    The goal is "met" if the whole interval of the speed is at or above it, and "missed" if the whole interval is below.

    Args:
        rates: environment steps per second with the bounds of their interval, by implementation, such as "native".
    """
    mine, bare = rates.get("native"), rates.get("mj_step alone")
    if mine is None:
        return "-", "not measured"
    if id in GOALS_PER_S:
        goal = GOALS_PER_S[id]
        text, (share, low, high) = f"{goal / MILLION:.0f} million/s", (rate / goal for rate in mine)
    elif bare is not None:
        text = f"{GOAL_OF_BARE:.0%} of mj_step alone"
        share, low, high = (
            over / under / GOAL_OF_BARE for over, under in zip(mine, (bare[0], bare[2], bare[1]), strict=True)
        )
    else:
        return "-", "-"
    said = reached(low, high, 1)
    sines = rates.get("sines alone")
    bound = (
        f", where sines alone reach {sines[0] / mine[0] * share:.0%}" if sines and id in GOALS_PER_S else ""
    )
    return text, said if said == "met" else f"{said}: {share:.0%} of the goal{bound}"


def _text(row: EnvironmentResult | None) -> str:
    interval = rate(row)
    if interval is None or row is None:
        return "not run" if row is None else row.status.replace("_", " ")
    middle, low, high = (f"{number:,.0f}" for number in interval)
    return f"{'~' if row.status == 'too_noisy' else ''}{middle} [{low}, {high}]"


def table(rows: Sequence[EnvironmentResult], absent: Sequence[str] = ()) -> str:
    """Return the results as Markdown: a table with one row per environment, then what failed or could not run."""
    lines = [
        "# Environments on one core",
        "",
        "Environment steps per second, median and 95% interval over the rounds; provenance: measured; ~ too noisy. "
        "Native, EnvPool and PufferLib step vectors, Gymnasium one environment in a loop. "
        f"Sine: {environments.sine_source()}. Sines alone: as many sines and cosines as a step needs, by the "
        "function whose bits Gymnasium has, of angles drawn uniformly; those of a step may be smaller, and take less.",
        "",
    ]
    shown = []
    for id in dict.fromkeys(row.workload for row in rows):
        by_backend = {row.backend: row for row in rows if row.workload == id}
        rates = {name: rate(row) for name, row in by_backend.items()}
        mine, bare = rates.get("native"), rates.get("mj_step alone")
        share = f"{mine[0] / bare[0]:.3f}" if mine and bare else "-"
        count = str(by_backend["native"].environments)
        cells = [_text(by_backend.get(name)) for name in COLUMNS]
        shown.append([id, count, *cells, share, *verdict(id, rates)])
    said = {"failed": "", "not_run": "not run: "}
    failures = {f"- {m.workload}, {m.backend}: {said[m.status]}{m.reason}" for m in rows if m.status in said}
    gone = [f"- {id}: not run: {environments.unavailable_reason(id)}" for id in absent]
    columns = ("environment", "N", *COLUMNS, "native / mj_step alone", "goal", "verdict")
    return "\n".join([*lines, *section("steps per second", columns, shown), *sorted(failures), *gone])


def measured(stepping: Stepping, rounds: int, report: Report) -> Sequence[EnvironmentResult]:
    """Time every implementation of an environment, and return a row for each."""
    simulator_warnings.route(stepping.id)
    # One core for everything, EnvPool's thread and PufferLib's process too.
    protocol = Protocol(rounds=rounds, largest_block=64)
    return rows_of(
        stepping,
        measure(cases(stepping), protocol, progress=lambda done, total: report(done, total, "rounds")),
    )


def bench(
    rounds: Annotated[int, typer.Option("--rounds", min=FEWEST_SAMPLES, help="Samples of each case.")] = 15,
    ids: Annotated[
        str, typer.Option("--environments", help="Gymnasium's ids, separated by commas.", show_default="all")
    ] = joined(environments.ids()),
    count: Annotated[
        int, typer.Option("--count", min=1, help="Environments of a vector of classic control.")
    ] = 1024,
    build: BuildOption = False,
) -> Bench[EnvironmentResult]:
    """Time steps of native environments, of Gymnasium's and EnvPool's, and of mj_step alone, on one core."""
    names = chosen("--environments", ids, environments.ids())
    able = [id for id in names if not environments.unavailable_reason(id)]
    cells = [cell(f"{SUITE}/{id}", partial(measured, stepping_of(id, count), rounds)) for id in able]
    absent = [id for id in names if id not in able]
    return Bench(
        SUITE,
        EnvironmentResult,
        cells,
        partial(table, absent=absent),
        selecting=("ids", "build"),
        builds=[cases_of.PUFFERLIB] if build else (),
    )
