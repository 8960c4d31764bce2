"""Who imports whom, in this tree; and that each rule can fail, in trees of a few files."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.floor_plan import FloorPlan, Rules, circles

RULES = Rules(
    root="",
    upper="upper_package",
    lower=("lower_package",),
    rooms=("top", "middle", "papers", "base"),
    papers="papers",
    loose=("__main__",),
    forbidden=("baselines", "agent"),
    confined={"pyopencl": "lower_package.device"},
    exceptions={},
)
SOUND = {
    "upper_package/__init__.py": "",
    "upper_package/__main__.py": "from upper_package.top import command\n",
    "upper_package/top/__init__.py": "",
    "upper_package/top/command.py": "from upper_package.papers.one import claims\nimport upper_package.base.rows\n",
    "upper_package/middle/__init__.py": "",
    "upper_package/middle/plan.py": "from upper_package.papers import shared\n",
    "upper_package/papers/__init__.py": "from upper_package.papers import shared\n",
    "upper_package/papers/shared.py": "import json\n",
    "upper_package/papers/one/__init__.py": "",
    "upper_package/papers/one/claims.py": "from upper_package.papers import shared\n",
    "upper_package/papers/two/__init__.py": "",
    "upper_package/papers/two/claims.py": "from upper_package.papers.two import figure\n",
    "upper_package/papers/two/figure.py": "from upper_package.base import rows\n",
    "upper_package/base/__init__.py": "",
    "upper_package/base/rows.py": "from lower_package import tree\n",
    "lower_package/__init__.py": "",
    "lower_package/tree.py": "import numpy\n",
}
Plant = Callable[..., list[str]]


def test_every_import_of_this_tree_goes_down() -> None:
    plan = FloorPlan(Rules())
    print(plan.drawing())
    assert plan.violations() == []


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Write the sound tree with some files changed, and give what breaks a rule there."""

    def write(changes: dict[str, str], exceptions: dict[str, str] | None = None) -> list[str]:
        for name, text in (SOUND | changes).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        rules = Rules(**{**vars(RULES), "exceptions": exceptions or {}})
        return FloorPlan(rules).violations()

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    assert not {"upper_package", "lower_package"} & set(sys.modules), "the sources are read, never run"


def test_a_sound_tree_passes(plant: Plant) -> None:
    assert plant({}) == []


HIDDEN = "def later():\n    from upper_package.top import command\n"
HIDDEN_CLAIMS = "def later():\n    from upper_package.papers.one import claims\n"
FOR_TYPES = (
    "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from upper_package.top import command\n"
)


@pytest.mark.parametrize(
    ("name", "text", "broken"),
    [
        ("base/more.py", "import upper_package.top.command\n", "base.more -> upper_package.top.command"),
        ("base/more.py", HIDDEN, "base.more -> upper_package.top.command"),
        ("base/more.py", FOR_TYPES, "base.more -> upper_package.top.command"),
        ("base/more.py", "from .. import papers\n", "base.more -> upper_package.papers"),
        ("papers/two/more.py", "from ..one import claims\n", "papers.two.more -> upper_package.papers.one.claims"),
        ("papers/more.py", "from .one import claims\n", "papers.more -> upper_package.papers.one.claims"),
        ("papers/__init__.py", HIDDEN_CLAIMS, "papers -> upper_package.papers.one.claims"),
        ("middle/more.py", HIDDEN_CLAIMS, "middle.more -> upper_package.papers.one.claims"),
        ("top/more.py", "from upper_package import __main__\n", "top.more -> upper_package.__main__"),
        ("top/more.py", "import baselines.worker\n", "top.more -> baselines"),
        ("top/more.py", "def later():\n    import agent\n", "top.more -> agent"),
    ],
)  # fmt: skip
def test_a_planted_import_fails(plant: Plant, name: str, text: str, broken: str) -> None:
    assert plant({f"upper_package/{name}": text}) == [f"upper_package.{broken}"]


def test_the_lower_package_never_imports_the_upper(plant: Plant) -> None:
    found = plant({"lower_package/more.py": "def later():\n    import upper_package.base\n"})
    assert found == ["lower_package.more -> upper_package.base"]


def test_a_confined_library_is_imported_by_its_package_alone(plant: Plant) -> None:
    hidden = "def later():\n    import pyopencl.array\n"
    assert (
        plant(
            {
                "lower_package/device/__init__.py": "import pyopencl\n",
                "lower_package/device/opencl.py": hidden,
            }
        )
        == []
    )
    for name in ("lower_package/device_tree.py", "upper_package/base/more.py"):
        importing = name.removesuffix(".py").replace("/", ".")
        assert f"{importing} -> pyopencl" in plant({name: hidden})


@pytest.mark.parametrize("package", ["upper_package/base", "lower_package"])
def test_a_circle_fails_wherever_its_imports_stand(plant: Plant, package: str) -> None:
    dotted = package.replace("/", ".")
    found = plant(
        {
            f"{package}/first.py": f"from {dotted} import second\n",
            f"{package}/second.py": f"def later():\n    from {dotted} import third\n",
            f"{package}/third.py": f"from {dotted}.first import name\n",
        }
    )
    assert found == [f"circle: {dotted}.first, {dotted}.second, {dotted}.third"]


def test_nothing_lies_loose(plant: Plant) -> None:
    assert plant({"upper_package/helpers.py": ""}) == ["in no room: upper_package.helpers"]
    assert plant({"upper_package/cellar/__init__.py": ""}) == [
        "in no room: upper_package.cellar",
        "in no room: upper_package.helpers",
    ]


def test_an_exception_is_named_and_goes_when_it_is_mended(plant: Plant) -> None:
    broken = "upper_package.base.more -> upper_package.top.command"
    exceptions = {broken: "until then"}
    assert plant({"upper_package/base/more.py": HIDDEN}, exceptions) == []
    assert plant({"upper_package/base/more.py": ""}, exceptions) == [
        f"exception no longer needed, delete it: {broken}"
    ]


def test_the_drawing_counts_rooms_arrows_and_circles(plant: Plant) -> None:
    plant({"upper_package/base/rows.py": "from upper_package.base import lines\n",
           "upper_package/base/lines.py": "from upper_package.base import rows\n"})  # fmt: skip
    assert FloorPlan(RULES).drawing() == (
        "upper_package: 4 rooms, 4 arrows between them, 1 circles of files\n"
        "  top     -> papers base\n"
        "  middle  -> papers\n"
        "  papers  -> base\n"
        "  base    -> "
    )


def test_circles_that_share_no_module_are_several() -> None:
    imports = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["c"], "e": ["a"], "f": ["f", "elsewhere"]}
    assert sorted(circles(imports)) == [("a", "b"), ("c", "d"), ("f",)]
