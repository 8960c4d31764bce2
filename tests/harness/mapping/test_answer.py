"""The answer that `placerl map` gives, from predictions whose numbers can be added up by hand."""

import pytest

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.answer import ANSWERING, answer
from tests.harness.old_form import details_of, replace, row_of


def predicted(device, gps, *, chosen=False, batch_size=32, backend=ANSWERING, width=0.0, terms_s=None):
    """A prediction, of which the learner takes three quarters."""
    return row_of(
        suite="prediction",
        workload="hopper-ddpg",
        primitive="training",
        backend=backend,
        device=device,
        batch_size=batch_size,
        quantity="gradient_steps_per_s",
        provenance=Provenance.MODELLED,
        value=gps,
        low=gps * (1 - width),
        high=gps * (1 + width),
        details={"chosen": chosen, "terms_s": terms_s or {"learner": 0.75 / gps, "actor": 0.25 / gps}},
    )


FAST = predicted("native-native-cpu", 1000.0, chosen=True, width=0.1)
SLOW = predicted("torch-native-cpu", 500.0, width=0.1)
SLOWEST = predicted("torch-flat-cpu", 100.0)


def test_the_answer_has_choice_rate_runner_up_and_what_would_change_it():
    choice, runner_up, change, sizes = answer([SLOWEST, SLOW, FAST])
    assert choice == f"{ANSWERING} chooses native-native-cpu: 1,000.0 gradient steps/s (900.0 to 1,100.0)."
    assert runner_up == "Runner-up: torch-native-cpu: 500.0 gradient steps/s (450.0 to 550.0), 50.0% less."
    # 2 ms - 1 ms more, on top of 0.75 ms
    assert change == (
        "The runner-up would be as fast if learner took 2.33 times its 750.0 us under native-native-cpu."
    )
    assert "--batch-size N" in sizes


def test_a_rate_that_is_too_noisy_says_why_next_to_the_choice():
    noisy = replace(FAST, status="too_noisy", reason="machine: found a load of 2.0 busy cores")
    assert answer([noisy])[1] == ("A run may reach another rate: machine: found a load of 2.0 busy cores.")


def test_threads_that_run_free_are_named_with_their_command_where_they_are_faster():
    free = predicted("native-native-cpu", 2500.0, chosen=True, backend="concurrent-loop")
    (said,) = [line for line in answer([FAST, SLOW, free]) if "run free" in line]
    assert "2.50 times as fast: 2,500.0 gradient steps/s" in said
    assert "`placerl run --mapping native-native-cpu --loop concurrent`" in said
    slower = predicted("native-native-cpu", 900.0, chosen=True, backend="concurrent-loop")
    assert not [line for line in answer([FAST, SLOW, slower]) if "run free" in line]


def test_rounds_that_stay_on_the_device_are_named_with_their_command_where_they_are_faster():
    resident = predicted("cuda-cuda-cuda", 1500.0, chosen=True, backend="resident-loop")
    (said,) = [line for line in answer([FAST, SLOW, resident]) if "stay on the device" in line]
    assert said.endswith(
        "1.50 times as fast: 1,500.0 gradient steps/s by `placerl run --mapping cuda-cuda-cuda --loop resident`."
    )


def test_intervals_that_overlap_are_no_answer():
    close = predicted("torch-native-cpu", 950.0, width=0.1)
    assert "Their intervals overlap, so that noise alone may change the answer." in answer([FAST, close])
    apart = predicted("torch-native-cpu", 800.0, width=0.1)
    assert not any("overlap" in line for line in answer([FAST, apart]))


def test_terms_that_do_not_add_up_promise_nothing():
    """Where parts overlap, a longer term need not make the step longer."""
    hidden = replace(FAST, details={**details_of(FAST), "terms_s": {"learner": 1e-3, "rmm": 0.9e-3}})
    assert not any("would be as fast" in line for line in answer([hidden, SLOW]))


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({256: "native-native-cpu"}, "The choice is the same at batch sizes 32, 256."),
        (
            {8: "torch-native-cpu", 512: "opencl-native-cpu", 2048: "opencl-native-cpu"},
            "At batch size 8 it is torch-native-cpu, from batch size 32 on native-native-cpu, from batch size 512 on "
            "opencl-native-cpu (of 8, 32, 512, 2048).",
        ),
    ],
)
def test_other_batch_sizes_are_part_of_the_answer(others, said):
    elsewhere = [predicted(name, 10.0, chosen=True, batch_size=size) for size, name in others.items()]
    not_chosen = predicted("torch-flat-cpu", 9.0, batch_size=64)
    another = predicted("torch-flat-cpu", 9.0, chosen=True, batch_size=64, backend="pearl24")
    assert answer([FAST, SLOW], [*elsewhere, not_chosen, another, FAST])[-1] == said


def test_another_strategy_answers_where_the_runtime_s_own_cannot():
    asked = [predicted("G-C-G".lower(), 5.0, chosen=True, backend="map-tpds23"), replace(SLOW, backend="x")]
    choice, runner_up, *_ = answer(asked)
    assert choice.startswith("map-tpds23 chooses g-c-g")
    assert "no other mapping" in runner_up
    assert answer([SLOW]) == []


def test_ties_and_times_without_an_interval_are_told_as_such():
    tied = predicted("torch-native-cpu", 1000.0)
    choice, runner_up, ties, *_ = answer([replace(FAST, low=1000.0, high=1000.0), tied])
    assert choice == f"{ANSWERING} chooses native-native-cpu: 1,000.0 gradient steps/s."
    assert runner_up == "Runner-up: torch-native-cpu: 1,000.0 gradient steps/s, 0.0% less."
    assert ties == "Both are predicted to be equally fast: the strategy's rule for ties decides."


def test_a_mapping_that_the_strategy_passed_over_is_not_told_as_slower():
    """A strategy that chooses part after part may miss what its own model predicts to be faster."""
    chosen = predicted("torch-native-cpu", 400.0, chosen=True, backend="map-tpds23")
    faster = predicted("native-flat-cpu", 700.0, backend="map-tpds23")
    choice, other, sizes = answer([chosen, faster])
    assert choice == "map-tpds23 chooses torch-native-cpu: 400.0 gradient steps/s."
    assert other == (
        "By the same model native-flat-cpu: 700.0 gradient steps/s is faster: map-tpds23 does not compare all "
        "mappings."
    )
    assert "--batch-size N" in sizes
