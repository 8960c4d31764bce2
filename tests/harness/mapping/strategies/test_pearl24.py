import pytest
from hypothesis import given
from hypothesis import strategies as st

from placerl.harness import platforms
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Entry, Mapping, PerformanceTable, Problem, Target, pearl24_authors
from placerl.harness.mapping.pearl24_equations import (
    best_streams,
    iteration_s,
    published_iteration_s,
)
from placerl.harness.mapping.strategies.map_tpds23 import MapTpds23
from placerl.harness.mapping.strategies.pearl24 import AS_PUBLISHED, Pearl24

PLATFORM = platforms.load("map-tpds23")
PROBLEM = Problem(batch_size=256, item_words=27, actors=16)


def table(learner_s: dict[str, float], rmm_s: dict[str, float]) -> PerformanceTable:
    """Sampling, update and insertion take a third each of a replay management's time."""

    def entry(primitive: str, name: str, time_s: float) -> Entry:
        return Entry(primitive, Target.parse(name), 256, time_s, time_s, time_s, Provenance.MEASURED)

    return PerformanceTable(
        [entry("learner.step", name, time_s) for name, time_s in learner_s.items()]
        + [
            entry(f"sum_tree.{op}", name, time_s / 3)
            for name, time_s in rmm_s.items()
            for op in ("sample", "update", "insert")
        ]
    )


def test_insertion_hides_behind_training_and_the_rest_does_not() -> None:
    assert iteration_s(1, 5, 3, 2) == 1 + 5 + 2
    assert iteration_s(1, 2, 3, 2) == 1 + 3 + 2
    assert published_iteration_s(1, 5, 3, 2) == 1 + 5
    assert published_iteration_s(1, 4, 3, 2) == 1 + 3 + 2


@given(st.lists(st.floats(0, 1e3), min_size=4, max_size=4))
def test_the_public_code_never_predicts_a_longer_iteration_than_the_text(times: list[float]) -> None:
    assert published_iteration_s(*times) <= iteration_s(*times) * (1 + 1e-12)


def test_the_fewest_of_the_equally_fast_streams_win() -> None:
    assert best_streams({4: 1.0, 2: 1.0, 1: 1.0}, 64) == 1
    assert best_streams({streams: 8 / streams + streams for streams in (1, 2, 3, 4, 64)}, 64) == 3
    assert best_streams({1: 2.0, 64: 1.0}, 64) == 64
    with pytest.raises(ValueError, match=r"streams: found \[1, 65\]; allowed: 1 to the batch size, 64"):
        best_streams({1: 1.0, 65: 1.0}, 64)
    for none in ({}, {0: 1.0}):
        with pytest.raises(ValueError, match="streams: found"):
            best_streams(none, 64)


def in_streams(name: str, times_s: dict[int, float]) -> list[Entry]:
    """Rows of a learner in more than one stream."""
    return [
        Entry(f"learner.step in {n} streams", Target.parse(name), 256, s, s, s, Provenance.MEASURED)
        for n, s in times_s.items()
    ]


def test_the_choice_takes_each_learner_with_its_best_streams() -> None:
    """The GPU loses to the CPU in one stream and in sixteen, and wins in four."""
    rows = table({"torch": 1e-3, "torch:cuda": 2e-3}, {"native": 3e-5})
    alone = Pearl24().choose(rows, PROBLEM, PLATFORM)
    assert (str(alone.mapping.learner), alone.settings) == ("torch", {"streams": 1})
    searched = PerformanceTable([*rows, *in_streams("torch:cuda", {2: 1.5e-3, 4: 5e-4, 16: 1.2e-3})])
    chosen = Pearl24().choose(searched, PROBLEM, PLATFORM)
    assert (str(chosen.mapping.learner), chosen.settings) == ("torch:cuda", {"streams": 4})
    assert chosen.terms_s["learner"] == 5e-4
    assert ("learner.step in 4 streams", Target.parse("torch:cuda")) in chosen.cells


def test_a_learner_with_times_for_every_number_of_streams_has_one_of_these() -> None:
    """The FPGA's own number of pipelines is 2, and 4 are faster; a tie with its own step is not one stream."""
    rows = [*table({"fpga": 2e-4}, {"native": 3e-5}), *in_streams("fpga", {1: 9e-4, 2: 2e-4, 4: 1e-4})]
    chosen = Pearl24().choose(PerformanceTable(rows), PROBLEM, PLATFORM)
    assert (chosen.settings, chosen.terms_s["learner"]) == ({"streams": 4}, 1e-4)
    rows.pop()
    assert Pearl24().choose(PerformanceTable(rows), PROBLEM, PLATFORM).settings == {"streams": 2}


