"""What a reader asks first: the fastest mapping and how sure that is, the libraries, the errors, portability."""

from dataclasses import replace
from pathlib import Path

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.mapping.choices import HERE, WITH_SIMULATED
from placerl.harness.papers.number import Number
from placerl.harness.report import answers, plots
from placerl.harness.report.content import Content
from placerl.harness.report.reading import read
from placerl.harness.report.rows.libraries import BaselineComparison
from placerl.harness.report.rows.mappings import PredictedThroughput
from placerl.harness.report.tables import heat_maps
from placerl.harness.store.store import Store
from tests.harness.report import sample


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return read(sample.write(tmp_path_factory.mktemp("store") / "store.sqlite"))


def rate(value: float, spread: float = 0.01) -> Number:
    low, high = value * (1 - spread), value * (1 + spread)
    return Number("gradient steps", value, "1/s", Provenance.MEASURED, low=low, high=high)


def ran(
    mapping: str,
    achieved: Number,
    *,
    strategy: str = DEFAULT_STRATEGY,
    chosen: bool = False,
    status: str = "ok",
    error: float = 0.0,
) -> PredictedThroughput:
    """A prediction for a workload at batch size 32 whose mapping was run."""
    off = Number("error", error, "%", Provenance.MODELLED)
    among = (HERE,) if chosen else ()
    return PredictedThroughput(
        "w", 32, mapping, strategy, among, "fused", achieved, achieved, off, "ok", status
    )


A, B, C = "native-native-cpu", "torch-native-cpu", "native-flat-cpu"
SHARED = "best: every other mapping was clearly slower in the rounds that they shared"


@pytest.mark.parametrize(
    ("rates", "noisy", "sure"),
    [
        ((rate(100), rate(90), rate(10)), (), f"best: its interval is above that of {B}"),
        ((rate(100), rate(99), rate(10)), (), f"no verdict: {B} may be as fast"),
        # The others' intervals count, not their order: a wide one reaches the fastest's.
        ((rate(100), rate(90), rate(80, 0.5)), (), f"no verdict: {C} may be as fast"),
        ((rate(100), rate(90), rate(10)), (A,), "no verdict: too noisy"),
        (
            (rate(100), replace(rate(90), low=None, high=None), rate(10)),
            (),
            f"no verdict: {B} may be as fast",
        ),
    ],
)
def test_a_mapping_is_the_best_only_where_its_interval_is_above_all_others(
    content: Content, rates: tuple[Number, ...], noisy: tuple[str, ...], sure: str
) -> None:
    predictions = tuple(
        ran(mapping, achieved, chosen=mapping == B, status="too_noisy" if mapping in noisy else "ok")
        for mapping, achieved in zip((A, B, C), rates, strict=True)
    )
    (found,) = answers.fastest_mappings(replace(content, predictions=predictions))
    assert (found.mapping, found.next_mapping, found.mappings) == (A, B, 3)
    assert (found.rate, found.next_rate) == rates[:2]
    assert (found.workload, found.batch_size, found.loop) == ("w", 32, "fused")
    assert found.sure == sure
    assert found.choice == B


@pytest.mark.parametrize(
    ("slower", "sure"),
    [((B, C), SHARED), ((B,), "no verdict: too noisy"), ((A, B, C), "no verdict: too noisy")],
)
def test_a_mapping_is_the_best_where_all_others_were_dropped_as_clearly_slower(
    content: Content, slower: tuple[str, ...], sure: str
) -> None:
    predictions = tuple(
        replace(
            ran(mapping, rate(achieved, 0.5), status="too_noisy"),
            slower_among=(HERE,) if mapping in slower else (WITH_SIMULATED,),
        )
        for mapping, achieved in zip((A, B, C), (100, 90, 10), strict=True)
    )
    (found,) = answers.fastest_mappings(replace(content, predictions=predictions))
    assert (found.mapping, found.sure) == (A, sure)


