"""The sources of a hardware block, and what changes their hash."""

import ast
from pathlib import Path

import pytest

from placerl.primitives.fpga.cycles import sources
from placerl.primitives.fpga.cycles.sources import sources_of

TIMER = "placerl.primitives.fpga.gemm.timer"


def forget() -> None:
    for function in (sources_of, sources._key, sources._code, sources._tree, sources._needed):
        function.cache_clear()


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


def test_what_reads_a_result_is_a_block_s_own_file_and_what_it_needs_without_the_hardware() -> None:
    folder = Path(sources.__file__).parent / "blocks"
    read = {"/".join(path.parts[-2:]) for path in sources._interpreting(folder / "gemm.py")}
    assert {"blocks/gemm.py", "gemm/plan.py", "simulation/ports.py"} <= read
    assert not {"gemm/timer.py", "gemm/core.py"} & read, "the block"
    assert not {"cycles/timed_block.py", "cycles/table.py", "cycles/sources.py"} & read, "what keeps results"
    with_data = {path.name for path in sources._interpreting(folder / "narrow_replay.py")}
    assert "fpga_tree.py" in with_data, "the tree that makes the requests"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('"""Another."""\n\n\ndef f(x):\n    # why\n    return x + 1\n', True),
        ("def f(x):\n    return (x +\n            1)\n", True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(y):\n    return y + 1\n", False),
        ('def f(x):\n    "one"\n    return x + 1\n', True),
        ("def f(x):\n    x\n    return x + 1\n", False),
        ("def f(x):\n    return x + 1.0\n", False),
        ("def f(x=None):\n    return x + 1\n", False),
        ("async def f(x):\n    return x + 1\n", False),
    ],
)
def test_only_the_code_counts(text: str, same: bool, tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text('"""A module."""\n\n\ndef f(x):\n    """Return one more."""\n    return x + 1\n')
    second.write_text(text)
    forget()
    assert (sources._code(first) == sources._code(second)) is same


def test_a_class_keeps_its_body_and_loses_its_docstring() -> None:
    bare, documented = (
        ast.parse(f"class A:\n{doc}    x: int = 1\n    y = 'text'\n") for doc in ("", "    'About it.'\n")
    )
    assert sources._as_tuples(bare) == sources._as_tuples(documented)
    assert "'text'" in repr(sources._as_tuples(bare))


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
    monkeypatch.setattr(sources, "_ROOT", tmp_path)
    folder = tmp_path / "placerl" / "primitives" / "fpga" / "made"
    folder.mkdir(parents=True)
    (folder / "inner.py").write_text("other = 1\n")
    (folder / "block.py").write_text(f"import ast\n{statement}\n")
    forget()
    try:
        found = sources_of("placerl.primitives.fpga.made.block")
        before = sources.design_key("placerl.primitives.fpga.made.block")
        forget()
        (folder / "inner.py").write_text("other = 2\n")
        assert sources.design_key("placerl.primitives.fpga.made.block") != before
    finally:
        forget()
    assert found == (folder / "block.py", folder / "inner.py")
