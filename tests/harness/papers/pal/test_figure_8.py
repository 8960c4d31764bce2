"""PAL Fig. 8: what C++ threads show next to other libraries, and what is missing."""

from pathlib import Path

import pytest

from harness.compare import registry
from harness.core.progress import silent
from harness.papers import Outcome
from harness.papers.pal import figure_8
from harness.plan.tiers import TIERS
from tests.harness.papers.rows import compared, frame_of


def test_throughput_next_to_rllib_alone_is_no_convergence(tmp_path: Path) -> None:
    found = figure_8.convergence(frame_of(tmp_path, compared(50.0, "faster", baseline="rllib")))
    assert [number.value for number in found.ours] == [50.0]
    assert (found.outcome, found.needs) == (Outcome.NOT_RUN, figure_8.NEEDS_CONVERGENCE)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("faster", Outcome.NOT_RUN),  # of the cores' number nothing is known
        ("faster, but learns less", Outcome.NOT_RUN),
        ("no verdict", Outcome.NOT_RUN),
        ("slower", Outcome.NOT_REPRODUCED),
    ],
)
def test_threads_on_all_cores_refute_and_do_not_show(tmp_path: Path, verdict: str, outcome: Outcome) -> None:
    rows = [
        compared(2.0, "faster", figure_8.label_of("rllib")),
        compared(0.5, verdict, figure_8.label_of("tianshou")),
    ]
    found = figure_8.convergence(frame_of(tmp_path, *rows))
    assert found.outcome is outcome
    assert sorted(number.value for number in found.ours) == [0.5, 2.0]
    if outcome is Outcome.NOT_RUN:
        assert found.needs == figure_8.NEEDS_CORES


def test_a_library_that_is_not_built_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path("/nowhere"))
    (row,) = figure_8.measure("cartpole-dqn", "tianshou", 1.0, silent)
    assert (row.status, row.value) == ("not_run", None)
    assert "needs the environment of tianshou" in row.reason
    assert row.details["baseline"] == "tianshou, this project with C++ actors and learner"


def test_threads_that_would_share_the_only_core_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3})
    monkeypatch.setattr(registry, "baseline_python", lambda name: Path("/"))
    (row,) = figure_8.measure("cartpole-dqn", "tianshou", 1.0, silent)
    assert (row.status, row.reason) == ("not_run", "not run: needs 2 cores: an actor's and a learner's")


def test_the_full_tier_compares_with_what_trains_the_algorithm() -> None:
    assert figure_8.cells(TIERS["standard"]) == []
    assert [cell.key for cell in figure_8.cells(TIERS["full"])] == [
        "claim/PAL-F8/cartpole-dqn/rllib",
        "claim/PAL-F8/cartpole-dqn/tianshou",
        "claim/PAL-F8/ant-ddpg/rllib_2_6_3",
        "claim/PAL-F8/ant-ddpg/tianshou",
    ]
