"""PRL's throughput over other libraries, each outcome from made-up comparisons."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.row import Measurement
from placerl.harness.papers import Outcome, claims
from placerl.harness.papers.prl.benchmarks import WORKLOADS
from tests.harness.papers.rows import compared, verdict


def on_all(value: float = 1.5, word: str = "faster", **fields: Any) -> list[Measurement]:
    """Comparisons with both libraries on each of PRL's benchmarks; of RLlib the version that trains the algorithm."""
    lines = {name: "rllib_2_6_3" if name.endswith("ddpg") else "rllib" for name in WORKLOADS}
    return [
        compared(value, word, baseline, workload=name, **fields)
        for name, line in lines.items()
        for baseline in ("sb3", line)
    ]


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ((2.0, "faster"), Outcome.IN_KIND),
        ((0.5, "slower"), Outcome.NOT_REPRODUCED),
        ((1.001, "no verdict"), Outcome.NO_VERDICT),
        ((2.0, "no verdict"), Outcome.NO_VERDICT),  # the interval leaves 1 out, the A/A null reaches as far
        ((0.5, "no verdict"), Outcome.NO_VERDICT),
    ],
)
def test_beside_the_libraries(last: tuple[float, str], outcome: Outcome, tmp_path: Path) -> None:
    *rows, _ = on_all()
    rows.append(compared(*last, "rllib", workload="pong-dqn"))
    found = verdict("PRL-T3", tmp_path, *rows, compared(9.0, "faster", "cpprb"))
    assert found.finding.outcome is outcome
    assert "Missing" not in found.finding.explanation
    assert sorted(number.value for number in found.finding.ours) == sorted([*[1.5] * 5, last[0]])
    noisy = compared(
        2.0, "faster", workload="pong-dqn", status="too_noisy", reason="the interval is 40% of the median"
    )
    assert verdict("PRL-T3", tmp_path / "noisy", *on_all(), noisy).finding.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize("missing", range(6))
def test_a_library_that_was_not_compared_is_named_and_nothing_shown(missing: int, tmp_path: Path) -> None:
    rows = on_all()
    row = rows.pop(missing)
    library = "Stable-Baselines3" if missing % 2 == 0 else "RLlib"
    found = verdict("PRL-T3", tmp_path, *rows).finding
    assert found.outcome is Outcome.NO_VERDICT
    assert found.explanation.endswith(f"all benchmarks: {library} on {row.workload}.")
    rows[-1] = replace(rows[-1], details=rows[-1].details | {"verdict": "slower"})
    slower = verdict("PRL-T3", tmp_path / "slower", *rows).finding
    assert slower.outcome is Outcome.NOT_REPRODUCED, "one is enough to refute it"


def test_other_papers_workloads_are_listed_and_not_judged(tmp_path: Path) -> None:
    hopper = compared(0.5, "slower", workload="hopper-ddpg")
    alone = verdict("PRL-T3", tmp_path / "alone", hopper).finding
    assert alone.outcome is Outcome.NOT_RUN
    assert [number.value for number in alone.ours] == [0.5]
    assert alone.needs.endswith("on cartpole-dqn, mountaincar-ddpg, pong-dqn")
    assert verdict("PRL-T3", tmp_path / "all", *on_all(), hopper).finding.outcome is Outcome.IN_KIND


def test_only_portability_over_platforms_reads_every_machine() -> None:
    assert [claim.key for claim in claims("PRL") if claim.everywhere] == ["PRL-T3-platform-portability"]
