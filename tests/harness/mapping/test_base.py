import numpy as np
import pytest

from harness.core.errors import UserError
from harness.core.provenance import Provenance
from harness.mapping import Entry, Mapping, PerformanceTable, Problem, Target
from harness.mapping.base import (
    INDEX_BYTES,
    PRIORITY_BYTES,
    WEIGHT_BYTES,
    can_store,
    candidates,
    inputs_provenance,
    least_traffic,
    rmm_targets,
)


@pytest.mark.parametrize(
    "text",
    [
        "torch-native-cpu", "torch:cuda-native-cpu", "fpga:u200-fpga:u200-fpga:u200", "native-native-cpu",
        "native[dynamic]-native-cpu", "torch[fixed16]:cuda:1-native-cpu",
    ],
)  # fmt: skip
def test_a_mapping_reads_back_as_written(text: str) -> None:
    assert str(Mapping.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "torch", "torch-native", "torch-native-cpu-x", "torch:-native-cpu", "-native-cpu",
        "native[fixed32-native-cpu", "[fixed32]-native-cpu", "native:0[fixed32]-native-cpu",
        "native[fixed32][fixed16]-native-cpu",
    ],
)  # fmt: skip
def test_a_malformed_mapping_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(UserError, match="LEARNER-RMM-STORAGE") as refused:
        Mapping.parse(text)
    assert refused.value.found == (text or "''")


def test_a_precision_is_part_of_a_target_and_float32_goes_without_saying() -> None:
    assert Target.parse("torch[fixed16]:cuda") == Target("torch", "cuda", "fixed16")
    assert Target.parse("native[float32]") == Target.parse("native") == Target("native")
    assert Target.parse("native[fixed32]") not in (Target("native"), Target("native", "", "fixed16"))
    assert str(Target("torch", "cuda", "fixed16")) == "torch[fixed16]:cuda"
    assert Target("torch", "cuda", "fixed16").kind == "torch[fixed16]"


def test_an_unknown_precision_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UserError, match=r"found fixd32; allowed: .*did you mean fixed32"):
        Mapping.parse("native[fixd32]-native-cpu")
    with pytest.raises(UserError, match="found nothing; allowed: float32, fixed32, fixed16, dynamic"):
        Mapping.parse("native[]-native-cpu")


@pytest.mark.parametrize("text", ["native-native[fixed32]-cpu", "native-native-cpu[fixed32]"])
def test_a_precision_belongs_to_the_learner_alone(text: str) -> None:
    with pytest.raises(UserError, match="allowed: of the learner alone"):
        Mapping.parse(text)


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("native", "cpu"),
        ("torch", "cpu"),
        ("torch:cuda", "cuda"),
        ("torch:cuda:1", "cuda:1"),
        ("cuda", "cuda"),
        ("fpga:u200", "fpga:u200"),
        ("cpu", "cpu"),
        ("opencl", "opencl"),
        ("opencl:1", "opencl:1"),
        ("native[dynamic]", "cpu"),
        ("torch[fixed32]:cuda", "cuda"),
    ],
)
def test_the_device_a_target_occupies(text: str, device: str) -> None:
    assert Target.parse(text).device == device


def entry(primitive: str, target: str, time_s: float = 1e-3, kind: Provenance = Provenance.MEASURED) -> Entry:
    return Entry(primitive, Target.parse(target), 32, time_s, time_s, time_s, kind)


@pytest.mark.parametrize(
    ("actors", "interval", "gradient_steps", "vector_steps"),
    [(1, 1, 1, 1), (2, 1, 2, 1), (1, 4, 1, 4), (6, 4, 3, 2), (4, 4, 1, 1)],
)
def test_a_round_is_the_least_time_with_whole_steps_of_both_kinds(
    actors: int, interval: int, gradient_steps: int, vector_steps: int
) -> None:
    problem = Problem(32, 27, actors=actors, update_interval=interval)
    assert (problem.round_gradient_steps, problem.round_vector_steps) == (gradient_steps, vector_steps)
    assert vector_steps * actors == gradient_steps * interval


def test_an_overlapped_iteration_has_at_least_32_gradient_steps_and_8_where_a_part_is_simulated() -> None:
    assert [Problem(32, 27, actors=n).overlapped_rounds() for n in (1, 3, 32, 33)] == [32, 11, 1, 1]
    assert [Problem(32, 27, actors=n).overlapped_rounds(simulated=True) for n in (1, 3, 9)] == [8, 3, 1]


def test_an_item_has_the_bytes_of_its_words_or_those_that_the_runtime_stores() -> None:
    assert Problem(32, 27).item_bytes == 108
    assert Problem(32, 27, stored_bytes=45).item_bytes == 45


def test_a_workload_is_on_policy_where_it_has_a_trajectory() -> None:
    assert not Problem(32, 27).on_policy
    assert Problem(32, 27, trajectory_length=1).on_policy


def test_a_mapping_occupies_each_device_once() -> None:
    assert Mapping.parse("torch:cuda-native-cpu").devices == {"cuda", "cpu"}
    assert Mapping.parse("fpga:u200-fpga:u200-cuda").devices == {"fpga:u200", "cuda"}


def test_a_table_tells_the_targets_of_a_primitive_by_name() -> None:
    table = PerformanceTable(
        [entry("learner.step", "torch"), entry("learner.step", "native"), entry("x", "a")]
    )
    assert list(map(str, table.targets("learner.step"))) == ["native", "torch"]
    assert ("x", Target("a")) in table
    assert ("x", Target("torch")) not in table


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


def test_a_prediction_is_as_weak_as_the_weakest_of_the_cells_that_it_used() -> None:
    table = PerformanceTable([entry("a", "cpu"), entry("b", "cpu", kind=Provenance.MODELLED)])
    cpu = Target("cpu")
    assert inputs_provenance(table, [("a", cpu)]) is Provenance.MEASURED
    assert inputs_provenance(table, [("a", cpu), ("b", cpu)]) is Provenance.MODELLED


def test_an_item_s_index_weight_and_priority_have_the_sizes_that_the_replay_gives_them() -> None:
    index, number = np.dtype(np.int64).itemsize, np.dtype(np.float32).itemsize
    assert (index, number, index + number) == (INDEX_BYTES, WEIGHT_BYTES, PRIORITY_BYTES)


def test_unless_it_says_otherwise_a_workload_has_one_actor_and_trains_after_each_of_its_steps() -> None:
    assert Problem(32, 27) == Problem(32, 27, actors=1, update_interval=1, trajectory_length=0, epochs=1)


def test_targets_and_mappings_are_sorted_by_their_names() -> None:
    names = ["native-flat-cpu", "native-native-cpu", "torch-flat-cpu", "torch:cuda-flat-cpu"]
    assert [str(one) for one in sorted(map(Mapping.parse, reversed(names)))] == names
    assert sorted([Target("b"), Target("a", "2"), Target("a")]) == [
        Target("a"),
        Target("a", "2"),
        Target("b"),
    ]
