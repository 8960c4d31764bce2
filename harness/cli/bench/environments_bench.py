"""Measures how many steps per second environments take on one core.

    placerl bench environments [--environments CartPole-v1,Hopper-v5] [--count 1024]

It times this project's native environments, Gymnasium's, EnvPool's, PufferLib's and, for MuJoCo, `mj_step` alone (the
simulator without the rest of the environment). Those of one environment take turns. Before they are timed, the native
ones must equal Gymnasium's bit for bit. `mj_step` alone repeats a run that was recorded from the native environments,
and must end in the same states, bit for bit. PufferLib's environments in C have rules of their own; they run in the
environment of its trainer (`baselines/pufferlib`), which `--build` creates.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from placerl.primitives._native import environments as native

from placerl.harness.cli.bench import environment_cases as cases_of
from placerl.harness.cli.bench.command import OutOption, Session, TierOption, chosen, joined, section
from placerl.harness.cli.bench.environment_cases import Recording, Stepping
from placerl.harness.cli.common import ResultsOption
from placerl.harness.compare import registry
from placerl.harness.core import simulator_warnings
from placerl.harness.core.progress import Report
from placerl.harness.core.row import Measurement, Row
from placerl.harness.core.suites import Suite
from placerl.harness.measure.protocol import Case, Protocol, Timing, measure
from placerl.harness.measure.statistics import FEWEST_SAMPLES
from placerl.harness.plan.predicting import RESULTS
from placerl.primitives import environments

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
COLUMNS = ("native", "Gymnasium", "EnvPool", "PufferLib", "mj_step alone", "sines alone")
OTHERS: dict[str, Callable[[str], str]] = {
    "EnvPool": cases_of.envpool_reason,
    "PufferLib": cases_of.pufferlib_reason,
}
"""Libraries that may be missing, and why each cannot step an environment here; empty if it can."""

Found = dict[str, dict[str, Timing]]


def stepping_of(id: str, count: int, mujoco_count: int) -> Stepping:
    """Return which environments a timed call steps, and for how many steps.

    A call takes one step of a vector, or four steps of a smaller vector for MuJoCo's environments, which take longer.

    Args:
        id: Gymnasium's ID of the environment.
        count: number of environments of the vector.
        mujoco_count: number of environments of the smaller vector.
    """
    return Stepping(id, mujoco_count, 4) if id in native.mujoco_files() else Stepping(id, count, 1)


def cases(stepping: Stepping) -> list[Case[Any]]:
    """Return the functions to time for one environment: a case for each implementation that can run on this machine.

    Args:
        stepping: the environments that a timed call steps, and for how many steps.
    """
    if stepping.id in native.mujoco_files():
        made: list[Case[Any]] = [*cases_of.repeated_cases(stepping, Recording.of(stepping))]
    else:
        made = [cases_of.native_case(stepping), cases_of.sines_case(stepping)]
    made.append(cases_of.gymnasium_case(stepping))
    # ContinuousCartPole-v0 is this project's; EnvPool says itself what it has.
    if not cases_of.envpool_reason(stepping.id):
        made.append(cases_of.envpool_case(stepping))
    if not cases_of.pufferlib_reason(stepping.id):
        made.append(cases_of.pufferlib_case(stepping))
    return made


def environment_steps(name: str, stepping: Stepping) -> int:
    """Return the number of environment steps in a timed call of one implementation of an environment.

    Args:
        name: name of the implementation's case, such as "native".
        stepping: the environments, and the number of steps in a call.
    """
    return cases_of.gymnasium_steps(stepping) if name == "Gymnasium" else stepping.environment_steps


def rows_of(stepping: Stepping, timings: Mapping[str, Timing]) -> Sequence[Row]:
    """Return the timings of one environment as rows of the store, and a row with the reason if EnvPool cannot run.

    Args:
        stepping: the environments that a call steps.
        timings: the timing of each implementation, by the name of its case, such as "native".
    """
    rows = [
        timing.measurement(
            Measurement,
            suite=Suite.BENCH_ENVIRONMENTS,
            workload=stepping.id,
            primitive="environment.step",
            backend=name,
            device="cpu",
            batch_size=environment_steps(name, stepping),
            details={"environments": stepping.count, "sine": environments.sine_source()},
        )
        for name, timing in timings.items()
    ]
    for name, reason_of in OTHERS.items():
        if reason := reason_of(stepping.id):
            row = Timing(name, "failed", reason).measurement(
                Measurement,
                suite=Suite.BENCH_ENVIRONMENTS,
                workload=stepping.id,
                primitive="environment.step",
                backend=name,
                device="cpu",
                batch_size=stepping.environment_steps,
            )
            rows.append(replace(row, status="not_run"))
    return rows


def rate(timing: Timing, steps: int) -> tuple[float, float, float] | None:
    """Return environment steps per second with the bounds of their 95% interval; None if the timing has no median.

    Args:
        timing: timing of one implementation.
        steps: environment steps in a timed call.

    Returns:
        Steps per second, and the lower and upper bound.
    """
    if timing.median_s is None:
        return None
    low = steps / timing.high_s if timing.high_s else steps / timing.median_s
    high = steps / timing.low_s if timing.low_s else steps / timing.median_s
    return steps / timing.median_s, low, high


def verdict(id: str, rates: Mapping[str, tuple[float, float, float] | None]) -> tuple[str, str]:
    """Return the speed that the native environments should reach, and whether they reach it, as two texts.

    The goal is "met" if the whole interval of the speed is at or above it, and "missed" if the whole interval is below.

    Args:
        id: Gymnasium's ID of the environment.
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
    said = "met" if low >= 1 else "missed" if high < 1 else "no verdict"
    sines = rates.get("sines alone")
    bound = (
        f", where sines alone reach {sines[0] / mine[0] * share:.0%}" if sines and id in GOALS_PER_S else ""
    )
    return text, said if said == "met" else f"{said}: {share:.0%} of the goal{bound}"


