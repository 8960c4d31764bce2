"""Modelled times on platforms whose numbers are small enough to add up by hand."""

from functools import partial

import pytest

from placerl.harness.core.errors import UserError
from placerl.harness.core.provenance import Provenance
from placerl.harness.mapping import Problem, Target
from placerl.harness.mapping.roofline import CACHE_LINE_BYTES, CountedWork, Modelled, modelled_times
from placerl.harness.platforms import PlatformDevice, PlatformFile

WORK = CountedWork(macs=1_000_000, state_bytes=2000, batch_bytes=500, operations=10, leaves=4096, fanout=16)
PROBLEM = Problem(batch_size=32, item_words=5, actors=3)
near = partial(pytest.approx, rel=1e-12, abs=0)  # but for rounding
BASE = {"peak_tops": 1.0, "memory_gb_s": 1.0}


def platform(*kinds: str, **numbers: float) -> PlatformFile:
    """A device of each kind, all with the same numbers."""
    fields = {
        name: {"value": value, "provenance": "published", "source": "a paper"}
        for name, value in numbers.items()
    }
    peak = {"peak_type": "fp32"} if "peak_tops" in numbers else {}
    devices = [
        {"key": f"{kind}{number}", "kind": kind, "name": kind, **fields, **peak}
        for number, kind in enumerate(kinds)
    ]
    return PlatformFile.model_construct(
        name="made", device=tuple(map(PlatformDevice.model_validate, devices))
    )


def times(
    *kinds: str, work: CountedWork = WORK, problem: Problem = PROBLEM, **numbers: float
) -> dict[str, Modelled]:
    made = modelled_times(platform(*kinds, **BASE | numbers), work, problem)
    return {one.entry.primitive: one for one in made if isinstance(one, Modelled)}


def seconds(kind: str, primitive: str, **options: float) -> float:
    return times(kind, **options)[primitive].entry.time_s


def test_a_step_takes_the_longest_of_arithmetic_traffic_and_launches() -> None:
    assert seconds("cpu", "learner.step") == near((500 + 2 * 2000) / 1e9)
    assert seconds("cpu", "learner.step", memory_gb_s=10) == near(2 * 1_000_000 / 1e12)
    assert seconds("gpu", "learner.step", launch_us=7) == near(10 * 7e-6)
    made = times("cpu", memory_gb_s=10)["learner.step"]
    assert made.formula == "2 x 1,000,000 MACs / 1 TOPS (published: a paper)"
    assert made.entry.provenance is Provenance.MODELLED


@pytest.mark.parametrize(("cache_mb", "traffic_bytes"), [(2e-3, 500), (1.999999e-3, 4500)])
def test_an_fpga_keeps_a_state_that_just_fits(cache_mb: float, traffic_bytes: int) -> None:
    found = seconds("fpga", "learner.step", last_level_cache_mb=cache_mb, peak_tops=1e6)
    assert found == near(traffic_bytes / 1e9)


def test_no_other_device_keeps_a_state_whatever_its_cache() -> None:
    found = seconds("cpu", "learner.step", last_level_cache_mb=1.0, peak_tops=1e6)
    assert found == near(4500 / 1e9)


@pytest.mark.parametrize(
    ("leaves", "fanout", "levels"), [(4096, 16, 3), (4097, 16, 4), (16, 16, 1), (1, 16, 1), (8, 2, 3)]
)
def test_a_tree_has_a_level_for_each_node_group_on_the_way(leaves: int, fanout: int, levels: int) -> None:
    assert CountedWork(1, 1, 1, 1, leaves, fanout).levels == levels


def test_a_processor_s_tree_reads_a_cache_line_a_level() -> None:
    assert CACHE_LINE_BYTES == 64
    assert seconds("cpu", "sum_tree.sample") == near(32 * 3 * 64 / 1e9)
    assert seconds("cpu", "sum_tree.update") == near(32 * 3 * 64 / 1e9)
    assert seconds("cpu", "sum_tree.insert") == near(3 * 64 / 1e9), "of one leaf, not one an actor"
    assert seconds("gpu", "sum_tree.sample", launch_us=9) == near(9e-6)


def test_storage_reads_and_writes_each_row_and_an_fpga_streams_it() -> None:
    assert seconds("cpu", "storage.gather") == near(2 * 32 * 20 / 1e9)
    assert seconds("cpu", "storage.insert") == near(2 * 20 / 1e9), "of one row, not one an actor"
    assert seconds("gpu", "storage.gather", launch_us=9) == near(9e-6)
    three = [*modelled_times(platform("cpu", **BASE), WORK, PROBLEM, inserted=3)]
    assert [one.entry.time_s for one in three if isinstance(one, Modelled)][-1] == near(3 * 2 * 20 / 1e9)
    assert seconds("fpga", "storage.gather", last_level_cache_mb=1) == near(32 * 20 / 1e9)
    assert seconds("fpga", "storage.insert", last_level_cache_mb=1) == near(20 / 1e9)


