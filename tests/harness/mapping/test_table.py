"""The performance table names its targets, and tells the weakest provenance of its times."""

from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping.table import Entry, PerformanceTable, inputs_provenance
from placerl.harness.mapping.target import Target


def entry(primitive: str, target: str, time_s: float = 1e-3, kind: Provenance = Provenance.MEASURED) -> Entry:
    return Entry(primitive, Target.parse(target), 32, time_s, time_s, time_s, kind)


def test_a_table_tells_the_targets_of_a_primitive_by_name() -> None:
    table = PerformanceTable(
        [entry("learner.step", "torch"), entry("learner.step", "native"), entry("x", "a")]
    )
    assert list(map(str, table.targets("learner.step"))) == ["native", "torch"]
    assert ("x", Target("a")) in table
    assert ("x", Target("torch")) not in table


def test_a_prediction_is_as_weak_as_the_weakest_of_the_cells_that_it_used() -> None:
    table = PerformanceTable([entry("a", "cpu"), entry("b", "cpu", kind=Provenance.MODELLED)])
    cpu = Target("cpu")
    assert inputs_provenance(table, [("a", cpu)]) is Provenance.MEASURED
    assert inputs_provenance(table, [("a", cpu), ("b", cpu)]) is Provenance.MODELLED