def _text(found: tuple[float, float, float] | None, timing: Timing | None) -> str:
    if found is None or timing is None:
        return "not run" if timing is None else timing.status
    middle, low, high = (f"{number:,.0f}" for number in found)
    return f"{'~' if timing.status == 'too_noisy' else ''}{middle} [{low}, {high}]"


def table(found: Found, steppings: Mapping[str, Stepping]) -> str:
    """Return the results as Markdown: a table with one row per environment, then what failed or could not run.

    Args:
        found: timings by environment (Gymnasium's ID) and name of the implementation's case.
        steppings: the environments that a timed call steps, by ID.
    """
    lines = [
        "# Environments on one core",
        "",
        "Environment steps per second, median and 95% interval over the rounds; provenance: measured; ~ too noisy. "
        "Native, EnvPool and PufferLib step vectors, Gymnasium one environment in a loop. "
        f"Sine: {environments.sine_source()}. Sines alone: as many sines and cosines as a step needs, by the "
        "function whose bits Gymnasium has, of angles drawn uniformly; those of a step may be smaller, and take less.",
        "",
    ]
    rows, failures = [], set()
    for id, timings in found.items():
        stepping = steppings[id]
        rates = {name: rate(timing, environment_steps(name, stepping)) for name, timing in timings.items()}
        cells = [_text(rates.get(name), timings.get(name)) for name in COLUMNS]
        mine, bare = rates.get("native"), rates.get("mj_step alone")
        share = f"{mine[0] / bare[0]:.3f}" if mine and bare else "-"
        rows.append([id, str(stepping.count), *cells, share, *verdict(id, rates)])
        failures |= {f"- {id}, {t.name}: {t.reason}" for t in timings.values() if t.status == "failed"}
        for name, reason_of in OTHERS.items():
            if reason := reason_of(id):
                failures.add(f"- {id}, {name}: not run: {reason}")
    columns = ("environment", "N", *COLUMNS, "native / mj_step alone", "goal", "verdict")
    return "\n".join([*lines, *section("steps per second", columns, rows), *sorted(failures)])


def measured(steppings: Sequence[Stepping], rounds: int, report: Report) -> tuple[Found, Sequence[Row]]:
    """Time every implementation of every environment.

    Args:
        steppings: the environments, and the number of steps in a call of each.
        rounds: samples of each case.

    Returns:
        The timings, a dict from the environment's ID to a dict from the implementation to its timing; and the same as
        rows of the store.
    """
    found: Found = {}
    rows: list[Row] = []
    for done, stepping in enumerate(steppings):
        report(done, len(steppings), stepping.id)
        simulator_warnings.route(stepping.id)
        # One core for everything, EnvPool's thread and PufferLib's process too.
        timings = measure(cases(stepping), Protocol(rounds=rounds, largest_block=64))
        found[stepping.id] = timings
        rows += rows_of(stepping, timings)
    return found, rows


def main(
    rounds: Annotated[int, typer.Option("--rounds", min=FEWEST_SAMPLES, help="Samples of each case.")] = 15,
    ids: Annotated[
        str, typer.Option("--environments", help="Gymnasium's ids, separated by commas.")
    ] = joined(environments.ids()),
    count: Annotated[int, typer.Option("--count", min=1, help="Environments of a vector.")] = 1024,
    mujoco_count: Annotated[
        int, typer.Option("--mujoco-count", min=1, help="Environments of a vector of MuJoCo's.")
    ] = 16,
    build: Annotated[bool, typer.Option("--build", help="Build PufferLib's environment first.")] = False,
    out: OutOption = RESULTS / "bench-environments",
    results: ResultsOption = RESULTS,
    tier: TierOption = "quick",
) -> None:
    """Time steps of native environments, of Gymnasium's and EnvPool's, and of mj_step alone, on one core."""
    names = chosen("--environments", ids, environments.ids())
    able = [id for id in names if not environments.unavailable_reason(id)]
    steppings = [stepping_of(id, count, mujoco_count) for id in able]
    if build:
        registry.build_baselines([cases_of.PUFFERLIB])  # without it the table says what is missing
    session = Session.begin(out, results, tier)
    timings: Found = {}

    def measure_all(report: Report) -> Sequence[Row]:
        found, rows = measured(steppings, rounds, report)
        timings.update(found)
        return rows

    session.measure("bench-environments", measure_all)
    text = table(timings, {stepping.id: stepping for stepping in steppings})
    absent = [f"- {id}: not run: {environments.unavailable_reason(id)}" for id in names if id not in able]
    session.write("\n".join([text, *absent]))
