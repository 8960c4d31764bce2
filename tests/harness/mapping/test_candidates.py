"""The mappings among which a strategy chooses are those that have times."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.candidates import can_store, candidates, least_traffic, rmm_targets
from placerl.harness.mapping.table import Entry, PerformanceTable
from placerl.harness.mapping.target import Target


def entry(primitive: str, target: str) -> Entry:
    return Entry(primitive, Target.parse(target), 32, 1e-3, 1e-3, 1e-3, Provenance.MEASURED)


def test_replay_management_needs_both_operations_and_is_never_the_reference() -> None:
    both = [entry(f"sum_tree.{op}", name) for op in ("sample", "update") for name in ("native", "reference")]
    table = PerformanceTable([*both, entry("sum_tree.sample", "flat"), entry("sum_tree.update", "cuda")])
    assert list(map(str, rmm_targets(table))) == ["native"]


def test_a_storage_can_be_where_gathering_was_profiled_or_anywhere_when_it_was_not() -> None:
    assert can_store(PerformanceTable([]), "cuda")
    table = PerformanceTable([entry("storage.gather", "cpu")])
    assert can_store(table, "cpu")
    assert not can_store(table, "cuda")


def test_candidates_store_on_the_cpu_or_on_a_device_of_learner_or_replay() -> None:
    rows = [entry("learner.step", "torch:cuda"), entry("learner.step", "native")]
    rows += [entry(f"sum_tree.{op}", "native") for op in ("sample", "update")]
    assert list(map(str, candidates(PerformanceTable(rows)))) == [
        "native-native-cpu",
        "torch:cuda-native-cpu",
        "torch:cuda-native-cuda",
    ]
    stored = PerformanceTable([*rows, entry("storage.gather", "cuda")])
    assert list(map(str, candidates(stored))) == ["torch:cuda-native-cuda"]


def test_least_traffic_takes_the_first_of_equals_and_the_cpu_where_none_can_store() -> None:
    def apart(place: str, other: str, cost: float) -> float:
        return cost * (place != other)

    anywhere, cpu = PerformanceTable([]), PerformanceTable([entry("storage.gather", "cpu")])
    equal = [("cuda", 5.0), ("fpga", 5.0)]
    assert str(least_traffic(anywhere, equal, apart)) == "cuda"
    assert str(least_traffic(anywhere, equal[::-1], apart)) == "fpga"
    assert str(least_traffic(anywhere, [("cuda", 4.0), ("fpga", 5.0)], apart)) == "fpga"
    assert str(least_traffic(cpu, equal, apart)) == "cpu"
    assert str(least_traffic(cpu, [*equal, ("cpu", 1.0)], apart)) == "cpu"
    # A component may be costly to serve from its own device, too.
    from_cuda = lambda place, other, cost: cost * (3.0 if place == "cuda" else 1.0)  # noqa: E731
    assert str(least_traffic(anywhere, equal, from_cuda)) == "fpga"
