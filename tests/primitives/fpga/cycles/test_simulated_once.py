"""Results that are simulated once: kept on disk, under a hash of every source that the block needs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from primitives import disk_cache
from primitives.fpga.cycles import simulated_once
from primitives.fpga.cycles.simulated_once import SimulatedOnce, sources_of

TIMER = "primitives.fpga.gemm.timer"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(simulated_once, "version", lambda name: "0.5")
    simulated_once._rtl_key.cache_clear()


def refuse(sizes: Sequence[object]) -> list[object]:
    pytest.fail(f"simulated again: {sizes}")


def test_new_sizes_are_simulated_in_one_go_and_once() -> None:
    calls = []

    def squares(sizes: Sequence[int]) -> list[int]:
        calls.append(list(sizes))
        return [size * size for size in sizes]

    known = SimulatedOnce(TIMER, squares)
    assert not known.is_known(3)
    known.simulate([3, 4, 3])
    assert [known(3), known(4), known(5)] == [9, 16, 25]
    assert calls == [[3, 4], [5]]
    other_process = SimulatedOnce(TIMER, refuse)
    assert other_process.is_known(3)
    assert [other_process(size) for size in (3, 4, 5)] == [9, 16, 25]


def test_another_block_or_another_source_is_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SimulatedOnce(TIMER, lambda sizes: [1])("size") == 1
    assert not SimulatedOnce("primitives.fpga.gemm.core", refuse).is_known("size")
    monkeypatch.setattr(simulated_once, "sources_of", lambda module: (Path(__file__),))
    simulated_once._rtl_key.cache_clear()
    assert not SimulatedOnce(TIMER, refuse).is_known("size")


def test_the_sources_are_all_that_a_block_imports_within_the_hardware() -> None:
    names = {"/".join(path.parts[-2:]) for path in sources_of("primitives.fpga.learner_pipeline.timer")}
    assert {
        "learner_pipeline/timer.py",
        "learner_pipeline/tensor_units.py",  # by way of the pipeline
        "floating_point/words.py",
        "export/ram.py",
    } <= names
    assert "gemm/core.py" not in names
    assert all("/primitives/fpga/" in str(path) for path in sources_of(TIMER))
    with pytest.raises(ValueError, match=r"module: found .*gemm\.tamer.; allowed: a module of"):
        sources_of("primitives.fpga.gemm.tamer")
