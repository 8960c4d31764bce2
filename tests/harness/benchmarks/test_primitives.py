import pytest

from harness import cases, workload
from harness.benchmarks.timed import primitives


def test_the_cases_are_those_of_the_profile():
    for name in primitives.WORKLOADS:
        workload_name, batch_size = name.split("/")
        made = cases.all_cases(workload.load(workload_name), int(batch_size))
        expected = [case.name for case in cases.distinct(made)]
        assert list(primitives.cases(name)) == expected == primitives.names()


@pytest.mark.parametrize("case_name", primitives.names())
def test_each_benchmark_runs_with_fresh_arguments(case_name):
    benchmark = primitives.Primitives()
    name = primitives.WORKLOADS[0]
    benchmark.setup(name, case_name)
    seen = []
    call = benchmark.call
    benchmark.call = lambda state, arguments: (seen.append(id(arguments)), call(state, arguments))
    for _ in range(5):
        benchmark.time_call(name, case_name)
    assert len(seen) == 5
    again = primitives.Primitives()
    again.setup(name, case_name)
    assert again.state is benchmark.state
