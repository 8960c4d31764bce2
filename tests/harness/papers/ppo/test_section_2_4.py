"""Verdicts on the share of launches and synchronisation from made-up traces."""

from pathlib import Path

import pytest

from placerl.harness.core.row import Row
from placerl.harness.papers import Outcome
from placerl.harness.papers.ppo.launches import OF_CALLS, WITHOUT_KERNEL
from tests.harness.papers.rows import claim_of, frame_of, measurement


def traced(
    of_calls: float, without: float, benchmark: str = "Hopper", mode: str = "eager", device: str = "cuda"
) -> list[Row]:
    return [
        measurement(
            value,
            suite="claim",
            workload=f"{benchmark.lower()}-ppo",
            primitive="training",
            backend="torch",
            device=device,
            batch_size=512,
            quantity="fraction_of_time",
            unit="1",
            details={
                "experiment": "PPO-2.4",
                "benchmark": benchmark,
                "iteration": {},
                "mode": mode,
                "share": share,
            },
        )
        for share, value in ((OF_CALLS, of_calls), (WITHOUT_KERNEL, without))
    ]


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([*traced(0.9, 0.95), *traced(0.6, 0.7, "Pong")], Outcome.REPRODUCED),
        ([*traced(0.9, 0.95), *traced(0.4, 0.7, "Pong")], Outcome.IN_KIND),
        (traced(0.9, 0.95), Outcome.IN_KIND),
        (traced(0.6, 0.4), Outcome.CONSISTENT),
        (traced(0.3, 0.4), Outcome.NOT_REPRODUCED),
        (traced(0.5, 0.4), Outcome.NO_VERDICT),
        (traced(0.9, 0.95, mode="graph"), Outcome.NOT_RUN),  # PPO does not launch graphs
        (traced(0.9, 0.95, device="cpu"), Outcome.NOT_RUN),
        (traced(0.9, 0.95, "Pong"), Outcome.NOT_RUN),
        ([], Outcome.NOT_RUN),
    ],
)
def test_one_reading_is_enough_and_only_all_of_them_refute(
    rows: list[Row], outcome: Outcome, tmp_path: Path
) -> None:
    found = claim_of("PPO-2.4").evaluate(frame_of(tmp_path, *rows)).finding
    assert found.outcome is outcome
    assert ("a CUDA device" in found.needs) is (outcome is Outcome.NOT_RUN)