def test_a_mapping_that_was_dropped_in_faster_rounds_is_not_the_best(content: Content) -> None:
    """A was dropped after five rounds; B went on into slower ones."""
    dropped = replace(ran(A, rate(1000)), slower_among=(HERE,))
    changed = replace(content, predictions=(dropped, ran(B, rate(900), chosen=True)))
    (found,) = answers.fastest_mappings(changed)
    assert (found.mapping, found.next_mapping, found.sure, found.choice) == (B, A, SHARED, "this one")
    (chosen,) = answers.chosen_mappings(changed)
    assert chosen.sure == SHARED
    (drawn,) = heat_maps(changed.predictions)
    assert drawn.best(32) == B
    assert "★" in str(plots.heat_map(drawn))


@pytest.mark.parametrize(
    ("chosen", "noisy", "sure"),
    [
        (A, "", f"no verdict: {B} may be as fast"),
        (B, "", f"no verdict: {B} may be as fast"),
        (C, "", f"not the best: {A} is faster"),
        (C, A, "no verdict: too noisy"),
    ],
)
def test_a_choice_that_is_clearly_slower_is_not_the_best_however_close_two_others_are(
    content: Content, chosen: str, noisy: str, sure: str
) -> None:
    predictions = tuple(
        ran(mapping, rate(value), chosen=mapping == chosen, status="too_noisy" if mapping == noisy else "ok")
        for mapping, value in ((A, 100), (B, 99), (C, 10))
    )
    (found,) = answers.chosen_mappings(replace(content, predictions=predictions))
    assert found.sure == sure


def test_learners_in_fixed_point_are_validated_apart_and_hide_no_other(content: Content) -> None:
    fixed = "native[fixed32]-native-cpu"
    predictions = (
        ran(A, rate(1000), chosen=True),
        ran(B, rate(900)),
        replace(ran(fixed, rate(1040), chosen=True), slower_among=(HERE,)),
    )
    changed = replace(content, predictions=predictions)
    (found,) = heat_maps(predictions)
    assert found.mappings == (A, B)
    (chosen,) = answers.chosen_mappings(changed)
    assert (chosen.prediction.mapping, chosen.sure) == (A, f"best: its interval is above that of {B}")


def test_a_part_of_a_training_is_no_comparison_of_trainings(content: Content) -> None:
    ratio = Number("ratio", 9.0, "ratio", Provenance.MEASURED)
    names = (
        "sb3, learner and replay alone",
        "sb3, this project with EnvPool",
        "sb3, this project with torch-native-cpu",
        "sb3, subnormals flushed",
        "sb3, on 2 cores",
        "cpprb, replay alone",
    )
    compared = tuple(
        BaselineComparison("w", 32, name, ratio, None, None, None, "faster", "") for name in names
    )
    changed = replace(content, comparisons=compared)
    assert answers.over_sb3(changed) is None
    assert answers.against_libraries(changed) == []


def test_the_sample_s_mappings_are_of_measured_devices_and_say_what_was_chosen(content: Content) -> None:
    found = {f.batch_size: f for f in answers.fastest_mappings(content)}
    assert {size: (f.mapping, f.choice) for size, f in found.items()} == {
        32: ("native-native-cpu", "this one"),
        256: ("torch-native-cpu", "native-native-cpu"),
    }


def test_sb3_is_beside_the_library_that_comes_nearest(content: Content) -> None:
    def next_to(baseline: str, ratio: float | None, size: int = 32) -> BaselineComparison:
        number = None if ratio is None else Number("ratio", ratio, "ratio", Provenance.MEASURED)
        return BaselineComparison("w", size, baseline, number, None, None, None, "faster", "")

    compared = (
        next_to("sbx", 3.0),
        next_to("sb3", 9.0),
        next_to("rllib", None),  # failed
        next_to("torchrl, learner and replay alone", 2.0),
        next_to("cpprb, replay alone", 0.5),
        next_to("sb3", 2.0, 64),
        next_to("sbx", 3.0, 64),
        next_to("rllib", 0.9, 128),
        next_to("sb3", 9.0, 256),
    )
    found = answers.against_libraries(replace(content, comparisons=compared))
    named = [
        (a.batch_size, a.sb3.baseline if a.sb3 else "", a.fastest.baseline if a.fastest else "", a.others)
        for a in found
    ]
    assert named == [
        (32, "sb3", "sbx", 2),
        (64, "sb3", "sbx", 2),
        (128, "", "rllib", 1),
        (256, "sb3", "", 1),
    ]


