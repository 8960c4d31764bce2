"""MAP Equation 3 beside runs of the loop that it describes: errors of predictions, and gaps to the optimum."""

from pathlib import Path
from typing import Any

import pytest

from placerl.harness import papers
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import HowTimed, Row
from placerl.harness.papers import Finding, Outcome
from placerl.harness.papers.map.predictions import NEEDS, NEEDS_FAST_ACTORS
from tests.harness.old_form import details_of, replace
from tests.harness.papers.rows import TOO_FEW, frame_of, predicted, profiled, trained, verdict

MAPPING = "torch-native-cpu"
SLOW_ACTORS = "the actors are the slowest part"


def run(gps: float, size: int = 256, mapping: str = MAPPING, loop: str = "relaxed", **more: Any) -> Row:
    fields = {"suite": "validation", "backend": "placerl", "device": mapping}
    return trained(gps, size, **(fields | {"details": {"mapping": mapping, "loop": loop}} | more))


def prediction(
    error: float | None, size: int = 256, half: float | None = 0.01, mapping: str = MAPPING, **more: Any
) -> Row:
    """A prediction of 100 gradient steps a second that a validation compared with its relaxed run."""
    details: dict[str, Any] = {
        "mapping": mapping,
        "loop": "relaxed",
        "chosen_among": ["here"],
        "terms_s": {"learner": 0.01, "rmm": 0.002},
    }
    if error is not None:
        details |= {"error": error, "ran": "relaxed"}
        details |= {} if half is None else {"error_low": error - half, "error_high": error + half}
    chosen = more.pop("chosen_among", ["here"])
    fields = {"suite": "validation", "quantity": "predicted_gradient_steps_per_s", "device": mapping}
    return predicted(100, size, **(fields | {"details": details | {"chosen_among": chosen}} | more))


def step(time_s: float, backend: str = "torch", size: int = 256, **more: Any) -> Row:
    return profiled("learner.step", time_s, size, backend=backend, **({"suite": "validation"} | more))


def test_a_loop_in_which_nothing_overlaps_says_nothing(tmp_path: Path) -> None:
    """A prediction of the relaxed loop 40% above a run in turns is no error of the prediction."""
    beside = [
        prediction(0.4),
        step(0.01),
        run(60, loop="strict"),
        run(60, loop="fused"),
        run(60, loop="overlapped"),  # actors beside the rest, where learner and replay take turns
        trained(60),
        predicted(100),
    ]
    for key in ("MAP-VI-B", "MAP-F13"):
        found = verdict(key, tmp_path / key, *beside).finding
        assert (found.outcome, found.needs) == (Outcome.NOT_RUN, NEEDS)


def parts(acting_s: float, insert_s: float = 0.0) -> dict[str, float]:
    """Seconds of the parts of a training: 10 ms for the learner, and 7 ms and the insertion for the manager."""
    return {
        "environment": acting_s / 2,
        "infer": acting_s / 2,
        "sample": 4e-3,
        "gather": 1e-3,
        "update": 2e-3,
        "insert": insert_s,
        "learner": 10e-3,
    }


def acting(gps: float, size: int, acting_s: float, insert_s: float = 0.0) -> Row:
    """A run whose actors take some seconds a gradient step."""
    return run(
        gps, size, details={"mapping": MAPPING, "loop": "relaxed", "terms_s": parts(acting_s, insert_s)}
    )


@pytest.mark.parametrize("key", ["MAP-VI-B", "MAP-F13"])
@pytest.mark.parametrize(
    ("acting_s", "alone", "both"),
    [
        (9e-3, Outcome.NOT_REPRODUCED, Outcome.NOT_REPRODUCED),
        (11e-3, Outcome.NOT_RUN, Outcome.REPRODUCED),  # slower than the learner
    ],
)
def test_a_run_whose_actors_are_the_slowest_part_is_listed_and_not_judged(
    key: str, acting_s: float, alone: Outcome, both: Outcome, tmp_path: Path
) -> None:
    """At batch size 256 the prediction is far too high; at 32 it is right."""
    slow = [prediction(0.5), acting(66, 256, acting_s), step(0.01)]
    quick = [prediction(0.02, 32), acting(98, 32, 1e-3), step(0.01, size=32)]
    found = verdict(key, tmp_path / "alone", *slow).finding
    not_judged = alone is Outcome.NOT_RUN
    assert (found.outcome, found.needs) == (alone, NEEDS_FAST_ACTORS if not_judged else "")
    assert all((SLOW_ACTORS in number.quantity) == not_judged for number in found.ours)
    named = f"Not judged are 1 of 1: hopper-ddpg at batch size 256 ({SLOW_ACTORS})."
    assert (named in found.explanation) == not_judged
    found = verdict(key, tmp_path / "both", *slow, *quick).finding
    assert found.outcome is both
    assert len(found.ours) == {"MAP-VI-B": 4, "MAP-F13": 2}[key]
    assert sum(SLOW_ACTORS in number.quantity for number in found.ours) == not_judged * len(found.ours) // 2
    assert ("Not judged are 1 of 2: " in found.explanation) == not_judged


