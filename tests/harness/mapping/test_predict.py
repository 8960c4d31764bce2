import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from placerl.harness import platforms, workloads
from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.mapping import STRATEGIES, Prediction, predict, problem
from placerl.harness.mapping.problem import problem_of
from placerl.harness.mapping.strategies.composed_loop import TIMED_WHERE_THEY_RUN
from placerl.harness.runtime.timed_storage import TimedStorage
from placerl.harness.workloads.task import columns_of
from placerl.primitives.algorithms.ddpg import DDPG
from tests.harness.old_form import details_of, replace, row_of

TIMES_S = {
    ("sum_tree.sample", "native"): 1e-5,
    ("sum_tree.update", "native"): 1e-5,
    ("sum_tree.insert", "native"): 1e-6,
    ("sum_tree.sample", "flat"): 1e-3,
    ("sum_tree.update", "flat"): 1e-3,
    ("sum_tree.insert", "flat"): 1e-4,
    ("storage.gather", "cpu"): 1e-4,
    ("storage.insert", "cpu"): 1e-5,
    ("learner.step", "torch"): 1e-3,
    ("actor.infer", "torch"): 1e-5,
    ("environment.step", "cpu"): 1e-5,
    ("round.collect", "torch"): 2e-5,
    ("round.insert", "native"): 2e-6,
    ("round.sample", "native"): 1e-4,
    ("round.learn", "torch"): 1e-3,
    ("round.update", "native"): 1e-5,
    ("round.runtime", "cpu"): 2e-6,
}
PLATFORM = platforms.load("map-tpds23")


def row(primitive: str, target: str, time_s: float | None) -> Row:
    failed = {"status": "failed", "reason": "wrong"} if time_s is None else {}
    return row_of(
        suite="profile",
        workload="hopper-ddpg",
        primitive=primitive,
        backend=target,
        batch_size=256,
        quantity="time_per_call",
        unit="s",
        provenance=Provenance.MEASURED,
        value=time_s,
        details={"target": target},
        **failed,
    )


PROFILE = [row(primitive, target, time_s) for (primitive, target), time_s in TIMES_S.items()]


def test_predictions_are_modelled_and_name_their_inputs() -> None:
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, PROFILE, PLATFORM)
    assert {item.provenance for item in rows} == {Provenance.MODELLED}
    assert {item.inputs for item in rows} == {"measured"}
    assert {item.who for item in rows} == set(STRATEGIES) - {*TIMED_WHERE_THEY_RUN}, "which cannot run"


def test_an_interval_is_one_where_the_model_turns_slow_and_fast_round() -> None:
    """Beside a noisy part: the less time it takes alone, the more its partner seems to take from it."""

    base = STRATEGIES["map-tpds23"]

    def turned(*arguments: Any) -> Prediction:
        made = base.predict(*arguments)
        return replace(made, gps=1 / made.gps)

    strategy: Any = SimpleNamespace(name="turned", choose=base.choose, predict=turned)
    noisy = [replace(item, low=item.value / 2, high=2 * item.value) for item in PROFILE if item.value]
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, noisy, PLATFORM, {"turned": strategy})
    bounds = [(item.low, item.high) for item in rows if item.low is not None and item.high is not None]
    assert bounds
    assert all(low < high for low, high in bounds)


def test_a_prediction_has_the_interval_of_its_times_and_says_what_it_is_of() -> None:
    """By MAP's Equation 3 the learner's step is the slowest term of one mapping: it alone gives the interval."""
    profile = [
        replace(item, low=0.8e-3, high=1.25e-3) if item.primitive == "learner.step" else item
        for item in PROFILE
    ]
    profile.append(dataclasses.replace(profile[0], quantity="energy", value=1e9, unit="J"))
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, profile, PLATFORM)
    (found,) = (r for r in rows if (r.who, r.where) == ("map-tpds23", "torch-native-cpu"))
    assert (found.value, found.low, found.high) == pytest.approx((1000, 800, 1250))
    assert (found.suite, found.quantity, found.unit) == ("prediction", "gradient_steps_per_s", "1/s")
    assert (found.workload, found.batch_size, found.status) == ("hopper-ddpg", 256, "ok")
    assert (details_of(found)["model"], found.platform) == ("map-tpds23", "map-tpds23")
    assert (found.mapping, found.chosen) == ("torch-native-cpu", True)
    assert found.terms_s["learner"] == 1e-3


