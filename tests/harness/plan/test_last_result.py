"""The line of the progress display that says what the last cell found."""

from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.core.suites import Suite
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.mapping.choices import HERE, WITH_SIMULATED
from placerl.harness.plan.last_result import in_words
from tests.harness.old_form import row_of


def row(suite: str, quantity: str, value: float | None = 341.2, **fields: Any) -> Row:
    given = {
        "workload": "hopper-ddpg",
        "batch_size": 256,
        "primitive": "training",
        "device": "native-native-cpu",
        "provenance": Provenance.MEASURED,
        "status": "ok" if value is not None else "not_run",
        "reason": "" if value is not None else "not run",
    }
    return row_of(suite=suite, quantity=quantity, value=value, **given | fields)


def predicted(among: str, **details: Any) -> Row:
    return row(
        Suite.VALIDATION,
        "predicted_gradient_steps_per_s",
        backend=DEFAULT_STRATEGY,
        details={"chosen_among": [among], **details},
    )


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(Suite.PROFILE, "time_per_call", 1e-3)], ""),
        ([row(Suite.RUN, "gradient_steps_per_s", None)], ""),
        (
            [row(Suite.RUN, "environment_steps_per_s", 9.0), row(Suite.RUN, "gradient_steps_per_s")],
            "hopper-ddpg B=256: native-native-cpu trained at 341.2 gradient steps/s",
        ),
        (
            [predicted(WITH_SIMULATED, achieved=1.0), predicted(HERE, achieved=338.04)],
            "hopper-ddpg B=256: native-native-cpu, 341.2 gradient steps/s predicted, 338 achieved",
        ),
        ([predicted(HERE)], "hopper-ddpg B=256: native-native-cpu, 341.2 gradient steps/s predicted"),
        (
            [row(Suite.COMPARE, "throughput_ratio", 2.5, details={"baseline": "sb3", "verdict": "faster"})],
            "hopper-ddpg B=256: 2.5 times as fast as sb3, faster",
        ),
    ],
)
def test_a_cell_s_answer_is_said_in_a_line(rows: list[Row], said: str) -> None:
    assert in_words(rows) == said


def test_a_failure_is_said_before_any_result() -> None:
    failed = row(
        Suite.RUN, "failure", None, status="failed", reason="ValueError: no\nlines of it", batch_size=None
    )
    assert in_words([row(Suite.RUN, "gradient_steps_per_s"), failed]) == "hopper-ddpg failed: ValueError: no"
