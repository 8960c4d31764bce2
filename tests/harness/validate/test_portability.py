"""Portability over the machines of a merged store."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placerl.harness.core.row import Row
from placerl.harness.store.store import Store
from placerl.harness.validate.portability import over_platforms
from tests.harness.papers.rows import MACHINE, measurement


def ran(mapping: str, gps: float | None, **fields: Any) -> Row:
    base = {
        "suite": "validation",
        "workload": "hopper-ddpg",
        "primitive": "training",
        "backend": "placerl",
        "device": mapping,
        "batch_size": 256,
        "quantity": "gradient_steps_per_s",
        "unit": "1/s",
        "details": {"mapping": mapping, "loop": "fused"},
    }
    return measurement(gps, **(base | fields))


FAILED: dict[str, Any] = {"status": "failed", "reason": "no memory"}


def frame_of(folder: Path, **machines: list[Row]) -> pd.DataFrame:
    """Of a store with one run of each machine."""
    with Store.open(folder / "store.sqlite") as store:
        for name, rows in machines.items():
            run = store.begin_run("quick", "revision", MACHINE | {"fingerprint": name}, fresh=True)
            for number, row in enumerate(rows):
                run.finish(f"validation/{row.workload}/{row.batch_size}/{number}", [row])
        return store.frame()


def test_each_machine_counts_with_its_best_mapping_that_was_there(tmp_path: Path) -> None:
    def rows(gps: float) -> list[Row]:
        simulated = ran("fpga-fpga-fpga", 1e6, provenance="simulated")
        return [ran("torch-flat-cpu", gps / 9), ran("native-native-cpu", gps), simulated]

    (found,) = over_platforms(frame_of(tmp_path, one=rows(100.0), other=rows(300.0)))
    assert (found.workload, found.batch_size) == ("hopper-ddpg", 256)
    assert found.mean.value == pytest.approx(256 * 2 / (1 / 100 + 1 / 300))
    assert found.mean.unit == "1/s"
    assert found.mean.rows == (1, 4)
    assert found.best == dict.fromkeys(("one", "other"), "native-native-cpu, fused loop")
    assert (found.unsupported, found.noisy) == (0, False)


def test_a_machine_counts_with_its_newest_code(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        for revision, name, gps in (("old", "one", 1000.0), ("new", "one", 500.0), ("new", "other", 500.0)):
            run = store.begin_run("quick", revision, MACHINE | {"fingerprint": name})
            run.finish("validation/hopper-ddpg/256", [ran("native-native-cpu", gps)])
        (found,) = over_platforms(store.frame())
    assert found.mean.value == pytest.approx(256 * 500.0)


@pytest.mark.parametrize("quantity", ["episode_return", "throughput_ratio"])
def test_other_quantities_of_a_validation_do_not_count(quantity: str, tmp_path: Path) -> None:
    rows = [ran("native-native-cpu", 100.0), ran("torch-flat-cpu", 900.0, quantity=quantity, unit="1")]
    (found,) = over_platforms(frame_of(tmp_path, one=rows, other=rows))
    assert found.mean.value == pytest.approx(256 * 100.0)


def test_one_machine_alone_has_no_portability(tmp_path: Path) -> None:
    assert over_platforms(frame_of(tmp_path, single=[ran("native-native-cpu", 1.0)])) == []


def test_a_machine_on_which_every_mapping_failed_is_not_supported(tmp_path: Path) -> None:
    failed = ran("native-native-cpu", None, **FAILED)
    (found,) = over_platforms(
        frame_of(
            tmp_path,
            one=[failed, ran("torch-flat-cpu", 100.0)],
            other=[failed, ran("torch-flat-cpu", None, **FAILED)],
        )
    )
    assert (found.mean.value, found.unsupported) == (0, 1)
    assert found.best == {
        "one": "torch-flat-cpu, fused loop",
        "other": "every mapping failed: no memory",
    }


DROPPED = {"loop": "fused", "clearly_slower_among": ["here", "here and simulated"]}
"""Details of a mapping whose race dropped it."""


def test_a_mapping_that_its_race_dropped_counts_only_where_all_were_dropped(tmp_path: Path) -> None:
    """Few rounds timed it, in which the machine was fast."""
    fast = ran("torch-flat-cpu", 300.0, details=DROPPED)
    slower_than_simulated = {"loop": "fused", "clearly_slower_among": ["here and simulated"]}
    kept = ran("native-native-cpu", 100.0, details=slower_than_simulated)
    failed = ran("native-flat-cpu", None, **FAILED)
    (found,) = over_platforms(
        frame_of(
            tmp_path,
            one=[fast, kept, failed],
            other=[failed, fast, ran("torch-native-cpu", 200.0, details=DROPPED)],
        )
    )
    assert found.best == {"one": "native-native-cpu, fused loop", "other": "torch-flat-cpu, fused loop"}
    assert found.mean.value == pytest.approx(256 * 2 / (1 / 100 + 1 / 300))
    assert found.unsupported == 0


def test_cells_are_told_apart_and_other_rows_are_left_out(tmp_path: Path) -> None:
    def rows(gps: float) -> list[Row]:
        return [
            ran("native-native-cpu", gps),
            ran("native-native-cpu", gps, batch_size=32),
            ran("native-native-cpu", 1e6, suite="run"),
            ran("native-native-cpu", 1e6, quantity="runtime_overhead"),
        ]

    alone = [ran("native-native-cpu", 5.0, workload="cartpole-dqn")]
    found = over_platforms(frame_of(tmp_path, one=[*rows(10.0), *alone], other=rows(10.0)))
    assert {one.batch_size: one.mean.value for one in found} == pytest.approx({32: 320, 256: 2560})
    assert {one.workload for one in found} == {"hopper-ddpg"}


def test_three_machines_count_alike(tmp_path: Path) -> None:
    rows = {name: [ran("native-native-cpu", gps)] for name, gps in (("a", 10.0), ("b", 20.0), ("c", 40.0))}
    (found,) = over_platforms(frame_of(tmp_path, **rows))
    assert found.mean.value == pytest.approx(256 * 3 / (1 / 10 + 1 / 20 + 1 / 40))
    assert list(found.best) == ["c", "b", "a"]


def test_a_rate_that_is_too_noisy_is_said(tmp_path: Path) -> None:
    noisy = ran("native-native-cpu", 100.0, status="too_noisy", reason="wide")
    (found,) = over_platforms(frame_of(tmp_path, one=[noisy], other=[ran("native-native-cpu", 100.0)]))
    assert found.noisy
