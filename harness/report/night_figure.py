"""Draws what this project and other libraries learnt at their own best settings: the figures of rliable."""

import matplotlib as mpl
import numpy as np
import pandas as pd
from markupsafe import Markup

from placerl.harness.compare.night_learning import Compared
from placerl.harness.compare.parts import OURS
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.suites import Suite
from placerl.harness.measure import over_tasks
from placerl.harness.measure.over_tasks import Interval
from placerl.harness.papers import charts
from placerl.harness.papers.charts import Panel
from placerl.harness.papers.evidence import records, select
from placerl.harness.papers.number import Number
from placerl.harness.report.drawing import STYLE, svg

_POINTS = 10
_SCORE = "score (random 0, goal 1)"


def compared(frame: pd.DataFrame) -> Compared:
    """Return the trainings of the tier night of `placerl learn` among stored measurements."""
    return Compared.of(records(select(frame, suite=Suite.LEARN, quantity="evaluation_return")))


def figure(learnt: Compared) -> Markup | None:
    """Plot scores over environment steps and over seconds, the performance profile, and who is higher how often.

    The interquartile means and profiles are over the goals that all libraries have trained.

    Returns:
        The plot; None if this project and another library have no goal in common.
    """
    systems = learnt.libraries
    tasks = learnt.common(systems)
    if len(systems) < 2 or not tasks:
        return None
    shares = np.linspace(1, _POINTS, _POINTS) / _POINTS
    ends = [run.seconds[-1] for run in learnt.runs if run.workload in tasks and run.system in systems]
    seconds = np.geomspace(min(ends) / 20, max(ends), _POINTS)
    scores = {name: learnt.scores(tasks, name) for name in systems}
    top = max(1.0, *(value for some in scores.values() for task in some for value in task))
    levels = np.linspace(0, top, _POINTS + 1)

    def lines(xs: np.ndarray, found: dict[str, list[Interval]]) -> list[charts.Line]:
        return [
            charts.line(name, [(float(x), _number(one)) for x, one in zip(xs, some, strict=True)])
            for name, some in found.items()
        ]

    over = {name: learnt.over_steps(tasks, name, shares.tolist()) for name in systems}
    timed = {name: learnt.over_seconds(tasks, name, seconds) for name in systems}
    profiles = {name: over_tasks.profile(some, levels) for name, some in scores.items()}
    higher = [
        (name, found) for name in learnt.systems if name != OURS and (found := learnt.improvement(name))
    ]
    panels = [
        Panel(
            "environment steps (% of each goal's)",
            _SCORE,
            lines(100 * shares, over),
            "Over environment steps",
        ),
        Panel("seconds of training", _SCORE, lines(seconds, timed), "Over time", log_x=True),
        Panel("score at the end", "fraction of runs above", lines(levels, profiles), "Performance profile"),
        Panel(
            "",
            "probability",
            [charts.line(f"{OURS} higher", [(name, _number(found)) for name, found in higher])],
            f"{OURS} higher than",
        ),
    ]
    with mpl.rc_context(STYLE):
        drawn = charts.chart(*panels)
        assert drawn is not None, "of measured scores"
        said = (
            f"scores of {', '.join(systems)} over environment steps and seconds, profiles, and who is higher"
        )
        return svg(drawn, "learning-at-own-settings", said)


def _number(found: Interval) -> Number:
    return Number("score", found.value, "1", Provenance.MEASURED, low=found.low, high=found.high)