@pytest.mark.parametrize("key", ["MAP-VI-B", "MAP-F13"])
def test_a_measured_run_whose_threads_share_cores_is_listed_and_not_judged(key: str, tmp_path: Path) -> None:
    def on(cores: int, provenance: Provenance = Provenance.MEASURED) -> Finding:
        timed = HowTimed(conditions={"cores": list(range(cores))})
        rows = [prediction(0.5), replace(run(66), timed=timed, provenance=provenance), step(0.01)]
        return verdict(key, tmp_path / f"{cores} {provenance}", *rows).finding

    assert on(3).outcome is Outcome.NOT_REPRODUCED
    shared = on(2)
    assert (shared.outcome, shared.needs) == (Outcome.NOT_RUN, NEEDS_FAST_ACTORS)
    assert "hopper-ddpg at batch size 256 (3 busy threads on 2 cores)" in shared.explanation
    assert all("(not judged: 3 busy threads on 2 cores)" in number.quantity for number in shared.ours)
    assert on(2, Provenance.SIMULATED).outcome is Outcome.NOT_REPRODUCED, "virtual time shares no cores"


def test_a_manager_that_inserts_for_longer_than_the_actors_act_is_slower_than_they(tmp_path: Path) -> None:
    rows = [prediction(0.5), acting(66, 256, 11e-3, insert_s=5e-3)]
    assert verdict("MAP-VI-B", tmp_path, *rows).finding.outcome is Outcome.NOT_REPRODUCED


def test_what_is_clear_and_what_is_not_is_counted(tmp_path: Path) -> None:
    rows = [
        prediction(0.2),
        run(100),
        prediction(0.02, 32, half=None),
        run(100, 32),
        prediction(0.0, 64),
        run(100, 64),
    ]
    said = verdict("MAP-VI-B", tmp_path, *rows).finding.explanation
    assert said.startswith(
        "Of 3, 1 have too few rounds, 1 are clearly outside and 1 clearly within 5% of what was achieved"
    )


def test_only_chosen_mappings_count_and_the_weakest_provenance(tmp_path: Path) -> None:
    others = [
        prediction(0.5, mapping="graph-native-cpu", chosen_among=[]),
        run(66, mapping="graph-native-cpu"),
        prediction(0.5, backend="primitive-sum"),
    ]
    found = verdict("MAP-VI-B", tmp_path / "all", prediction(0.02), *others, run(98))
    error, achieved = found.finding.ours
    assert (achieved.value, achieved.provenance) == (98, Provenance.MEASURED)
    assert (error.value, error.low, error.high) == pytest.approx((2, 1, 3))
    assert found.finding.outcome is Outcome.REPRODUCED
    assert (found.provenance, found.rows) == ("modelled", (0, 4))
    # 1 / (10 ms + 2 ms) is 83.3 steps a second, of 98.
    assert "the median error is -15.0%" in found.finding.explanation
    assert verdict("MAP-VI-B", tmp_path / "others", *others, run(98)).finding.outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("rows", "outcome"),
    [
        ([prediction(0.2), run(100)], Outcome.NOT_REPRODUCED),
        ([prediction(-0.2), run(100)], Outcome.NOT_REPRODUCED),
        ([prediction(0.039), run(100)], Outcome.REPRODUCED),
        ([prediction(-0.039), run(100)], Outcome.REPRODUCED),
        ([prediction(-0.045), run(100)], Outcome.NO_VERDICT),
        ([prediction(0.061), run(100)], Outcome.NOT_REPRODUCED),  # the whole interval is above 5%
        ([prediction(-0.061), run(100)], Outcome.NOT_REPRODUCED),
        ([prediction(0.02), run(100), prediction(0.045, 32), run(100, 32)], Outcome.NO_VERDICT),
        ([prediction(0.045), run(100)], Outcome.NO_VERDICT),  # the interval reaches beyond the limit
        ([prediction(0.07, half=0.03), run(100)], Outcome.NO_VERDICT),
        ([prediction(0.02, half=None), run(100)], Outcome.NO_VERDICT),
        ([prediction(0.2, half=None), run(100)], Outcome.NO_VERDICT),
        # Noise of what the mapping does not use does not matter.
        ([step(0.01, **TOO_FEW), prediction(0.02), run(100)], Outcome.REPRODUCED),
        # One that is wrong for sure refutes the claim, whatever the others say.
        ([prediction(0.2), run(100), prediction(0.02, 32, half=None), run(100, 32)], Outcome.NOT_REPRODUCED),
    ],
)
def test_a_prediction_is_judged_by_its_interval(rows: list[Row], outcome: Outcome, tmp_path: Path) -> None:
    assert verdict("MAP-VI-B", tmp_path, *rows).finding.outcome is outcome


