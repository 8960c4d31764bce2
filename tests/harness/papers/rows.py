"""Rows of a store for tests, as `Store.frame()` gives them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from placerl.harness import papers
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.papers import Claim, Finding, Verdict
from placerl.harness.store.store import Run, Store
from tests.harness.old_form import row_of

MACHINE = {"fingerprint": "test-machine", "cpu": {"model": "Test CPU", "cores": 2}}

TOO_FEW: dict[str, Any] = {
    "status": "too_noisy",
    "reason": "4 samples, where 5 are the fewest",
    "low": None,
    "high": None,
}
"""The fields of a row of so few samples that it has no interval."""
PLACED_MHZ = 64.5
"""The placed clock in these tests (`conftest`), MHz."""


def measurement(value: float | None, spread: float = 0.01, **fields: Any) -> Row:
    """A measured row; its interval is `value` x (1 -+ `spread`)."""
    base: dict[str, Any] = {"provenance": Provenance.MEASURED, "unit": "s", "quantity": "time_per_call"}
    if value is not None:
        base |= {"value": value, "low": value * (1 - spread), "high": value * (1 + spread)}
    return row_of(**(base | fields))


def profiled(primitive: str, time_s: float, batch_size: int = 256, **fields: Any) -> Row:
    """A profile row."""
    base = {"suite": "profile", "workload": "hopper-ddpg", "backend": "native", "device": "cpu"}
    return measurement(time_s, primitive=primitive, batch_size=batch_size, **(base | fields))


def trained(gps: float, batch_size: int = 256, **fields: Any) -> Row:
    """An achieved throughput."""
    base = {
        "suite": "run",
        "workload": "hopper-ddpg",
        "primitive": "training",
        "backend": "torch-native-cpu",
        "device": "cpu",
        "quantity": "gradient_steps_per_s",
        "unit": "1/s",
        "details": {"mapping": "torch-native-cpu"},
    }
    return measurement(gps, batch_size=batch_size, **(base | fields))


def mapped(mapping: str, gps: float, size: int, assignment: str = "", **fields: Any) -> Row:
    """A throughput that a validation achieved under a mapping."""
    base = {"suite": "validation", "workload": "cartpole-dqn", "backend": "placerl", "device": mapping}
    stated = {"assignment": assignment} if assignment else {}
    return trained(gps, size, details={"mapping": mapping, **stated}, **(base | fields))


def predicted(gps: float, batch_size: int = 256, **fields: Any) -> Row:
    """A prediction for the same mapping, which the strategy chose."""
    base = {
        "suite": "prediction",
        "backend": "map-tpds23",
        "provenance": Provenance.MODELLED,
        "details": {"mapping": "torch-native-cpu", "chosen": True},
    }
    return trained(gps, batch_size, **(base | fields))


def compared(ratio: float, verdict: str, baseline: str = "sb3", **fields: Any) -> Row:
    """This project's throughput over a baseline's, and the verdict of the comparison."""
    base = {
        "suite": "compare",
        "workload": "cartpole-dqn",
        "primitive": "training",
        "backend": "torch-native-cpu",
        "device": "cpu",
        "batch_size": 64,
        "quantity": "throughput_ratio",
        "unit": "ratio",
        "details": {"baseline": baseline, "verdict": verdict},
    }
    return measurement(ratio, **(base | fields))


def final_return(
    workload: str, curve: str, final: float, seed: int, experiment: str, gradient_steps: int = 6_000
) -> Row:
    """The end of a training run under a curve's relaxation."""
    return row_of(
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
        details={
            "experiment": experiment,
            "seed": seed,
            "gradient_steps": gradient_steps,
            "mean_returns": [None, 10.0 + seed, final],
        },
    )


def claim_of(key: str) -> Claim:
    """The claim with exactly this key."""
    (claim,) = (each for each in papers.claims(key) if each.key == key)
    return claim


def frame_of(folder: Path, *measurements: Row) -> pd.DataFrame:
    """The frame of a store that holds these measurements, one cell each."""
    with Store.open(folder / "store.sqlite") as store:
        run = store.begin_run("quick", "revision", MACHINE, fresh=True)
        finish_each(store, run, measurements)
        return store.frame(run=run.record.id)


def finish_each(store: Store, run: Run, measurements: Iterable[Row]) -> None:
    """Store one finished cell a row, as `Run.finish` does, which would write the whole file for each."""
    cells = [(f"cell/{index}", run.record.started_at, [item]) for index, item in enumerate(measurements)]
    store.take_in("test", run.record, cells)


def verdict(key: str, folder: Path, *rows: Row) -> Verdict:
    """The verdict on a claim by a store that holds these rows."""
    (found,) = (each for each in papers.evaluate(frame_of(folder, *rows), key) if each.key == key)
    return found


def finding_without_rows(key: str) -> Finding:
    """The finding on a claim whose check reads no row."""
    return claim_of(key).evaluate(pd.DataFrame()).finding
