"""What is said of predictions for platforms is what the committed runs show."""

from statistics import median

import pytest

from placerl.harness import platforms, workloads
from placerl.harness.core.shipped import shipped
from placerl.harness.mapping import STRATEGIES, absent_platforms, checked
from placerl.harness.store import reference
from placerl.harness.store.rows import AchievedRate


@pytest.mark.slow
def test_the_committed_runs_show_how_far_predictions_from_numbers_alone_are_off() -> None:
    platform, ratios = platforms.load(checked.PLATFORM), dict[str, list[float]]()
    runs = (shipped("results", "reference", f"{name}.json") for name in ("with-gpu", "with-gpu-validation"))
    achieved = [
        row
        for run in runs
        for row in reference.load_one(run).measurements
        if isinstance(row, AchievedRate) and row.value
    ]
    for name, size in {(row.workload, row.batch_size) for row in achieved}:
        _, rows = absent_platforms.predictions(workloads.load(name), size or 0, platform)
        predicted = {(row.strategy, row.mapping): row.value for row in rows if row.value}
        for row in achieved:
            for strategy in STRATEGIES.values() if (row.workload, row.batch_size) == (name, size) else ():
                value = predicted.get((strategy.name, row.mapping))
                if value and row.value and row.loop == strategy.loop:
                    ratios.setdefault(strategy.name, []).append(value / row.value)
    assert ratios.keys() == checked.TIMES_TOO_FAST.keys()
    for strategy, found in ratios.items():
        assert len(found) == checked.TRAININGS
        stated = (median(found), min(found), max(found))
        assert checked.TIMES_TOO_FAST[strategy] == pytest.approx(stated, rel=0.02)
        assert f"{checked.TIMES_TOO_FAST[strategy][0]:g} times too fast" in checked.said_of(strategy)
    assert not checked.said_of("primitive-sum")