@pytest.mark.parametrize(
    ("gps", "outcome"),
    [
        (98.0, Outcome.REPRODUCED),
        (80.0, Outcome.NOT_REPRODUCED),
        (95.5, Outcome.NO_VERDICT),
        (103.0, Outcome.REPRODUCED),
        (106.0, Outcome.REPRODUCED),  # within the noise of 5%
        (110.0, Outcome.NO_VERDICT),  # its optimum is none
    ],
)
def test_gap_to_the_optimum(gps: float, outcome: Outcome, tmp_path: Path) -> None:
    rows = (
        step(0.010),
        step(0.015, "graph"),
        step(0.001, size=32),
        run(gps),
        prediction(0.0),
        step(0.001, "fpga", provenance=Provenance.SIMULATED),  # not there, where the run is measured
        run(10, 32),  # nothing was predicted for it
    )
    found = verdict("MAP-F13", tmp_path, *rows)
    assert found.finding.outcome is outcome
    (gap,) = found.finding.ours
    assert gap.value == pytest.approx(100 - gps)
    assert gap.low is not None
    assert gap.high is not None
    assert gap.low < gap.value < gap.high
    assert (found.rows, found.provenance) == ((0, 3), "measured")


def test_a_run_of_too_few_rounds_has_no_gap_to_the_optimum(tmp_path: Path) -> None:
    rows = step(0.010), run(80.0, **TOO_FEW), prediction(0.0)
    assert verdict("MAP-F13", tmp_path, *rows).finding.outcome is Outcome.NO_VERDICT


def test_a_simulated_run_is_judged_by_the_simulated_learner_too(tmp_path: Path) -> None:
    mapping, simulated = "fpga-fpga-fpga", {"provenance": Provenance.SIMULATED}
    found = verdict(
        "MAP-F13",
        tmp_path,
        prediction(0.0, mapping=mapping, chosen_among=["here and simulated"]),
        run(500, mapping=mapping, **simulated),
        step(0.01),
        step(0.001, "fpga", **simulated),
    ).finding
    assert (found.ours[0].value, found.outcome) == (pytest.approx(50), Outcome.NOT_REPRODUCED)


FPGA = "fpga-fpga-fpga"
MODELLED = {"provenance": Provenance.MODELLED}


@pytest.mark.parametrize(
    ("key", "error", "gps", "outcome"),
    [
        ("MAP-VI-B", 0.02, 98, Outcome.CONSISTENT),
        ("MAP-VI-B", 0.2, 83, Outcome.NO_VERDICT),
        ("MAP-F13", 0.0, 98, Outcome.CONSISTENT),
        ("MAP-F13", 0.0, 50, Outcome.NO_VERDICT),
    ],
)
def test_a_run_whose_rate_a_formula_gives_reproduces_and_refutes_nothing(
    key: str, error: float, gps: float, outcome: Outcome, tmp_path: Path
) -> None:
    modelled = (
        prediction(error, mapping=FPGA, chosen_among=["here and simulated"]),
        run(gps, mapping=FPGA, **MODELLED),
        step(0.01, "fpga", **MODELLED),
    )
    found = verdict(key, tmp_path / "alone", *modelled)
    assert (found.finding.outcome, found.provenance) == (outcome, "modelled")
    if outcome is Outcome.NO_VERDICT:
        assert "The formula does not know" in found.finding.explanation
    # Beside a measured run it is left out.
    both = verdict(key, tmp_path / "both", *modelled, prediction(0.02, 32), run(98, 32), step(0.01, size=32))
    assert both.finding.outcome is Outcome.REPRODUCED
    assert not any(FPGA in number.quantity for number in both.finding.ours)


def test_a_failed_run_is_no_evidence(tmp_path: Path) -> None:
    failed = replace(run(1.0), value=None, low=None, high=None, status="failed", reason="killed")
    rows = step(0.01), prediction(None), failed
    for key in ("MAP-VI-B", "MAP-F13"):
        assert verdict(key, tmp_path / key, *rows).finding.outcome is Outcome.NOT_RUN


def test_of_a_cell_measured_again_the_last_attempt_counts(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, step(0.01), prediction(0.5), run(50), step(0.01), prediction(0.02), run(98))
    frame["cell"] = ["validation/x"] * 3 + ["validation/x#2"] * 3
    for key in ("MAP-VI-B", "MAP-F13"):
        (found,) = (v for v in papers.evaluate(frame, key) if v.key == key)
        assert found.finding.outcome is Outcome.REPRODUCED
        assert len(found.finding.ours) == {"MAP-VI-B": 2, "MAP-F13": 1}[key]


def test_an_error_against_another_loop_does_not_count(tmp_path: Path) -> None:
    other = prediction(0.02)
    other = replace(other, details={**details_of(other), "ran": "overlapped"})
    for key in ("MAP-VI-B", "MAP-F13"):
        assert verdict(key, tmp_path / key, step(0.01), other, run(98)).finding.outcome is Outcome.NOT_RUN
