"""Results that are simulated once: kept on disk, under a hash of every source that the block needs."""

import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest

from placerl.primitives import disk_cache
from placerl.primitives.fpga.cycles import simulated_once
from placerl.primitives.fpga.cycles.simulated_once import SimulatedOnce, sources_of

TIMER = "placerl.primitives.fpga.gemm.timer"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(simulated_once, "version", lambda name: "0.5")
    simulated_once._code_key.cache_clear()


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
    assert not SimulatedOnce("placerl.primitives.fpga.gemm.core", refuse).is_known("size")
    monkeypatch.setattr(simulated_once, "sources_of", lambda module: (Path(__file__),))
    simulated_once._code_key.cache_clear()
    assert not SimulatedOnce(TIMER, refuse).is_known("size")


def test_the_sources_are_all_that_a_block_imports_within_the_hardware() -> None:
    names = {
        "/".join(path.parts[-2:]) for path in sources_of("placerl.primitives.fpga.learner_pipeline.timer")
    }
    assert {
        "learner_pipeline/timer.py",
        "learner_pipeline/tensor_units.py",  # by way of the pipeline
        "floating_point/words.py",
        "export/ram.py",
    } <= names
    assert "gemm/core.py" not in names
    assert all("/primitives/fpga/" in str(path) for path in sources_of(TIMER))
    with pytest.raises(ValueError, match=r"module: found .*gemm\.tamer.; allowed: a module of"):
        sources_of("placerl.primitives.fpga.gemm.tamer")


def test_another_way_to_read_the_result_is_simulated_again(tmp_path: Path) -> None:
    path = tmp_path / "reads.py"

    def known(text: str) -> SimulatedOnce:
        path.write_text(text)
        simulated_once._code_key.cache_clear()
        return SimulatedOnce(TIMER, runpy.run_path(str(path))["simulate"])

    last_cycle = "def simulate(sizes):\n    return [9 for _ in sizes]\n"
    assert known(last_cycle)(3) == 9
    assert known(last_cycle).is_known(3)
    one_more = known(last_cycle.replace("9", "9 + 1"))
    assert not one_more.is_known(3)
    assert one_more(3) == 10
    helped = known("from placerl.primitives.fpga.gemm import plan\n" + last_cycle)
    assert not helped.is_known(3)


def test_the_simulations_of_the_learners_units_depend_on_the_file_that_reads_them() -> None:
    units = Path(simulated_once.__file__).with_name(
        "simulated_units.py"
    )  # not imported: this file would depend on it
    sources = {"/".join(path.parts[-2:]) for path in simulated_once._interpreting(units)}
    assert {"cycles/simulated_units.py", "gemm/plan.py", "simulation/ports.py"} <= sources
    assert not {"learner_pipeline/timer.py", "gemm/core.py"} & sources, "blocks that other functions time"


@pytest.mark.parametrize(
    "statement",
    [
        "from placerl.primitives.fpga.made.inner import other",
        "from placerl.primitives.fpga.made import inner",
        "import placerl.primitives.fpga.made.inner",
        "import placerl.primitives.fpga.made.inner as short",
        "from .inner import other",
        "from . import inner",
        "from ..made import inner",
        "def late():\n    from .inner import other",
    ],
)
def test_every_way_to_import_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(simulated_once, "_ROOT", tmp_path)
    folder = tmp_path / "placerl" / "primitives" / "fpga" / "made"
    folder.mkdir(parents=True)
    (folder / "inner.py").write_text("other = 1\n")
    (folder / "block.py").write_text(f"import ast\n{statement}\n")
    sources_of.cache_clear()
    try:
        found = sources_of("placerl.primitives.fpga.made.block")
    finally:
        sources_of.cache_clear()
    assert found == (folder / "block.py", folder / "inner.py")
