"""Learners on a processor's systolic array: which rows count, and every outcome."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.core.row import Measurement
from harness.papers import Finding, Outcome
from tests.harness.papers.rows import TOO_FEW, claim_of, frame_of, profiled

CLAIMS = (("MAP-IV-B-tiles", "hopper-ddpg"), ("PPO-3.2-tiles", "hopper-ppo"))


def verdict(key: str, frame: pd.DataFrame) -> Finding:
    return claim_of(key).evaluate(frame).finding


def steps(workload: str, float_s: float, tiles_s: float, products: str = "amx") -> list[Measurement]:
    """Return a step in float32 and one in bfloat16, as `placerl profile --precision bfloat16` stores them."""
    fields = {"suite": "precision_profile", "workload": workload}
    rounded = {"backend": "native[bfloat16]", "details": {"products": products}}
    return [
        profiled("learner.step", float_s, **fields),
        profiled("learner.step", tiles_s, **fields, **rounded),
    ]


@pytest.mark.parametrize(("key", "workload"), CLAIMS)
def test_faster_steps_on_tiles_reproduce_it_in_kind_and_slower_ones_do_not(
    tmp_path: Path, key: str, workload: str
) -> None:
    for number, (tiles_s, outcome) in enumerate(
        ((0.4e-3, Outcome.IN_KIND), (2e-3, Outcome.NOT_REPRODUCED), (1e-3, Outcome.NO_VERDICT))
    ):
        found = verdict(key, frame_of(tmp_path / str(number), *steps(workload, 1e-3, tiles_s)))
        assert found.outcome == outcome
        (gain,) = found.ours
        assert gain.value == pytest.approx(1e-3 / tiles_s)
        assert gain.provenance == "measured"


@pytest.mark.parametrize(("key", "workload"), CLAIMS)
def test_one_batch_size_that_is_slower_contradicts_nothing(tmp_path: Path, key: str, workload: str) -> None:
    small, large = (
        steps(workload, 1e-3, 2e-3),
        [replace(row, batch_size=512) for row in steps(workload, 1e-3, 0.4e-3)],
    )
    assert verdict(key, frame_of(tmp_path, *small, *large)).outcome == Outcome.NO_VERDICT


@pytest.mark.parametrize(("key", "workload"), CLAIMS)
def test_noise_gives_no_verdict(tmp_path: Path, key: str, workload: str) -> None:
    plain, tiled = steps(workload, 1e-3, 0.4e-3)
    noisy = replace(tiled, **TOO_FEW)
    assert verdict(key, frame_of(tmp_path, plain, noisy)).outcome == Outcome.NO_VERDICT


@pytest.mark.parametrize(("key", "workload"), CLAIMS)
@pytest.mark.parametrize("products", ["emulated", "avx512bf16"])
def test_without_tiles_it_is_not_run_and_says_what_was_found(
    tmp_path: Path, key: str, workload: str, products: str
) -> None:
    found = verdict(key, frame_of(tmp_path, *steps(workload, 1e-3, 0.4e-3, products)))
    assert found.outcome == Outcome.NOT_RUN
    assert found.needs.endswith(f"--precision bfloat16`; found {products}")
    other = verdict(key, frame_of(tmp_path / "other", *steps("ant-td3", 1e-3, 0.4e-3)))
    assert other.outcome == Outcome.NOT_RUN, "another workload's rows"
