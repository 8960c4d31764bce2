"""Rows of a validation from made-up times: what was achieved, errors by round, overheads, portability."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from placerl.harness import platforms
from placerl.harness.cli import validation_tables
from placerl.harness.compare.registry import JUDGED_FOR_PORTABILITY, trains
from placerl.harness.compare.rounds import networks_on
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.loop.placement import Placement
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import VALIDATED, Loop, Mapping, PerformanceTable, Problem, Target, predict
from placerl.harness.measure.protocol import Timing
from placerl.harness.profile.cases.training import case_name
from placerl.harness.runtime.native_threads import ThreadedTraining
from placerl.harness.validate import rows as validation_rows
from placerl.harness.validate.rows import HERE, WITH_SIMULATED, Achieved
from tests.harness.old_form import details_of, replace
from tests.harness.validate.achieved import PACE, choice, ran, unmoved

PLATFORM = platforms.load("map-tpds23")


def test_a_piece_that_skipped_a_round_is_as_it_was_before() -> None:
    profile = validation_rows.Profile([piece("round.learn", "torch", 9.0)], [{0: 1.0, 4: 2.0}], 32)
    times = [profile.at(number).time_s("round.learn", Target("torch")) for number in (0, 3, 4, 7)]
    assert times == [1, 1, 2, 2]


def test_a_round_has_the_times_of_the_designs_that_mappings_use() -> None:
    rows = [
        *(
            piece("learner.step", "fpga", 3.0),
            dataclasses.replace(piece("learner.pipeline_step", "fpga", 1.0), mapped=True),
        ),
        *(
            piece("sum_tree.sample", "fpga", 5.0),
            dataclasses.replace(piece("sum_tree.banked_sample", "fpga", 2.0), mapped=True),
        ),
    ]
    profile, table = validation_rows.Profile(rows, [{}, {}, {}, {2: 4.0}], 32), predict.table_from(rows, 32)
    target = Target("fpga")
    assert profile.at(0).time_s("learner.step", target) == table.time_s("learner.step", target) == 1
    assert table.time_s("sum_tree.sample", target) == 2
    assert profile.at(2).time_s("sum_tree.sample", target) == 4
    assert profile.rounds(("sum_tree.sample", target)) == 1


def test_where_nothing_can_be_fused_the_strict_loop_is_the_fused_one() -> None:
    fused = ran("torch-flat-cpu", 1.0)
    found = {("torch-flat-cpu", Loop.FUSED): fused}
    assert validation_rows.under(Loop.STRICT, "torch-flat-cpu", found) is fused
    assert validation_rows.under(Loop.OVERLAPPED, "torch-flat-cpu", found) is None
    fused = replace(fused, row=replace(fused.row, fusion="replay"))
    found = {("torch-flat-cpu", Loop.FUSED): fused}
    assert validation_rows.under(Loop.STRICT, "torch-flat-cpu", found) is None


def test_terms_that_the_model_joins_are_joined_before_they_are_compared() -> None:
    predicted = {"actor": 6.0, "sample and gather": 2.0, "step": 1.0, "elsewhere": 1.0}
    achieved = {"environment": 2.0, "infer": 2.0, "sample": 1.5, "gather": 0.5, "step": 2.0}
    assert validation_rows.term_errors(predicted, achieved) == {
        "actor": 0.5,
        "sample and gather": 0.0,
        "step": -0.5,
    }
    assert validation_rows.term_errors(
        {"actor": 6.0, "sample and gather": 2.0}, {"environment": 4.0, "sample": 1.0}
    ) == {
        "actor": 0.5,
        "sample and gather": 1.0,
    }, "what is not counted takes no time"


def piece(primitive: str, target: str, time_s: float) -> Row:
    return replace(
        ran("native-native-cpu", 1.0).row,
        primitive=primitive,
        quantity="time_per_call",
        unit="s",
        value=time_s,
        details={"target": target},
    )


def test_an_error_is_that_of_each_round_by_its_own_pieces() -> None:
    """The machine is slower in some rounds; pieces and run both are, so that the prediction is still right."""
    pieces_s = {"collect": 3e-5, "insert": 1e-5, "steps": 5e-5, "runtime": 1e-5}
    targets = {"runtime": "cpu"}
    rows = [piece(f"fused_round.{name}", targets.get(name, "native"), s) for name, s in pieces_s.items()]
    rounds = [{n: s / pace for n, pace in enumerate(PACE)} for s in pieces_s.values()]
    profile = validation_rows.Profile(rows, rounds, 32)
    found = ran("native-native-cpu", *(1e4 / 0.98 * pace for pace in PACE))
    predicted = replace(choice("native-native-cpu"), value=1e4, details={"terms_s": {}})
    row = validation_rows.beside(
        predicted,
        VALIDATED["composed-loop"],
        {("native-native-cpu", Loop.FUSED): found},
        profile,
        Problem(32, 27),
        PLATFORM,
    )
    assert row.error == pytest.approx(-0.02)
    assert row.error_low == pytest.approx(-0.02)


def timing(name: str, *samples_s: float, **fields: Any) -> Timing:
    base = {"samples": unmoved(*samples_s), "rounds": tuple(range(len(samples_s)))}
    return Timing(name, "ok", "", **(base | fields))


def test_what_was_achieved_is_gradient_steps_over_time_and_its_parts_are_terms_a_step() -> None:
    """A call of four steps, whose median takes 1.6 s."""
    mapping = Mapping.parse("native-native-cpu")
    whole = case_name(mapping, Loop.OVERLAPPED)
    timings = {
        whole: timing(
            whole,
            1.6,
            3.2,
            median_s=1.6,
            low_s=0.8,
            high_s=3.2,
            rounds=(3, 7),
            details={"calls_per_block": 9},
        ),
        f"{whole}: step": timing("step", 1.0, median_s=1.0),
        f"{whole}: actor": Timing("actor", "failed", "wrong"),
        "another: step": timing("step", 5.0, median_s=5.0),
    }
    run: Any = SimpleNamespace(gradient_steps=4, training=SimpleNamespace(fusion=Fusion.STEP))
    fields = {"workload": "hopper-ddpg", "batch_size": 32}
    found = validation_rows.achieved(fields, mapping, Loop.OVERLAPPED, timings, run, replay_capacity=100)
    assert (found.mapping, found.loop, found.rounds) == (mapping, Loop.OVERLAPPED, {3: 2.5, 7: 1.25})
    row = found.row
    assert (row.value, row.low, row.high, row.samples) == (2.5, 1.25, 5, (2.5, 1.25))
    assert (row.suite, row.who, row.where, row.unit) == ("validation", "placerl", str(mapping), "1/s")
    assert (row.workload, row.batch_size, row.status) == ("hopper-ddpg", 32, "ok")
    assert details_of(row) == {
        "calls_per_block": 9,
        "replay_capacity": 100,
        "mapping": str(mapping),
        "loop": "overlapped",
        "gradient_steps_per_call": 4,
        "fusion": str(Fusion.STEP),
        "assignment": "cpu-cpu",
        "terms_s": {"step": 0.25},
    }


def test_a_rate_of_the_concurrent_loop_says_which_core_each_thread_had() -> None:
    mapping, training = Mapping.parse("native-native-cpu"), object.__new__(ThreadedTraining)
    training.fusion, training.placement = Fusion.REPLAY, Placement([1], [0], [0])
    whole = case_name(mapping, Loop.CONCURRENT)
    timings, fields = {whole: timing(whole, 1.0, median_s=1.0)}, {"workload": "hopper-ddpg", "batch_size": 32}
    run: Any = SimpleNamespace(gradient_steps=4, training=training)
    row = validation_rows.achieved(fields, mapping, Loop.CONCURRENT, timings, run).row
    assert row.placement == {"learners": [1], "managers": [0], "actors": [0]}


@pytest.mark.parametrize(
    ("mapping", "provenance"),
    [
        ("native-native-cpu", Provenance.MEASURED),
        ("native-fpga-fpga", Provenance.SIMULATED),
        ("fpga-native-cpu", Provenance.MODELLED),
    ],
)
def test_what_a_mapping_achieved_is_of_its_backends_provenance(
    mapping: str, provenance: Provenance, capsys: pytest.CaptureFixture[str]
) -> None:
    placement = Mapping.parse(mapping)
    name = case_name(placement, Loop.FUSED)
    timings = {name: Timing(name, "ok", "", unmoved(2.0), median_s=2.0, rounds=(0,))}
    fields = {"workload": "hopper-ddpg", "batch_size": 32}
    row = validation_rows.achieved(fields, placement, Loop.FUSED, timings, None).row
    assert (row.value, row.provenance) == (0.5, provenance)
    marked = "0.5" if provenance is Provenance.MEASURED else f"0.5 ({provenance})"
    assert validation_tables._reached(row) == marked


def test_what_could_not_be_run_has_no_rate_and_says_why() -> None:
    mapping = Mapping.parse("native-native-cpu")
    whole = case_name(mapping, Loop.FUSED)
    fields = {"workload": "hopper-ddpg", "batch_size": 32}
    found = validation_rows.achieved(
        fields, mapping, Loop.FUSED, {whole: Timing(whole, "failed", "no memory")}, None
    )
    row = found.row
    assert (row.status, row.reason, row.value, row.low, row.high) == ("failed", "no memory", None, None, None)
    assert (row.fusion, row.gradient_steps_per_call, found.rounds) == ("", 1, {})


def test_a_round_before_a_piece_s_first_has_that_one_and_a_piece_without_rounds_is_always_the_same() -> None:
    rows = [piece("round.learn", "torch", 9.0), piece("round.sample", "fpga", 0.5)]
    failed = replace(piece("round.update", "torch", 1.0), value=None, status="failed", reason="wrong")
    profile = validation_rows.Profile([*rows, failed], [{2: 1.0, 4: 3.0}, {}, {}], 32)
    for number, learn_s in ((0, 1), (2, 1), (3, 1), (4, 3)):
        table = profile.at(number)
        assert table.time_s("round.learn", Target("torch")) == learn_s
        assert table.time_s("round.sample", Target("fpga")) == 0.5
        assert ("round.update", Target("torch")) not in table
        assert profile.at(number) is table, "it is made once"
    assert profile.rounds(("round.learn", Target("torch"))) == 2
    assert profile.rounds(("round.sample", Target("fpga"))) == float("inf")


def strategy_of(loop: Loop = Loop.FUSED, terms_s: dict[str, float] | None = None) -> Any:
    """Predicts a step of as long as its one piece, twice as fast as it ran, and these terms."""

    def predict(table: PerformanceTable, *_: Any) -> Any:
        cell = ("round.learn", Target("torch"))
        return SimpleNamespace(gps=2 / table.time_s(*cell), terms_s=terms_s or {}, cells=(cell,))

    return SimpleNamespace(name="a strategy", loop=loop, predict=predict)


OF = {"model": "a strategy", "mapping": "torch-flat-cpu"}
"""What every prediction of these tests states."""


def beside(predicted: Row, *found: Achieved, strategy: Any = None, rounds: int = len(PACE)) -> Row:
    times_s = {number: 1 / pace for number, pace in enumerate(PACE[:rounds])}
    profile = validation_rows.Profile([piece("round.learn", "torch", 1.0)], [times_s], 32)
    achieved = {(str(one.mapping), one.loop): one for one in found}
    return validation_rows.beside(
        predicted, strategy or strategy_of(), achieved, profile, Problem(32, 27), PLATFORM
    )


def test_a_prediction_stands_beside_what_ran_under_its_loop() -> None:
    predicted = replace(
        choice("torch-flat-cpu"), value=2.0, suite="prediction", details={"terms_s": {"step": 2.5}}
    )
    found = ran("torch-flat-cpu", *PACE)
    found = replace(found, row=replace(found.row, terms_s={"step": 2.0}))
    row = beside(predicted, found, strategy=strategy_of(Loop.STRICT, {"step": 3.0}))
    assert (row.suite, row.quantity, row.value) == ("validation", "predicted_gradient_steps_per_s", 2)
    assert details_of(row) == {
        "terms_s": {"step": 2.5},
        "loop": "strict",
        "achieved": found.row.value,
        "error_rounds": len(PACE),
        "error": pytest.approx(1),
        "error_low": pytest.approx(1),
        "error_high": pytest.approx(1),
        "term_errors": {"step": 0.5},  # of the rounds' 3 s
        "ran": "fused",
        "achieved_provenance": "measured",
        **OF,
    }


def test_an_error_has_an_interval_from_five_rounds_on() -> None:
    predicted = replace(choice("torch-flat-cpu"), details={"terms_s": {}})
    for rounds in (4, 5):
        details = details_of(beside(predicted, ran("torch-flat-cpu", *PACE[:rounds])))
        assert details["error"] == pytest.approx(1)
        assert details["error_rounds"] == rounds
        assert ("error_low" in details) == ("error_high" in details) == (rounds == 5)


@pytest.mark.parametrize("rounds", [1, 4, 5])
def test_an_error_needs_five_rounds_of_the_pieces_too(rounds: int) -> None:
    predicted = replace(choice("torch-flat-cpu"), details={"terms_s": {}})
    details = details_of(beside(predicted, ran("torch-flat-cpu", *PACE), rounds=rounds))
    assert details["error_rounds"] == rounds
    assert ("error_low" in details) == (rounds == 5)


def test_a_prediction_has_no_error_where_nothing_ran() -> None:
    predicted = replace(choice("torch-flat-cpu"), details={"terms_s": {}})
    failed = ran("torch-flat-cpu", 1.0)
    failed = replace(failed, row=replace(failed.row, value=None, status="failed", reason="wrong"))
    for found in ((), (failed,), (ran("native-native-cpu", 1.0),)):
        row = beside(predicted, *found)
        assert (row.suite, row.quantity) == ("validation", "predicted_gradient_steps_per_s")
        assert details_of(row) == {"terms_s": {}, "loop": "fused", **OF}
    none = replace(predicted, value=None, status="not_run", reason="needs: links", details={"a": 1})
    row = beside(none, ran("torch-flat-cpu", 1.0))
    assert (row.quantity, details_of(row)) == ("gradient_steps_per_s", {"a": 1, "loop": "fused", **OF})


@pytest.mark.parametrize(
    ("actor_s", "slowest", "overhead"),
    [(4.0, "actors", 8 / 4 - 1), (2.0, "gradient steps", 8 / 3 - 1)],
)
def test_an_overhead_is_what_a_run_takes_beyond_its_slowest_unit(
    actor_s: float, slowest: str, overhead: float
) -> None:
    """Eight seconds a step, of which the host sums up three."""
    terms_s = {"actor": actor_s, "insert": 9.0, "publish": 9.0, "loop": 9.0, "learner": 2.0, "update": 1.0}
    strategy = strategy_of(Loop.OVERLAPPED, terms_s)
    profile = validation_rows.Profile([piece("round.learn", "torch", 1.0)], [{}], 32)
    ones = [
        ran("native-native-cpu", *([1 / 8] * 5), loop=Loop.OVERLAPPED),
        ran("torch-native-cpu", *([1 / 8] * 4), loop=Loop.OVERLAPPED),
        ran("fpga-fpga-fpga", *([1 / 8] * 5), loop=Loop.OVERLAPPED, simulated=True),
        ran("native-flat-cpu", *([1 / 8] * 5)),
    ]
    failed = ran("torch-flat-cpu", 1.0, loop=Loop.OVERLAPPED)
    ones.append(replace(failed, row=replace(failed.row, value=None, status="failed", reason="wrong")))
    achieved = {(str(one.mapping), one.loop): one for one in ones}
    predicted = [choice(str(one.mapping)) for one in ones]
    others = [replace(row, backend="another") for row in predicted[:1]]
    rows = validation_rows.overheads(
        [*others, *predicted], achieved, strategy, profile, Problem(32, 27), PLATFORM
    )
    assert [row.where for row in rows] == ["native-native-cpu", "torch-native-cpu"]
    for row in rows:
        assert (row.quantity, row.unit, row.value) == ("runtime_overhead", "1", pytest.approx(overhead))
        assert details_of(row) == {"mapping": row.where, "loop": "overlapped", "slowest": slowest}
        assert row.samples == pytest.approx([overhead] * len(row.samples))
    assert [len(row.samples) for row in rows] == [5, 4]
    assert rows[0].low == rows[0].high == pytest.approx(overhead)
    assert rows[1].low is rows[1].high is None


DRIFT = tuple(1 + number / 100 for number in range(20))
"""The pace of a machine that becomes faster from round to round: neighbours agree, so that medians are uncertain."""


def test_an_error_that_drifts_is_known_no_better_than_between_its_extremes() -> None:
    """Predicted are 2 gradient steps a second; pieces have one time for all rounds, and 1 to 1.19 were achieved."""
    predicted = replace(choice("torch-flat-cpu"), details={"terms_s": {}})
    found = ran("torch-flat-cpu", *DRIFT)
    profile = validation_rows.Profile([piece("round.learn", "torch", 1.0)], [{}], 32)
    achieved = {("torch-flat-cpu", Loop.FUSED): found}
    details = details_of(
        validation_rows.beside(predicted, strategy_of(), achieved, profile, Problem(32, 27), PLATFORM)
    )
    assert details["error_low"] == pytest.approx(2 / 1.19 - 1)
    assert details["error_high"] == pytest.approx(2 / 1 - 1)


def test_an_overhead_that_drifts_is_known_no_better_than_between_its_extremes() -> None:
    """Half a second a step is accounted for, and it takes 1 second to 1 / 1.19."""
    strategy = strategy_of(Loop.OVERLAPPED, {"actor": 0.5, "learner": 0.25})
    found = ran("native-native-cpu", *DRIFT, loop=Loop.OVERLAPPED)
    profile = validation_rows.Profile([piece("round.learn", "torch", 1.0)], [{}], 32)
    achieved = {("native-native-cpu", Loop.OVERLAPPED): found}
    predicted = [choice("native-native-cpu")]
    (row,) = validation_rows.overheads(predicted, achieved, strategy, profile, Problem(32, 27), PLATFORM)
    assert (row.low, row.high) == (pytest.approx(2 / 1.19 - 1), pytest.approx(1))


def test_the_slowest_unit_is_that_of_most_rounds() -> None:
    """Actors take two seconds in four rounds and half a second in the last, gradient steps one."""

    class TermsByRound(SimpleNamespace):
        def predict(self, table: PerformanceTable, *_: Any) -> Any:
            actor_s = table.time_s("round.learn", Target("torch"))
            return SimpleNamespace(terms_s={"actor": actor_s, "learner": 1.0})

    strategy: Any = TermsByRound(name="a strategy", loop=Loop.OVERLAPPED)
    times_s = dict(enumerate((2.0, 2.0, 2.0, 2.0, 0.5)))
    profile = validation_rows.Profile([piece("round.learn", "torch", 1.0)], [times_s], 32)
    found = {
        ("native-native-cpu", Loop.OVERLAPPED): ran("native-native-cpu", *[0.25] * 5, loop=Loop.OVERLAPPED)
    }
    (row,) = validation_rows.overheads(
        [choice("native-native-cpu")], found, strategy, profile, Problem(32, 27), PLATFORM
    )
    assert row.slowest == "actors"
    assert row.samples == pytest.approx([1, 1, 1, 1, 3])


FIELDS = {"workload": "cartpole-dqn", "batch_size": 32}


def test_portability_counts_the_best_of_each_device_and_what_is_simulated_apart() -> None:
    found = [
        ran("torch-flat-cpu", 10.0),
        ran("native-native-cpu", 20.0),
        ran("torch-native-cpu", 5.0),
        ran("fpga-fpga-fpga", 60.0, simulated=True),
    ]
    rows = validation_rows.portabilities(FIELDS, found, {("sb3", "cpu"): 8.0}, "dqn", {})
    ours, both = (row for row in rows if row.who == "placerl")
    assert (ours.value, ours.provenance, ours.devices) == (640, Provenance.MEASURED, HERE)
    assert ours.mappings == ["native-native-cpu"]
    assert (both.value, both.provenance) == (pytest.approx(32 * 30), Provenance.SIMULATED)
    assert both.choices == ["cpu-cpu", "fpga-fpga"]
    assert (both.devices, both.lacking) == (WITH_SIMULATED, [])
    assert {row.unit for row in rows} == {"1/s"}
    here, there = (row for row in rows if row.who == "sb3")
    assert (here.value, here.lacking) == (256, [])
    assert (there.value, there.lacking) == (0, ["fpga-fpga"])
    rllib = [row for row in rows if row.who == "rllib"]
    assert [(row.status, row.value) for row in rllib] == [("not_run", None)] * 2
    assert rllib[0].reason == (
        "needs: `placerl compare cartpole-dqn --baselines rllib --batch-size 32` before it"
    )


def test_portability_is_0_where_a_device_ran_nothing_and_none_where_no_device_did() -> None:
    failed = ran("fpga-fpga-fpga", 1.0, simulated=True)
    failed = replace(failed, row=replace(failed.row, value=None, status="failed", reason="wrong"))
    *_, both = (
        row
        for row in validation_rows.portabilities(FIELDS, [ran("torch-flat-cpu", 10.0), failed], {}, "dqn", {})
        if row.who == "placerl"
    )
    assert (both.value, both.lacking) == (0, ["fpga-fpga"])
    assert both.mappings == ["torch-flat-cpu"]
    assert validation_rows.portabilities(FIELDS, [], {}, "dqn", {}) == []
    simulated = [ran("fpga-fpga-fpga", 60.0, simulated=True)]
    (ours, *_) = validation_rows.portabilities(FIELDS, simulated, {}, "dqn", {})
    assert (ours.value, ours.devices) == (32 * 60, WITH_SIMULATED), "nothing was measured"


def test_portability_counts_a_dropped_mapping_only_where_all_were_dropped() -> None:
    """The machine was fast in the few rounds of torch; the race with the simulated device drops all but that."""
    found = [
        ran("torch-flat-cpu", 30.0),
        ran("native-native-cpu", 20.0),
        ran("fpga-native-cpu", 4.0, simulated=True),
        ran("fpga-flat-cpu", 5.0, simulated=True),
        ran("fpga-fpga-fpga", 60.0, simulated=True),
    ]
    torch, native, *slow, _ = (one.mapping for one in found)
    with_simulated = {(Loop.FUSED, WITH_SIMULATED): {torch, native, *slow}}
    for dropped, fastest in (
        ({}, [torch, torch]),
        (with_simulated, [torch, torch]),
        ({(Loop.FUSED, HERE): {torch}} | with_simulated, [native, native]),
        ({(Loop.FUSED, WITH_SIMULATED): {torch}}, [torch, native]),
        ({(Loop.RELAXED, HERE): {torch}}, [torch, torch]),
    ):
        rows = validation_rows.portabilities(FIELDS, found, {}, "dqn", dropped)
        here, both = (row.mappings for row in rows if row.who == "placerl")
        assert here == [str(fastest[0])]
        assert both == [str(fastest[1]), "fpga-flat-cpu", "fpga-fpga-fpga"]


UNIFORM = [ran("torch-flat-cpu", 10.0), ran("torch:cuda-flat-cpu", 40.0)]
"""A library has all these assignments."""


def test_a_library_counts_on_each_device_with_its_rate_there() -> None:
    rates = {("sb3", "cpu"): 2.0, ("sb3", "cuda"): 6.0, ("rllib", "cpu"): 5.0}
    sb3, rllib = validation_rows.portabilities(FIELDS, UNIFORM, rates, "dqn", {})[1:]
    assert (sb3.value, sb3.lacking) == (pytest.approx(32 * 3), [])
    assert (rllib.who, rllib.status) == ("rllib", "not_run")
    more = [*UNIFORM, ran("torch:cuda-cuda-cpu", 1.0)]
    rllib = validation_rows.portabilities(FIELDS, more, rates, "dqn", {})[2]
    assert (rllib.value, rllib.lacking) == (0, ["cuda-cuda"]), "whatever its rate with CUDA is"


COMPARE = "placerl compare cartpole-dqn --baselines sb3 --batch-size 32"
ON_CPU, ON_CUDA = f"{COMPARE} --mapping torch-native-cpu", f"{COMPARE} --mapping torch:cuda-native-cpu"


@pytest.mark.parametrize(
    ("measured", "ones", "said"),
    [
        (["cpu"], UNIFORM, f"`{ON_CUDA}`"),
        (["cuda"], UNIFORM, f"`{ON_CPU}`"),
        ([], UNIFORM, f"`{ON_CPU}` and `{ON_CUDA}`"),
        ([], UNIFORM[:1], f"`{COMPARE}`"),
        ([], [*UNIFORM, ran("torch:cuda-cuda-cpu", 1.0)], f"`{COMPARE}`"),
    ],
)
def test_a_library_without_a_rate_on_a_device_has_no_portability_and_says_what_measures_it(
    measured: list[str], ones: list[Achieved], said: str
) -> None:
    rates = {("sb3", device): 2.0 for device in measured}
    row = validation_rows.portabilities(FIELDS, ones, rates, "dqn", {})[1]
    assert (row.who, row.status, row.value) == ("sb3", "not_run", None)
    assert row.reason == f"needs: {said} before it"


@pytest.mark.parametrize("device", validation_rows.COMPARED_ON)
def test_a_library_is_compared_on_the_device_that_its_portability_needs(device: str) -> None:
    assert networks_on(Mapping.parse(validation_rows.COMPARED_ON[device])) == device


def test_baselines_that_do_not_have_the_algorithm_have_no_portability() -> None:
    rows = validation_rows.portabilities(FIELDS, [ran("torch-flat-cpu", 10.0)], {}, "ddpg", {})
    names = {row.who for row in rows}
    assert len(rows) == len(names), "all was measured, so that there is one portability of each"
    assert names == {"placerl", *(name for name in JUDGED_FOR_PORTABILITY if trains(name, "ddpg"))}
    assert names < {"placerl", *JUDGED_FOR_PORTABILITY}
