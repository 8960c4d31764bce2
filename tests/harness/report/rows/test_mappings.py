"""From stored measurements to the rows on mappings: predictions, heat maps and choices."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import DEFAULT_STRATEGY
from placerl.harness.report import pages, plots, tables
from placerl.harness.report.content import Content
from placerl.harness.report.formatting import MARKS
from placerl.harness.report.reading import read
from placerl.harness.report.rows.mappings import PredictedThroughput
from placerl.harness.store.store import Store
from tests.harness.old_form import replace
from tests.harness.papers.rows import frame_of, predicted, profiled, trained
from tests.harness.report import sample


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    return read(sample.write(tmp_path_factory.mktemp("store") / "store.sqlite"))


def test_predictions_meet_what_was_achieved(content: Content) -> None:
    by_place = {(p.workload, p.mapping, p.strategy): p for p in content.predictions}
    chosen = by_place["hopper-ddpg", "torch-native-cpu", "map-tpds23"]
    assert chosen.chosen_among == ("here",)
    assert chosen.achieved is not None
    assert chosen.error is not None
    assert chosen.error.value == pytest.approx(12)
    assert chosen.error.provenance == "modelled"
    assert by_place["hopper-ddpg", "graph-reference-cpu", "map-tpds23"].achieved is None


def test_a_heat_map_holds_every_mapping_and_marks_the_best_and_the_chosen(content: Content) -> None:
    (found,) = tables.heat_maps(content.predictions)
    assert (found.workload, found.batch_sizes) == ("pendulum-td3", (32, 256))
    assert found.mappings == ("native-native-cpu", "opencl-flat-cpu", "torch-native-cpu")
    assert [found.best(size) for size in (32, 256)] == ["native-native-cpu", "torch-native-cpu"]
    assert found.chosen == {32: "native-native-cpu", 256: "native-native-cpu"}
    assert found.achieved["opencl-flat-cpu", 256].value == 80
    drawn = plots.heat_map(found)
    assert drawn.count("★") == drawn.count("◇") == 2


def with_simulation(workload: str = "hopper-ddpg") -> Iterator[Row]:
    """A validation of two mappings that were here and one simulated one, each in two loops."""
    best = "fpga-fpga-fpga"
    rates = {"native-native-cpu": 195.0, "torch-native-cpu": 120.0, best: 289.0}
    for (mapping, gps), loop in product(rates.items(), ("fused", "overlapped")):
        fields = {"suite": "validation", "workload": workload}
        fields["provenance"] = Provenance.SIMULATED if mapping == best else Provenance.MEASURED
        gps *= 1 if loop == "fused" else 3
        yield trained(gps, backend="placerl", details={"mapping": mapping, "loop": loop}, **fields)
        among = {"native-native-cpu": ["here"], best: ["here and simulated"]}.get(mapping, [])
        details = {"mapping": mapping, "ran": loop, "chosen": among == ["here"], "chosen_among": among}
        fields |= {"provenance": Provenance.MODELLED, "quantity": "predicted_gradient_steps_per_s"}
        strategy = DEFAULT_STRATEGY if loop == "fused" else "composed-overlapped-loop"
        yield predicted(gps, **fields, backend=strategy, details=details)


def test_heat_maps_keep_what_is_simulated_apart_and_mark_it(tmp_path: Path) -> None:
    predictions = list(tables.predictions(frame_of(tmp_path, *with_simulation())))
    here, both = tables.heat_maps(predictions)
    assert (here.devices, here.loop, here.provenances) == ("here", "fused", (Provenance.MEASURED,))
    assert here.best(256) == here.chosen[256] == "native-native-cpu", "no regret among what was here"
    assert both.best(256) == both.chosen[256] == "fpga-fpga-fpga"
    assert both.achieved["native-native-cpu", 256].value == 195, "not the overlapped loop's"
    assert MARKS[Provenance.SIMULATED] not in plots.heat_map(here)
    assert plots.heat_map(both).count(f"289 {MARKS[Provenance.SIMULATED]}★◇") == 1


RAN = {"mapping": "native-native-cpu", "fusion": "step"}


def beside_runs(folder: Path, strategy: str, *runs: Row) -> PredictedThroughput:
    """The prediction of a strategy beside training runs."""
    made = predicted(100.0, backend=strategy, details={"mapping": RAN["mapping"], "settings": {}})
    (found,) = tables.predictions(frame_of(folder, *runs, made))
    return found


def test_a_prediction_is_beside_the_median_of_all_seeds_and_never_beside_other_options(
    tmp_path: Path,
) -> None:
    other = trained(900.0, details=RAN | {"options": {"overlap": 16}, "seed": 0})
    seeds = [
        trained(rate, details=RAN | {"options": {}, "seed": seed}) for seed, rate in enumerate((90, 120, 110))
    ]
    found = beside_runs(tmp_path, DEFAULT_STRATEGY, other, *seeds)
    assert found.achieved is not None
    assert (found.achieved.value, found.achieved.rows) == (110, (1, 2, 3))
    assert (found.achieved.low, found.achieved.high) == (pytest.approx(89.1), pytest.approx(121.2))
    assert (found.error and found.error.value) == pytest.approx(100 * (100 / 110 - 1))


@pytest.mark.parametrize(
    ("strategy", "details", "paired"),
    [
        (DEFAULT_STRATEGY, {"options": {}}, True),
        (DEFAULT_STRATEGY, {"options": {"fusion": "none"}, "fusion": "none"}, False),
        (DEFAULT_STRATEGY, {"options": {"threads": 2}}, False),
        ("primitive-sum", {"options": {}}, False),
        ("primitive-sum", {"options": {}, "fusion": "none"}, True),
        ("map-tpds23", {"options": {}}, False),  # of the overlapped loop
        ("unheard-of", {"options": {}}, False),
    ],
)
def test_a_prediction_is_beside_runs_of_its_loop_and_options(
    strategy: str, details: dict[str, Any], paired: bool, tmp_path: Path
) -> None:
    found = beside_runs(tmp_path, strategy, trained(100.0, details=RAN | details))
    assert (found.achieved is not None, found.achieved_status) == (paired, "ok" if paired else "not_run")


def own_training(mapping: str, rate: float, size: int) -> Iterator[Row]:
    """A training of its own as `placerl run` stores it, and its prediction."""
    details = {"mapping": mapping, "fusion": "step", "options": {}}
    yield trained(rate, size, details=details)
    yield predicted(rate, size, backend=DEFAULT_STRATEGY, details={"mapping": mapping})


def test_a_heat_map_has_no_best_of_a_single_run_nor_of_trainings_beside_a_validation(tmp_path: Path) -> None:
    single = own_training("native-native-cpu", 900.0, 32)
    (here, _) = tables.heat_maps(tables.predictions(frame_of(tmp_path, *with_simulation(), *single)))
    assert (here.loop, here.batch_sizes) == ("fused", (256,))
    assert {size for _, size in here.achieved} == {256}


def test_trainings_of_several_mappings_have_a_heat_map_where_no_validation_has(tmp_path: Path) -> None:
    places = (("native-native-cpu", 32), ("torch-native-cpu", 32), ("torch-native-cpu", 256))
    rows = [row for mapping, size in places for row in own_training(mapping, 100.0 + len(mapping), size)]
    (found,) = tables.heat_maps(tables.predictions(frame_of(tmp_path, *rows)))
    assert (found.loop, found.batch_sizes, found.best(32)) == ("", (32,), "native-native-cpu")


def test_learners_in_fixed_point_are_shown_and_float32_only_once(tmp_path: Path) -> None:
    """`--precision` measures float32 too, in suites of its own."""
    fixed, float32 = "native[dynamic]-native-cpu", "native-native-cpu"
    rows = [
        profiled("learner.step", 1e-4),
        profiled("learner.step", 2e-4, suite="precision_profile"),
        profiled("learner.step", 3e-4, suite="precision_profile", backend="native[dynamic]"),
        trained(90.0, backend=fixed, details={"mapping": fixed, "fusion": "none", "options": {}}),
    ]
    for mapping in (fixed, float32):
        rows.append(
            predicted(
                100.0, suite="precision_prediction", backend=DEFAULT_STRATEGY, details={"mapping": mapping}
            )
        )
        details = {"mapping": mapping, "loop": "fused", "ran": "fused"}
        rows.append(
            trained(110.0, 32, suite="precision_validation", backend="placerl", details=details),
        )
        rows.append(
            predicted(
                120.0,
                32,
                suite="precision_validation",
                quantity="predicted_gradient_steps_per_s",
                details=details,
            )
        )
    frame = frame_of(tmp_path, *rows)
    assert [(p.backend, p.time.value) for p in tables.primitives(frame)] == [
        ("native", 1e-4),
        ("native[dynamic]", 3e-4),
    ]
    trainings, validated = tables.predictions(frame)
    assert (trainings.mapping, trainings.achieved.value, trainings.predicted.value) == (fixed, 90.0, 100.0)
    assert (validated.mapping, validated.achieved.value, validated.predicted.value) == (fixed, 110.0, 120.0)


NOISY = {"status": "too_noisy", "reason": "its interval is 40% wide"}


def with_noise() -> Iterator[Row]:
    """Two mappings that were run, one of them too noisy, as is one of the predictions."""
    fields: dict[str, Any] = {"suite": "validation", "workload": "hopper-ddpg"}
    for mapping, achieved, made in (("torch-native-cpu", NOISY, {}), ("native-native-cpu", {}, NOISY)):
        details = {"mapping": mapping, "loop": "fused"}
        yield trained(120.0, backend="placerl", details=details, **fields, **achieved)
        details |= {"ran": "fused", "chosen_among": []}
        quantity = "predicted_gradient_steps_per_s"
        yield predicted(130.0, backend=DEFAULT_STRATEGY, quantity=quantity, details=details, **fields, **made)


def test_predictions_say_which_of_their_rates_are_too_noisy(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("a", list(with_noise()))
    content = read(tmp_path / "store.sqlite")
    statuses = {p.mapping: (p.predicted_status, p.achieved_status) for p in content.predictions}
    assert statuses == {"torch-native-cpu": ("ok", "too_noisy"), "native-native-cpu": ("too_noisy", "ok")}
    page = pages.render(content, "predictions")
    assert "Too noisy for a verdict: 1 of 2 points." in page
    table = page.partition('id="predictions"')[2].partition("<tbody")[2].partition("</table>")[0]
    cells = {name: table.split(f'data-label="{name}"')[1:] for name in ("Predicted", "Achieved")}
    for name, marked in (("Predicted", [False, True]), ("Achieved", [True, False])):
        found = ["too noisy" in cell.partition("</td>")[0] for cell in cells[name]]
        assert found == marked, name


def test_a_heat_map_marks_what_is_too_noisy(tmp_path: Path) -> None:
    (found,) = tables.heat_maps(tables.predictions(frame_of(tmp_path, *with_noise())))
    assert found.noisy == {("torch-native-cpu", 256)}
    assert plots.heat_map(found).count("~120") == 1


def test_the_page_never_calls_a_simulated_throughput_measured(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("a", list(with_simulation()))
    content = read(tmp_path / "store.sqlite")
    page = pages.render(content, "mappings")
    assert "in the fused loop (measured)" in page
    assert "in the fused loop (measured, simulated; ◐ simulated)" in page
    page = pages.render(content, "predictions")
    assert "(measured; hollow: simulated)" in page


@pytest.mark.usefixtures("plots_not_drawn")
def test_regrets_say_among_which_devices_and_in_which_loop(tmp_path: Path) -> None:
    """One line each for what is here and for that with the simulated device: else they read alike."""
    among = ("here", "here and simulated")
    chosen = {"chosen": "native-native-cpu", "best": "native-native-cpu", "loop": "fused", "verdict": "best"}
    fields = {"suite": "validation", "quantity": "regret", "unit": "1", "device": "native-native-cpu"}
    with Store.open(tmp_path / "store.sqlite") as store:
        run = store.begin_run("quick", "r", sample.MACHINE)
        run.finish("a", [trained(0.0, **fields, details=chosen | {"devices": devices}) for devices in among])
    content = read(tmp_path / "store.sqlite")
    assert [(c.devices, c.loop) for c in content.choices] == [(devices, "fused") for devices in among]
    table = pages.render(content, "mappings").partition('id="choices"')[2].partition("</table>")[0]
    for devices in among:
        assert table.count(f'>{devices}</td><td data-label="Loop">fused</td>') == 1


def test_validated_predictions_are_those_of_the_validation(tmp_path: Path) -> None:
    """What a training of its own achieved says nothing of a prediction from a validation's pieces."""
    details = {"mapping": "native-flat-cpu", "chosen": True}
    shared = {"workload": "pong-dqn", "suite": "validation", "details": details}
    rows = [
        trained(200, **shared),
        predicted(220, quantity="predicted_gradient_steps_per_s", **shared),
    ]
    (found,) = tables.predictions(frame_of(tmp_path, *rows))
    assert (found.mapping, found.error.value) == ("native-flat-cpu", pytest.approx(10))