def test_a_row_is_copied_in_the_bytes_that_are_stored_whatever_its_words() -> None:
    """Frames are bytes, of which a word holds four."""
    frames = Problem(batch_size=32, item_words=5, stored_bytes=8)
    assert times("cpu", problem=frames)["storage.gather"].entry.time_s == near(2 * 32 * 8 / 1e9)
    assert times("cpu", problem=frames)["storage.insert"].entry.time_s == near(2 * 8 / 1e9)
    board = times("fpga", problem=frames, last_level_cache_mb=1)
    assert board["storage.gather"].entry.time_s == near(32 * 8 / 1e9)


@pytest.mark.parametrize(
    ("items", "pipelines", "sample_cycles"),
    [
        (32, None, 32 * 16 + 3),  # one pipeline where the platform states none
        (32, 4, 32 / 4 * 16 + 3),
        (32, 64, 32 / (32 / 3) * 16 + 3),  # no more than fill their stages
        (3, 64, 3 * 16 + 3),  # a batch that just fills one
        (2, 64, 2 * 16 + 3),
        (4, 64, 4 / (4 / 3) * 16 + 3),
    ],
)
def test_an_fpga_s_tree_takes_cycles_a_batch_over_its_pipelines(
    items: int, pipelines: int | None, sample_cycles: float
) -> None:
    """MAP VI-A2: B / S x F and the stages to fill; an update takes a cycle where a sample takes F."""
    numbers = {"clock_mhz": 100.0, "last_level_cache_mb": 1.0} | (
        {"tree_pipelines": pipelines} if pipelines else {}
    )
    found = times("fpga", problem=Problem(items, 5), **numbers)
    assert found["sum_tree.sample"].entry.time_s == near(sample_cycles / 100e6)
    update_cycles = (sample_cycles - 3) / 16 + 3
    assert found["sum_tree.update"].entry.time_s == near(update_cycles / 100e6)
    assert found["sum_tree.insert"].entry.time_s == near((1 + 3) / 100e6)


@pytest.mark.parametrize(("cache_mb", "fits"), [(0.017476, True), (0.017475, False)])
def test_an_fpga_s_tree_that_does_not_fit_on_chip_is_as_fast_as_its_memory(
    cache_mb: float, fits: bool
) -> None:
    """4096 + 256 + 16 + 1 words of 4 bytes are 17,476 B; 32 requests read 3 lines of 64 B each."""
    assert WORK.tree_bytes == 17_476
    found = seconds("fpga", "sum_tree.update", clock_mhz=100, last_level_cache_mb=cache_mb)
    assert found == near((32 + 3) / 100e6 if fits else 32 * 3 * 64 / 1e9)


def test_an_fpga_without_a_clock_is_as_fast_as_its_memory() -> None:
    assert seconds("fpga", "sum_tree.sample", last_level_cache_mb=1) == near(32 * 3 * 64 / 1e9)


def test_a_clock_makes_no_pipeline_of_a_processor() -> None:
    assert seconds("cpu", "sum_tree.sample", clock_mhz=100) == near(32 * 3 * 64 / 1e9)


def test_each_kind_of_device_has_its_own_targets() -> None:
    made = modelled_times(
        platform("cpu", "gpu", "fpga", **BASE, last_level_cache_mb=1, clock_mhz=100), WORK, PROBLEM
    )
    targets = {(one.entry.primitive, one.entry.target) for one in made if isinstance(one, Modelled)}
    assert {target for name, target in targets if name == "learner.step"} == {
        Target("torch"),
        Target("torch", "cuda"),
        Target("fpga"),
    }
    assert {target for name, target in targets if name == "sum_tree.sample"} == {
        Target("native"),
        Target("cuda"),
        Target("fpga"),
    }
    assert len(targets) == 3 * 6


def test_without_a_replay_there_is_the_learner_alone() -> None:
    assert set(times("cpu", "gpu", problem=Problem(32, 5, trajectory_length=8))) == {"learner.step"}


def test_what_the_platform_does_not_say_is_refused_by_its_field() -> None:
    with pytest.raises(UserError, match=r"device 'cpu0'\.memory_gb_s: found nothing"):
        list(modelled_times(platform("cpu", peak_tops=1.0), WORK, PROBLEM))
    with pytest.raises(UserError, match=r"device 'cpu0'\.peak_tops: found nothing"):
        list(modelled_times(platform("cpu", memory_gb_s=1.0), WORK, PROBLEM))
    with pytest.raises(UserError, match="device: found two of kind 'cpu'"):
        times("cpu", "cpu")


def test_a_tie_is_told_by_one_of_its_terms_and_counted_once() -> None:
    """2e6 operations at 1e12 a second and 4,500 bytes at 2.25 GB/s both take 2 us."""
    assert seconds("cpu", "learner.step", memory_gb_s=2.25) == near(2e-6)
