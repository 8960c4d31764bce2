"""What a training reached, in lines: the rates first, then what was learnt, none of them cut."""

from dataclasses import replace

from placerl.harness.cli.training_lines import lines
from placerl.harness.core.provenance import Provenance
from placerl.harness.store.rows import TrainingResult
from tests.harness.papers.rows import trained


def result(quantity: str, value: float | None, **more: object) -> TrainingResult:
    return TrainingResult(
        suite="run",
        workload="cartpole-dqn",
        primitive="training",
        batch_size=32,
        quantity=quantity,
        provenance=Provenance.MEASURED,
        value=value,
        mapping="native-native-cpu",
        **more,  # type: ignore[arg-type]
    )


GPS = result("gradient_steps_per_s", 330_123.4, low=320_000.0, high=340_000.0)


def test_rates_come_first_and_have_no_exponent() -> None:
    steps = result("environment_steps_per_s", 1500.25)
    assert list(lines([GPS, steps], None)) == [
        "330,123 gradient steps/s [320,000, 340,000] (measured)",
        "1,500 environment steps/s (measured)",
        "EPS 10,563,949 experiences/s, IPS 1,500 inferences/s (measured)",
    ]


def test_what_is_noisy_or_was_not_run_says_so() -> None:
    noisy = replace(GPS, status="too_noisy", reason="one core was busy")
    watts = result("throughput_per_watt", None, status="not_run", reason="not run: needs watts: no counter")
    first, second = lines([noisy, watts], None)
    assert first.endswith(" (measured, too noisy)")
    assert second == "gradient steps/s/W: not run: needs watts: no counter"


def test_the_rate_of_each_tenth_of_a_run_is_shown() -> None:
    samples = tuple(float(100 + number // 2) for number in range(20))
    row = trained(105.0, samples=samples)
    said = "GPS by tenth of the run: 100 101 102 103 104 105 106 107 108 109 (measured)"
    assert said in lines([row], None)
    few = lines([replace(row, samples=samples[:9])], None)
    assert not any("tenth" in line for line in few), "a run of few stretches has no tenths"


def test_what_was_learnt() -> None:
    learnt = [
        result("evaluation_return", 499.5, samples=(499.0, 500.0)),
        result("best_return", 480.0),
        result("environment_steps_to_threshold", 12_000.0),
        result("time_to_threshold", 1.25),
    ]
    assert list(lines(learnt, 475.0)) == [
        "Return at the end: 499.5, mean of 2 greedy episodes (measured)",
        "Best while training: 480, mean of 20 episodes in a row",
        "Reached 475 after 12,000 environment steps and 1.25 s",
    ]
    assert list(lines([], 475.0)) == ["Not reached: 475 as the mean of 20 episodes in a row"]


def test_a_training_that_failed_says_why() -> None:
    failed = result("failure", None, status="failed", reason="UnitError: actor 0")
    assert list(lines([GPS, failed], None))[-1] == "Failed: UnitError: actor 0"
