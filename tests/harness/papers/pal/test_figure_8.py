"""PAL Fig. 8: what C++ threads show next to other libraries on one and on all cores, and what is missing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placerl.harness import workloads
from placerl.harness.compare import registry
from placerl.harness.compare.parts import ONE_THREAD
from placerl.harness.core.progress import silent
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.papers import Outcome
from placerl.harness.papers.pal import figure_8
from placerl.harness.plan.tiers import TIERS
from placerl.harness.store.rows import ComparisonResult
from placerl.harness.workloads import Workload
from tests.harness.old_form import details_of
from tests.harness.papers.rows import compared, frame_of

WORKLOADS = ("lunarlander-dqn", "ant-ddpg")
RLLIB = {"lunarlander-dqn": "rllib", "ant-ddpg": "rllib_2_6_3"}


def threaded(
    ratio: float,
    cores: int,
    verdict: str = "faster",
    name: str = "lunarlander-dqn",
    baseline: str = "",
    one_thread: float | None = None,
    **facts: Any,
) -> list[Row]:
    """The comparison with a library on so many cores; on several also with one thread, as fast if nothing is said."""
    library = baseline or RLLIB.get(name, "rllib")
    found = timed(ratio, cores, verdict, name, library, **facts)
    if cores > 1:
        found += timed(one_thread or ratio, cores, verdict, name, library + ONE_THREAD, **facts)
    return found


def timed(
    ratio: float,
    cores: int,
    verdict: str,
    name: str,
    library: str,
    interval: int = figure_8.INTERVAL,
    returned: float | None = 1e4,
) -> list[Row]:
    """The gain, and of this project the rate at so many environment steps a gradient step, and the mean return."""
    label = figure_8.label_of(library, cores)
    details: dict[str, Any] = {"baseline": label, "verdict": verdict, "threads": cores}
    bounds = {"low": 0.9 * ratio, "high": 1.1 * ratio}
    ours = ComparisonResult(
        suite=Suite.COMPARE,
        workload=name,
        primitive="training",
        baseline=label,
        part="ours",
        quantity="gradient_steps_per_s",
        provenance=Provenance.MEASURED,
        value=100.0,
        gradient_steps=1000,
        environment_steps=1000 * interval,
    )
    rows = [compared(ratio, verdict, label, workload=name, details=details, **bounds), ours]
    if returned is not None:
        at_the_end = replace(ours, part="ours, return", quantity="return_at_equal_steps", unit="")
        rows.append(replace(at_the_end, value=returned, low=returned - 1, high=returned + 1))
    return rows


def test_throughput_next_to_rllib_alone_is_no_convergence(tmp_path: Path) -> None:
    found = figure_8.ConvergesFasterThanRllib().judge(
        frame_of(tmp_path, compared(50.0, "faster", baseline="rllib"))
    )
    assert not found.ours  # the threads are not in it
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, figure_8.NEEDS_CONVERGENCE)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("faster", Outcome.NOT_RUN),  # of another number of cores nothing is known
        ("faster, but learns less", Outcome.NOT_RUN),
        ("no verdict", Outcome.NOT_RUN),
        ("slower", Outcome.NOT_REPRODUCED),
    ],
)
def test_one_number_of_cores_refutes_and_does_not_show(
    tmp_path: Path, verdict: str, outcome: Outcome
) -> None:
    rows = [*threaded(2.0, 2), *threaded(0.5, 2, verdict, name="ant-ddpg")]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    assert sorted(number.value for number in found.ours) == [0.5, 2.0]
    if outcome is Outcome.NOT_RUN:
        assert (found.needs, found.explanation) == (figure_8.NEEDS_CORES, "")


def test_a_library_that_the_statement_does_not_name_refutes_nothing(tmp_path: Path) -> None:
    slower = threaded(0.5, 2, "slower", baseline="tianshou")
    rows = [*threaded(2.0, 2), *slower]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *rows))
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, figure_8.NEEDS_CORES)
    label = figure_8.label_of("tianshou", 2)
    assert found.explanation == f"Slower, and not judged: next to {label}."
    both = [*threaded(1.0, 1), *threaded(2.0, 2), *slower]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path / "both", *both))
    assert found.outcome is Outcome.IN_KIND
    assert found.explanation.endswith(f"8 cores and a GPU. Slower, and not judged: next to {label}.")


@pytest.mark.parametrize(
    ("on_two", "verdict", "outcome"),
    [
        ((8.0, 8.0), "faster", Outcome.IN_KIND),
        ((8.0, 4.1), "faster", Outcome.NO_VERDICT),  # the second factor's intervals overlap
        ((8.0, 2.0), "faster", Outcome.NOT_REPRODUCED),  # the second factor falls
        ((8.0, 8.0), "faster, but learns less", Outcome.NO_VERDICT),
        ((8.0, 8.0), "slower", Outcome.NOT_REPRODUCED),
    ],
)
def test_two_numbers_of_cores_decide(
    tmp_path: Path, on_two: tuple[float, float], verdict: str, outcome: Outcome
) -> None:
    rows = [row for name in WORKLOADS for row in threaded(4.0, 1, name=name)]
    rows += [
        *threaded(on_two[0], 2, name=WORKLOADS[0]),
        *threaded(on_two[1], 2, verdict, name=WORKLOADS[1]),
    ]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    if outcome is Outcome.IN_KIND:
        assert "in 4 of 4 comparisons. From 1 to 2 cores the factor rises in 2 of 2" in found.explanation


@pytest.mark.parametrize(
    ("on_two", "one_thread", "outcome", "shown"),
    [
        (16.0, 8.0, Outcome.IN_KIND, 8.0),  # a library that only becomes slower with threads
        (16.0, 2.0, Outcome.NOT_REPRODUCED, 2.0),
        (8.0, 16.0, Outcome.IN_KIND, 8.0),
    ],
)
def test_a_library_counts_with_the_number_of_threads_with_which_it_is_faster(
    tmp_path: Path, on_two: float, one_thread: float, outcome: Outcome, shown: float
) -> None:
    rows = [*threaded(4.0, 1), *threaded(on_two, 2, one_thread=one_thread)]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == [4.0, shown]


def test_several_cores_are_not_judged_by_a_library_with_a_thread_on_each_alone(tmp_path: Path) -> None:
    plenty = timed(8.0, 2, "faster", "lunarlander-dqn", "rllib")
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *threaded(4.0, 1), *plenty))
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, figure_8.NEEDS_ONE_THREAD)
    assert [number.value for number in found.ours] == [4.0]


def test_one_form_that_is_faster_than_this_project_refutes(tmp_path: Path) -> None:
    for library, least in (("rllib", 0.5), ("rllib" + ONE_THREAD, 0.4)):
        slower = timed(least, 2, "slower", "lunarlander-dqn", library)
        found = figure_8.ConvergesFasterThanRllib().judge(
            frame_of(tmp_path / library, *threaded(4.0, 1), *slower)
        )
        assert found.outcome is Outcome.NOT_REPRODUCED
        assert [number.value for number in found.ours] == [4.0, least]


@pytest.mark.parametrize(
    ("on_two", "returned", "outcome"),
    [
        (8.0, 102.0, Outcome.IN_KIND),
        (2.0, 102.0, Outcome.NOT_REPRODUCED),  # the factor falls
        (8.0, 100.5, Outcome.NO_VERDICT),  # the interval holds the limit
        (2.0, 100.5, Outcome.NO_VERDICT),
        (8.0, None, Outcome.NO_VERDICT),
    ],
)
def test_returns_count_where_this_project_learnt_the_task(
    tmp_path: Path, on_two: float, returned: float | None, outcome: Outcome
) -> None:
    rows = [*threaded(4.0, 1, returned=returned), *threaded(on_two, 2, returned=returned)]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    assert [number.value for number in found.ours] == [4.0, on_two]
    learnt = outcome is not Outcome.NO_VERDICT
    assert f"in {2 * learnt} of 2 comparisons" in found.explanation
    for place in ("1 core", "2 cores"):
        said = f"No verdict on lunarlander-dqn on {place}: this project's mean return, "
        assert (said in found.explanation) != learnt
    assert ("is not above 100, half of the return that solves the task." in found.explanation) != learnt


def test_a_task_is_learnt_above_half_of_the_return_that_solves_it() -> None:
    solved = {name: workloads.load(name).training.solved_return for name in figure_8.WORKLOADS}
    assert {name: 2 * limit for name, limit in figure_8.LEARNT.items()} == solved


def test_tianshou_alone_says_nothing_of_rllib(tmp_path: Path) -> None:
    rows = [*threaded(4.0, 1, baseline="tianshou"), *threaded(8.0, 2, baseline="tianshou")]
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *rows))
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, figure_8.NEEDS_CONVERGENCE)


@pytest.mark.parametrize(
    "other",
    [
        {"interval": 4},  # the workload's, as earlier code trained it
        {"name": "cartpole-dqn"},
    ],
)
def test_another_update_interval_and_another_workload_are_not_judged(
    tmp_path: Path, other: dict[str, Any]
) -> None:
    slower = threaded(0.5, 1, "slower", **other)
    found = figure_8.ConvergesFasterThanRllib().judge(frame_of(tmp_path, *slower))
    assert (found.outcome, found.ours, found.explanation) == (Outcome.NOT_RUN, (), "")
    frame = frame_of(tmp_path / "more", *threaded(4.0, 1, name="ant-ddpg"), *slower)
    found = figure_8.ConvergesFasterThanRllib().judge(frame)
    assert ([number.value for number in found.ours], found.needs) == ([4.0], figure_8.NEEDS_CORES)


def test_a_library_that_is_not_built_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path("/nowhere"))
    (row,) = figure_8.measure("lunarlander-dqn", "tianshou", False, silent)
    assert (row.status, row.value) == ("not_run", None)
    assert "needs the environment of tianshou" in row.reason
    assert details_of(row)["baseline"] == "tianshou, this project with C++ actors and learner, on 1 core"


def test_each_cell_compares_on_the_cores_that_its_key_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, bool]] = []
    monkeypatch.setattr(figure_8, "measure", lambda *one: asked.append(one[:3]) or [])
    cells = figure_8.ConvergesFasterThanRllib().cells(TIERS["full"])
    for cell in cells:
        cell.measure(None, silent)  # type: ignore[arg-type]
    words = {False: "one-core", True: "all-cores"}
    assert [cell.key for cell in cells] == [
        f"claim/PAL-F8/{name}/{baseline}/{words[all_cores]}" for name, baseline, all_cores in asked
    ]


def test_threads_that_would_share_the_only_core_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3})
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path("/"))
    (row,) = figure_8.measure("lunarlander-dqn", "tianshou", True, silent)
    assert (row.status, row.reason) == ("not_run", "not run: needs 2 cores: an actor's and a learner's")


@pytest.mark.parametrize(("all_cores", "cpus"), [(False, [3]), (True, [3, 5])])
def test_both_sides_are_confined_to_the_same_cores(
    monkeypatch: pytest.MonkeyPatch, all_cores: bool, cpus: list[int]
) -> None:
    asked: list[Any] = []
    trained: list[Workload] = []

    def compare(
        item: Workload, *_: object, settings: figure_8.rounds.ComparisonSettings, **__: object
    ) -> list[Row]:
        trained.append(item)
        asked.append(settings)
        return []

    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 5})
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path("/"))
    monkeypatch.setattr(figure_8.rounds, "compare", compare)
    figure_8.measure("lunarlander-dqn", "tianshou", all_cores, silent)
    (item,) = trained
    assert item.training.update_interval == 1, "PAL VI-A"
    explored = item.algorithm.hyperparameters["exploration_steps"]
    assert explored == figure_8.WORKLOADS["lunarlander-dqn"] / 5
    assert [(settings.cpus, settings.threads) for settings in asked] == [(cpus, len(cpus))]
    assert asked[0].returns.environment_steps == figure_8.WORKLOADS["lunarlander-dqn"]
    assert asked[0].single_threaded == (["tianshou"] if all_cores else [])


def test_ants_returns_are_compared_after_it_has_learned() -> None:
    """After 10,000 steps both sides are near random, so that "learns no less" would hold of anything."""
    assert figure_8.WORKLOADS["ant-ddpg"] >= 50_000
    seconds = {cell.key: cell.estimate_s for cell in figure_8.ConvergesFasterThanRllib().cells(TIERS["full"])}
    assert seconds["claim/PAL-F8/ant-ddpg/rllib_2_6_3/one-core"] == 630
    assert seconds["claim/PAL-F8/ant-sac/rllib/one-core"] == 1030


def test_the_full_tier_compares_with_what_trains_the_algorithm() -> None:
    assert figure_8.ConvergesFasterThanRllib().cells(TIERS["standard"]) == []
    assert [cell.key for cell in figure_8.ConvergesFasterThanRllib().cells(TIERS["full"])] == [
        f"claim/PAL-F8/{pair}/{words}"
        for name, libraries in (
            ("lunarlander-dqn", ("rllib", "tianshou")),
            ("ant-ddpg", ("rllib_2_6_3", "tianshou")),
            ("ant-sac", ("rllib", "tianshou")),
        )
        for words in ("one-core", "all-cores")
        for pair in (f"{name}/{library}" for library in libraries)
    ]