def test_a_learner_that_is_slower_in_streams_works_in_one() -> None:
    rows = PerformanceTable(
        [*table({"torch:cuda": 1e-3}, {"native": 3e-5}), *in_streams("torch:cuda", {2: 1e-3, 4: 2e-3})]
    )
    assert Pearl24().choose(rows, PROBLEM, PLATFORM).settings == {"streams": 1}


def test_the_iteration_includes_the_communication_over_links_and_within_devices() -> None:
    times = table({"torch:cuda": 1e-3}, {"native": 3e-4})
    found = Pearl24().predict(times, PROBLEM, PLATFORM, Mapping.parse("torch:cuda-native-cpu"))
    pcie, ddr = 16e9, 89e9
    sample_s = 1e-4 + 256 * 4 / ddr
    learner_s = 1e-3 + 256 * 27 * 4 / pcie + 256 * 4 / pcie
    update_s = 1e-4 + 256 * 4 / pcie
    assert 1 / found.gps == pytest.approx(sample_s + learner_s + update_s)
    assert found.terms_s["learner communication"] == pytest.approx(256 * 28 * 4 / pcie)


def test_insertion_is_charged_for_every_step_between_two_gradient_steps() -> None:
    """In tree and storage, with the items' way from the actors: three steps of 27 words."""
    rows = [*table({"torch:cuda": 1e-6}, {"native": 3e-4})]
    rows.append(Entry("storage.insert", Target("cuda"), 256, 7e-4, 7e-4, 7e-4, Provenance.MEASURED))
    mapping, slow = Mapping.parse("torch:cuda-native-cuda"), Problem(256, 27, update_interval=3)
    found = Pearl24().predict(PerformanceTable(rows), slow, PLATFORM, mapping)
    assert found.terms_s["insert"] == pytest.approx(3 * (1e-4 + 7e-4))
    assert found.terms_s["insert communication"] == pytest.approx(3 * 27 * 4 / 16e9)
    assert found.terms_s["sample communication"] == pytest.approx(256 * 4 / 16e9)
    hidden = 1 / found.gps - found.terms_s["insert"] - found.terms_s["insert communication"]
    assert hidden == pytest.approx(2 * (1e-4 + 256 * 4 / 16e9)), "it hides the training, which is shorter"
    assert {name for name, _ in found.cells} >= {"sum_tree.insert", "storage.insert"}


def test_a_device_that_both_share_and_that_is_no_gpu_overlaps_as_two_do() -> None:
    times, mapping = table({"fpga": 1e-3}, {"fpga": 3e-4}), Mapping.parse("fpga-fpga-cpu")
    found = Pearl24().predict(times, PROBLEM, PLATFORM, mapping)
    hidden_s = found.terms_s["insert"] + found.terms_s["insert communication"]
    assert 1 / found.gps == pytest.approx(sum(found.terms_s.values()) - hidden_s)


class SlowInputs:
    """A machine whose OpenCL device gets its inputs slowly; all else takes equally long."""

    name = "slow inputs"
    cpu_cores = 8

    def latency_s(self, source: str, target: str) -> float:
        return 0.0

    def bytes_per_s(self, source: str, target: str) -> float:
        return {("cpu", "opencl"): 0.5e9, ("opencl", "opencl"): 0.1e9}.get((source, target), 1e9)


def test_of_equal_iterations_the_one_with_the_least_traffic_wins() -> None:
    """Both learners' steps and transfers hide behind a long insertion (PRL 6.3)."""
    rows = table({"opencl": 1e-6, "torch": 1e-6}, {"native": 3.0})
    assert str(Pearl24().choose(rows, PROBLEM, SlowInputs()).mapping) == "torch-native-cpu"


def test_nothing_overlaps_on_a_gpu_that_both_share() -> None:
    times = table({"torch:cuda": 1e-3}, {"cuda": 3e-4})
    found = Pearl24().predict(times, PROBLEM, PLATFORM, Mapping.parse("torch:cuda-cuda-cuda"))
    assert 1 / found.gps == pytest.approx(sum(found.terms_s.values()))


def test_it_chooses_the_shortest_iteration_where_map_looks_at_throughputs_alone() -> None:
    """The slower learner beside its replay beats the faster one behind a link that costs more than it gains."""
    times = table({"torch": 1.0e-3, "torch:cuda": 0.99999e-3}, {"native": 3e-5})
    small = Problem(batch_size=256, item_words=1, actors=16)
    assert str(MapTpds23().choose(times, small, PLATFORM).mapping.learner) == "torch:cuda"
    assert str(Pearl24().choose(times, small, PLATFORM).mapping) == "torch-native-cpu"


