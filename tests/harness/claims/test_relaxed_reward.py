"""Verdicts on the reward of relaxed training from made-up rows."""

from pathlib import Path

import pytest

from harness.claims import Finding, Outcome, relaxed_reward
from harness.measurement import Measurement
from harness.provenance import Provenance
from tests.harness.claims.rows import frame_of

WIGGLE = (-2.0, -1.0, 0.0, 1.0, 2.0)


def run(workload: str, curve: str, final: float, seed: int, experiment: str) -> Measurement:
    return Measurement(
        suite="claim",
        workload=workload,
        primitive="training",
        backend=curve,
        device="native-native-cpu",
        batch_size=32,
        quantity="final_return",
        unit="1",
        provenance=Provenance.MEASURED,
        value=final,
        samples=(final,),
        details={"experiment": experiment, "seed": seed, "mean_returns": [None, 10.0 + seed, final]},
    )


def finding(
    folder: Path, finals: dict[str, dict[str, float]], seeds: int = 5, spread: float = 1.0
) -> Finding:
    rows = [
        run(workload, curve, final + spread * WIGGLE[seed], seed, "MAP-F10")
        for workload, curves in finals.items()
        for curve, final in curves.items()
        for seed in range(seeds)
    ]
    return relaxed_reward.presampled(frame_of(folder, *rows))


def curves(d0: float, d50: float, d200: float) -> dict[str, float]:
    return {"D=0": d0, "D=1": d0, "D=10": d0, "D=50": d50, "D=200": d200}


@pytest.mark.parametrize(
    ("finals", "outcome"),
    [
        ({"cartpole-ddpg": curves(400, 400, 400)}, Outcome.NO_VERDICT),  # without Hopper half of the statement
        ({"cartpole-ddpg": curves(400, 200, 400)}, Outcome.NOT_REPRODUCED),
        ({"hopper-ddpg": curves(400, 400, 200)}, Outcome.IN_KIND),
        ({"hopper-ddpg": curves(400, 400, 400)}, Outcome.NOT_REPRODUCED),
        ({"cartpole-ddpg": curves(12, 12, 12)}, Outcome.NO_VERDICT),
        ({"cartpole-ddpg": curves(400, 362, 400)}, Outcome.NO_VERDICT),
        (
            {"hopper-ddpg": curves(400, 400, 200), "cartpole-ddpg": curves(400, 400, 400),
             "pong-dqn": curves(400, 400, 400)},
            Outcome.REPRODUCED,
        ),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_shares(
    tmp_path: Path, finals: dict[str, dict[str, float]], outcome: Outcome
) -> None:
    found = finding(tmp_path, finals, spread=10.0)
    assert found.outcome is outcome
    assert found.ours


def test_a_share_is_of_what_the_strict_loop_gains(tmp_path: Path) -> None:
    found = finding(tmp_path, {"cartpole-ddpg": curves(412, 212, 412)})
    half = next(number for number in found.ours if "D=50" in number.quantity)
    assert half.value == pytest.approx(0.5)
    assert half.low is not None and half.high is not None  # noqa: PT018
    assert half.low < 0.5 < half.high
    assert len(half.rows) == 10


def test_fewer_than_five_seeds_are_not_enough(tmp_path: Path) -> None:
    assert finding(tmp_path, {"cartpole-ddpg": curves(400, 400, 400)}, seeds=4).outcome is Outcome.NOT_RUN


def test_reallocation_gives_numbers_but_no_verdict_on_convergence(tmp_path: Path) -> None:
    rows = [
        run("cartpole-ddpg", curve, 400 + seed, seed, "PRL-F9")
        for curve in ("two actors", "re-allocated")
        for seed in range(5)
    ]
    found = relaxed_reward.reallocated(frame_of(tmp_path, *rows))
    assert found.outcome is Outcome.NOT_RUN
    assert [number.value for number in found.ours] == [pytest.approx(1.0)]