def test_a_validated_choice_is_shown_with_what_it_lost(tmp_path: Path) -> None:
    row = trained(
        0.25,
        suite="validation",
        quantity="regret",
        unit="1",
        backend="pal21",
        device="torch-flat-cpu",
        details={"chosen": "torch-flat-cpu", "best": "native-native-cpu"},
    )
    assert next(tables.choices(frame_of(tmp_path / "none", row))).slow_links == ""
    row = replace(row, slow_link_us=1000.0, slow_chosen=False)
    (found,) = tables.choices(frame_of(tmp_path, row))
    assert found.slow_links == "another at 1,000 us a transfer"
    assert (found.strategy, found.mapping, found.best) == ("pal21", "torch-flat-cpu", "native-native-cpu")
    assert found.regret.value == 0.25


@pytest.mark.parametrize(("rate", "low"), [(0.0, 0.0), (1.0, -1.0)])
def test_a_rate_that_is_not_above_0_is_no_achievement(rate: float, low: float, tmp_path: Path) -> None:
    """This program stores none; a store of another program may hold one, and errors are divided by rates."""
    details = {"mapping": "native-native-cpu", "loop": "fused", "ran": "fused"}
    rows = (
        trained(rate, suite="validation", details=details, low=low),
        predicted(100.0, suite="validation", quantity="predicted_gradient_steps_per_s", details=details),
    )
    (found,) = tables.predictions(frame_of(tmp_path, *rows))
    assert (found.achieved, found.achieved_status) == (None, "not_run")