def test_a_prediction_from_a_noisy_time_is_too_noisy_and_names_it() -> None:
    profile = [
        replace(item, status="too_noisy", reason="wide")
        if (item.primitive, item.who) in (("sum_tree.sample", "flat"), ("learner.step", "other"))
        else item
        for item in PROFILE
    ]
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, profile, PLATFORM)
    found = {r.where: (r.status, r.reason) for r in rows if r.who == "map-tpds23"}
    assert found == {
        "torch-native-cpu": ("ok", ""),
        "torch-flat-cpu": ("too_noisy", "made from times that are too noisy: sum_tree.sample flat"),
    }


def test_an_on_policy_problem_is_that_of_the_algorithm_s_settings() -> None:
    """PPO's: a sample is an observation of 11, an action of 3, its log-probability, advantage and value."""
    item = workloads.load("hopper-ppo")
    settings = item.algorithm.hyperparameters
    found = problem_of(item, 64)
    assert found.on_policy
    assert (found.trajectory_length, found.epochs) == (settings["trajectory_length"], settings["epochs"])
    assert found.item_bytes == 4 * (11 + 3 + 3)
    off_policy = problem_of(workloads.load("hopper-ddpg"), 64)
    assert (off_policy.on_policy, off_policy.trajectory_length, off_policy.epochs) == (False, 0, 1)
    item = workloads.override(workloads.load("hopper-ddpg"), "training.actors", 3, "test")
    item = workloads.override(item, "training.update_interval", 7, "test")
    found = problem_of(item, 64)
    assert (found.batch_size, found.actors, found.update_interval) == (64, 3, 7)


def test_each_strategy_chooses_exactly_one_mapping() -> None:
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, PROFILE, PLATFORM)
    for strategy in set(STRATEGIES) - {*TIMED_WHERE_THEY_RUN}:
        assert str(predict.chosen_mapping(rows, strategy)) == "torch-native-cpu"
        assert sum(item.chosen for item in rows if item.who == strategy) == 1


def test_the_concurrent_loop_is_predicted_where_its_threads_were_timed() -> None:
    threads = {("concurrent_round.collect", "cpu"): 1e-4}
    threads |= {(f"concurrent_round.{part}", "native"): 1e-4 for part in ("learn", "sample", "update")}
    profile = [*PROFILE, *(row(*cell, time_s) for cell, time_s in threads.items())]
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, profile, PLATFORM)
    (free,) = (item for item in rows if item.who == "concurrent-loop")
    assert (free.where, free.chosen, free.value) == ("native-native-cpu", True, pytest.approx(5e3)), (
        "sampling and updating share a core"
    )


def test_the_resident_loop_is_predicted_where_all_parts_are_on_a_device() -> None:
    parts = {("resident_round.collect", "opencl"): 3e-4, ("resident_round.steps", "opencl"): 5e-4}
    parts |= {("resident_round.runtime", "opencl"): 2e-4, ("learner.step", "opencl"): 1e-2}
    profile = [*PROFILE, *(row(*cell, time_s) for cell, time_s in parts.items())]
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, profile, PLATFORM)
    (one,) = (item for item in rows if item.who == "resident-loop")
    assert (one.where, one.chosen, one.value) == ("opencl-opencl-opencl", True, pytest.approx(1e3))
    assert one.terms_s == pytest.approx({"actor": 3e-4, "step": 5e-4, "loop": 2e-4})


def test_map_equation_3_from_the_rows() -> None:
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, PROFILE, PLATFORM)
    gps = {item.mapping: item.value for item in rows if item.who == "map-tpds23"}
    assert gps == pytest.approx({"torch-native-cpu": 1000, "torch-flat-cpu": 500})


