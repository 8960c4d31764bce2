import io

import numpy as np
import pytest
from rich.console import Console

from placerl.harness.cli import calibrate_command
from placerl.harness.measure.protocol import NULL, Case, Timing
from placerl.harness.measure.statistics import Comparison, Ratio, Samples
from placerl.harness.plan import calibration
from placerl.harness.plan.calibration import Try, finding, planted, summary


def test_a_share_has_a_binomial_interval_and_meets_its_goal_or_not():
    found = finding("held", 190, 200, (0.93, 0.97))
    assert (found.share, found.met) == (0.95, True)
    assert found.low == pytest.approx(0.910, abs=0.001)  # Clopper and Pearson's, from a table
    assert found.high == pytest.approx(0.976, abs=0.001)
    assert finding("held", 199, 200, (0.93, 0.97)).met is False
    assert finding("alarms", 2, 40, (0.0, 0.05)).met is True
    assert finding("alarms", 3, 40, (0.0, 0.05)).met is False
    assert finding("found", 31, 40, (0.8, 1.0)).met is False
    assert finding("found", 32, 40, (0.8, 1.0)).met is True
    assert finding("any", 1, 2).met is None


def tried(low, high, verdict="no verdict", name="p"):
    ratio = Ratio((low * high) ** 0.5, low, high)
    timing = Timing("a", "ok", "", Samples(np.linspace(1, 1.01, 20), np.zeros(20)))
    return Try(name, Comparison(ratio, None, verdict, "", 45), timing)


def test_the_summary_counts_intervals_alarms_and_slowdowns():
    same = [tried(0.99, 1.01)] * 19 + [tried(1.001, 1.01, "slower")]
    slower = [tried(1.01, 1.05, "slower")] * 3 + [tried(0.99, 1.05), tried(0.9, 0.95, "faster")]
    found = {one.what: (one.found, one.of, one.met) for one in summary(same, slower)}
    assert found["95% intervals of A/A that hold 1"] == (19, 20, True)
    assert found["A/A with a verdict (false alarms)"] == (1, 20, True)
    assert found["slowdowns of 3% that were found"] == (3, 5, False)
    assert found["intervals of A/A measured one after the other that hold 1"] == (19, 19, None)


def test_a_comparison_that_failed_meets_no_goal():
    failed = Try("p", Comparison(None, None, "no verdict", "x: failed", 0), Timing("a", "failed", "x"))
    found = {one.what: (one.found, one.of, one.met) for one in summary([failed] * 2, [failed])}
    assert found["95% intervals of A/A that hold 1"] == (0, 2, False)
    assert found["slowdowns of 3% that were found"] == (0, 1, False)
    assert "intervals of A/A measured one after the other that hold 1" not in found
    half = {one.what: (one.found, one.of) for one in summary([failed, tried(0.99, 1.01)], [])}
    assert half["95% intervals of A/A that hold 1"] == (1, 2)


def test_the_planted_loop_takes_its_share(monkeypatch):
    """3% of a call of 200 us are 600 additions of 10 ns, which are timed a thousand at a time."""
    times_s = {"call": 200e-6, "arithmetic": 10e-6}

    def timings(cases, protocol):
        samples = {case.name: times_s[case.name] * np.array([1.0, 1.0, 3.0]) for case in cases}
        return {name: Timing(name, "ok", "", Samples(one, np.zeros(3))) for name, one in samples.items()}

    monkeypatch.setattr(calibration, "measure", timings)
    case = Case("call", lambda: None, lambda _: None, lambda _, rng: None, lambda _, one: None)
    items = [made.call.__closure__ for made in planted(case, 0.03)]
    loops = [
        next(cell.cell_contents for cell in one if isinstance(cell.cell_contents, range)) for one in items
    ]
    assert [len(loop) for loop in loops] == [0, 600]


def test_the_busy_process_ends(monkeypatch):
    monkeypatch.setattr(calibration, "BUSY", "import time; time.sleep(60)")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    ended = []
    popen = calibration.subprocess.Popen
    monkeypatch.setattr(calibration.subprocess, "Popen", lambda *a: ended.append(popen(*a)) or ended[-1])
    with calibration.busy_core() as busy:
        assert busy
        assert ended[0].poll() is None
    assert ended[0].poll() is not None
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    with calibration.busy_core() as busy:
        assert not busy


def test_the_table_says_what_is_met():
    console = Console(file=io.StringIO(), width=160)
    console.print(calibrate_command.table([finding("alarms", 3, 40, (0.0, 0.05)), finding("x", 1, 2)]))
    text = console.file.getvalue()
    assert "3 of 40" in text
    assert "at most 5%" in text
    assert "missed" in text


def test_null_cases_can_be_compared_with_themselves(monkeypatch):
    monkeypatch.setattr(calibration, "PRIMITIVES", ("null",))
    monkeypatch.setattr(calibration, "PLANTED", ())
    monkeypatch.setattr(
        calibration, "primitive_cases", lambda *_: [calibration.PrimitiveCase("null", None, 1, NULL)]
    )
    told = []
    found = calibration.compared(2, 1, lambda *at: told.append(at))
    assert {one.of for one in found if one.what.startswith("A/A")} == {2}
    assert told[-1][:2] == (2, 2)