def test_errors_are_the_default_strategy_s_and_absolute(content: Content) -> None:
    errors = (-20.0, 4.0, 5.0, -1.0)
    predictions = tuple(ran(f"m{at}", rate(1), error=error) for at, error in enumerate(errors))
    other = ran("m9", rate(1), strategy="map-tpds23", error=900)
    found = answers.prediction_errors(replace(content, predictions=(*predictions, other)))
    assert found == answers.PredictionErrors(4.5, 4, 3, 0, 0, "modelled")
    assert answers.prediction_errors(replace(content, predictions=(other,))) is None


def test_the_papers_formulas_are_judged_in_one_sentence(content: Content) -> None:
    predictions = (
        ran("a", rate(1), strategy="map-tpds23", error=-80),
        ran("b", rate(1), strategy="pearl24", error=28),
        ran("c", rate(1), error=1),
    )
    assert content.run is not None
    for cores, shared in ((2, "; MAP's keeps 3 threads busy, on 2 cores"), (3, "")):
        run = replace(content.run, machine={"cpu": {"usable_cores": cores}})
        assert answers.formula_errors(replace(content, run=run, predictions=predictions)) == (
            f"80% (MAP), 28% (PRL) off in the median, each in the loop that it describes{shared}"
        )
    assert answers.formula_errors(replace(content, predictions=predictions[2:])) == ""


def test_errors_with_a_simulated_device_are_apart(content: Content) -> None:
    here, simulated = (ran("m", rate(1), error=error) for error in (2.0, -30.0))
    achieved = replace(rate(1), provenance=Provenance.SIMULATED)
    mixed = replace(content, predictions=(here, replace(simulated, achieved=achieved)))
    assert answers.prediction_errors(mixed) == answers.PredictionErrors(2.0, 1, 1, 0, 0, "modelled")
    apart = answers.prediction_errors(mixed, simulated=True)
    assert apart == answers.PredictionErrors(30.0, 1, 0, 0, 0, "modelled")
    assert answers.prediction_errors(replace(content, predictions=(here,)), simulated=True) is None


def test_a_choice_is_alone_where_no_other_mapping_was_run(content: Content) -> None:
    choice, other = ran(A, rate(100), chosen=True), ran(B, rate(90))
    not_run = replace(choice, achieved=None, error=None)
    alone = [
        [c.alone for c in answers.chosen_mappings(replace(content, predictions=predictions))]
        for predictions in ((choice,), (choice, other), (not_run,))
    ]
    assert alone == [[True], [False], [False]]


def test_an_error_is_clear_where_its_whole_interval_is(content: Content) -> None:
    intervals = ((-30.0, -6.0), (-30.0, -4.0), (5.5, 9.0), (-1.0, 1.0), (None, None))
    predictions = tuple(
        replace(one, error=replace(one.error, low=low, high=high))
        for low, high in intervals
        if (one := ran("m", rate(1), error=10.0)).error
    )
    found = answers.prediction_errors(replace(content, predictions=predictions))
    assert found
    assert (found.trainings, found.judged, found.beyond) == (5, 4, 2)
    assert found.certainty == "4 have an interval, 2 of them clearly more than 5% off"


def test_portability_is_prl_s(content: Content) -> None:
    keys = [verdict.key for verdict in answers.portability(content)]
    assert keys == ["PRL-T3-device-portability", "PRL-T3-platform-portability"]


def test_a_store_without_measurements_answers_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        store.begin_run("quick", "r1", {"fingerprint": "f"})
    empty = read(tmp_path / "store.sqlite")
    assert answers.fastest_mappings(empty) == answers.against_libraries(empty) == []
    assert answers.prediction_errors(empty) is answers.prediction_errors(empty, simulated=True) is None