def test_the_memory_goes_where_the_traffic_takes_the_least_time() -> None:
    times = table({"torch:cuda": 1e-4}, {"native": 3e-5})
    assert str(Pearl24().choose(times, PROBLEM, PLATFORM).mapping.storage) == "cuda"
    crowd = Problem(batch_size=256, item_words=27, actors=2048)
    assert str(Pearl24().choose(times, crowd, PLATFORM).mapping.storage) == "cpu"


@pytest.mark.parametrize(("actors", "place"), [(300, "cuda"), (400, "cpu")])
def test_an_item_s_importance_weight_travels_to_the_learner_with_it(actors: int, place: str) -> None:
    """Two words an item of one: at 350 actors, over 16 GB/s and within 550 and 89 GB/s, both places are equal."""
    times = table({"torch:cuda": 1e-4}, {"native": 3e-5})
    crowd = Problem(batch_size=256, item_words=1, actors=actors)
    assert str(Pearl24().choose(times, crowd, PLATFORM).mapping.storage) == place


def test_no_pair_of_targets_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"learner\.step"):
        Pearl24().choose(table({}, {"native": 1e-5}), PROBLEM, PLATFORM)


AUTHORS = platforms.load("pearl24-authors")


def test_the_composer_as_published_decides_on_its_authors_tables_as_by_hand() -> None:
    """Sampling on the CPU takes 0.03 ms, and GPU1's learner 0.2 ms, which hides update and insertion, 0.0033 ms."""
    chosen = AS_PUBLISHED.choose(pearl24_authors.table(), pearl24_authors.problem(), AUTHORS)
    assert str(chosen.mapping) == "torch:cuda-native-cpu"
    assert 1 / chosen.gps == pytest.approx(0.23e-3)
    # FPGA and GPU1: 0.1 + 0.2; CPU and GPU2: 0.03 + 0.3; all on the FPGA: 0.2 + 0.5 ms.
    for mapping, ms in (
        ("torch:cuda:0-fpga-cpu", 0.3),
        ("torch:cuda:1-native-cpu", 0.33),
        ("fpga-fpga-cpu", 0.7),
    ):
        made = AS_PUBLISHED.predict(
            pearl24_authors.table(), pearl24_authors.problem(), AUTHORS, Mapping.parse(mapping)
        )
        assert 1 / made.gps == pytest.approx(ms * 1e-3), mapping


def test_with_the_latency_of_its_authors_links_equation_6_keeps_all_on_the_cpu() -> None:
    """Every transfer between devices costs 1 ms, and the learner on GPU1 waits for three of them."""
    rows, problem = pearl24_authors.table(), pearl24_authors.problem()
    chosen = Pearl24().choose(rows, problem, AUTHORS)
    assert str(chosen.mapping) == "torch-native-cpu"
    # Sharing, in us: 300 + 600 + 2, and transfers of 2 us and 2,048 B or 24,576 B at 32 GB/s.
    within = 2 + 2048 / 32e3
    assert 1e6 / chosen.gps == pytest.approx(902 + 3 * within + 2 + 24_576 / 32e3)
    there = Pearl24().predict(rows, problem, AUTHORS, Mapping.parse("torch:cuda:0-native-cpu"))
    over = 1000 + 2048 / 16e3
    assert 1e6 / there.gps == pytest.approx(30 + within + 200 + (1000 + 24_576 / 16e3) + over + 2 + over)


def test_replay_and_learner_on_one_device_take_the_times_for_that() -> None:
    found = Pearl24().predict(
        pearl24_authors.table(),
        pearl24_authors.problem(),
        AUTHORS,
        Mapping.parse("torch:cuda:1-cuda:1-cuda:1"),
    )
    assert {name: found.terms_s[name] for name in ("sample", "learner", "insert", "update")} == pytest.approx(
        {"sample": 0.53e-3, "learner": 0.53e-3, "insert": 0.0012e-3, "update": 0.001e-3}
    )
    assert all(name.endswith(" sharing") for name, _ in found.cells)
    alone = table({"fpga": 1e-3}, {"fpga": 3e-4})
    assert ("learner.step", Target("fpga")) in Pearl24().predict(
        alone, PROBLEM, PLATFORM, Mapping.parse("fpga-fpga-cpu")
    ).cells, "a table without such times has those of each alone"


def test_a_transfer_between_two_devices_costs_both_links() -> None:
    assert AUTHORS.latency_s("cuda:0", "fpga") == pytest.approx(2e-3)
    found = Pearl24().predict(
        pearl24_authors.table(), pearl24_authors.problem(), AUTHORS, Mapping.parse("torch:cuda:0-fpga-cpu")
    )
    assert found.terms_s["update communication"] == pytest.approx(2e-3 + 2048 * (1 / 16e9 + 1 / 16e9))