def test_a_primitive_that_failed_is_not_mapped_to() -> None:
    profile = [item for item in PROFILE if item.who != "native"] + [row("sum_tree.sample", "native", None)]
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, profile, PLATFORM)
    assert {item.where for item in rows if item.status == "ok"} == {"torch-flat-cpu"}


def test_a_strategy_without_the_times_that_it_needs_says_which() -> None:
    profile = [item for item in PROFILE if not item.primitive.startswith("round.")]
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, profile, PLATFORM)
    (found,) = (item for item in rows if item.status == "not_run")
    assert (found.who, found.value) == ("composed-loop", None)
    assert "no mapping has times for all of its terms" in found.reason
    with pytest.raises(LookupError, match="composed-loop"):
        predict.chosen_mapping(rows)


def test_without_any_time_every_strategy_says_what_it_lacks() -> None:
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, [], PLATFORM)
    assert {item.who: item.status for item in rows} == dict.fromkeys(
        set(STRATEGIES) - {*TIMED_WHERE_THEY_RUN}, "not_run"
    )
    with pytest.raises(LookupError, match="no mapping has times for all of its terms"):
        predict.chosen_mapping(rows)


def test_item_words_are_those_of_a_hopper_transition() -> None:
    """Two observations of 11, an action of 3, a reward, a flag: E of MAP VI-B."""
    assert problem_of(workloads.load("hopper-ddpg"), 256).item_words == 2 * 11 + 3 + 2


def test_words_that_actors_need_are_counted_once_an_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor of Hopper: 11 inputs, two hidden layers, 3 actions."""
    made = 0
    item = workloads.load("hopper-ddpg")
    initialise = DDPG.initialise

    def counted(self: DDPG, generator: torch.Generator) -> object:
        nonlocal made
        made += 1
        return initialise(self, generator)

    monkeypatch.setattr(DDPG, "initialise", counted)
    problem._acting_words.cache_clear()
    words = [problem_of(item, size).acting_words for size in (32, 256)]
    first, second = item.network.hidden
    assert words == [11 * first + first + first * second + second + second * 3 + 3] * 2
    assert made == 1
    wider = workloads.override(item, "network.hidden", (first + 1, second), "test")
    assert problem_of(wider, 32).acting_words == words[0] + 11 + 1 + second


@pytest.mark.parametrize(
    ("name", "stored_bytes"),
    [("hopper-ddpg", 4 * (2 * 11 + 3 + 1) + 1), ("pong-dqn", 2 * 4 * 84 * 84 + 8 + 4 + 1)],
)
def test_what_goes_over_a_link_is_what_the_storage_holds(name: str, stored_bytes: int) -> None:
    """Frames are a byte a pixel, no word."""
    item = workloads.load(name)
    storage = TimedStorage(3, columns_of(item))
    assert problem_of(item, 32).item_bytes == stored_bytes == storage.nbytes // 3


def test_under_a_quota_below_a_core_rates_are_that_share_and_long_steps_too_noisy() -> None:
    rows = predict.measurements(workloads.load("hopper-ddpg"), 256, PROFILE, PLATFORM)
    for whole in rows:
        half = predict.under_load(whole, 0.5, "")
        if whole.value is None:
            assert half == whole
            continue
        assert (half.value, half.high) == (whole.value / 2, whole.high / 2)
        assert half.terms_s == {term: 2 * seconds for term, seconds in whole.terms_s.items()}
        linked = replace(whole, slow_gps=8.0)
        assert predict.under_load(linked, 0.5, "").slow_gps == 4.0, "shown next to the rate"
        assert half.status == whole.status
        slow = predict.under_load(replace(whole, value=50.0), 0.5, "")
        assert (slow.value, slow.status) == (25.0, "too_noisy")
        assert (
            slow.reason == "under a quota of 0.5 cores a gradient step of 20 ms is stopped while it is timed"
        )
        assert predict.under_load(whole, 1.0, "") == whole
