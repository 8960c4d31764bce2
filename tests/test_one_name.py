"""The distribution has one top-level name, `placerl`, whose import is light."""

import subprocess
import sys
from pathlib import Path

import pytest

import placerl
from tests.limits import LIMIT_S

ROOT = Path(__file__).parent.parent
OFFERED = {"sum_tree", "replay", "learner", "environments", "compose", "map", "__version__"}
FOLDERS = ("harness", "primitives")
"""Folders of the working copy whose names are taken by others in a user's environment."""
EVERYTHING = """
import importlib, pkgutil, sys
import placerl

lacking = set()
for module in pkgutil.walk_packages(placerl.__path__, "placerl.", onerror=lambda name: None):
    if ".examples." in module.name or module.name.endswith("__main__"):
        continue  # programs
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        lacking.add(error.name)
print(len([name for name in sys.modules if name.startswith("placerl.")]))
print(sorted(name for name in lacking if name.partition(".")[0] in {"placerl", "harness", "primitives"}))
print(sorted(name for name in sys.modules if name.partition(".")[0] in {"harness", "primitives"}))
"""


def printed(script: str, *arguments: str, folder: Path = ROOT) -> str:
    command = [sys.executable, *arguments, "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def test_the_import_loads_nothing_else() -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); before = {{*sys.modules}}\n"
        "import placerl; print(sorted({*sys.modules} - before))"
    )
    # -S: an editable installation's own finder loads modules.
    assert printed(script, "-P", "-S") == "['placerl']\n"


@pytest.mark.parametrize("name", ["sum_tree", "replay", "environments"])
def test_the_primitives_that_need_only_numpy_load_no_pytorch(name: str) -> None:
    script = f"import sys, placerl; placerl.{name}; print('torch' in sys.modules, 'placerl.harness' in sys.modules)"
    assert printed(script, "-P") == "False False\n"


def test_what_users_type_is_offered() -> None:
    assert set(placerl.__all__) >= OFFERED
    assert dir(placerl) == sorted(placerl.__all__)
    for name in placerl.__all__:
        assert getattr(placerl, name) is not None
    with pytest.raises(AttributeError, match="module 'placerl' has no attribute 'sumtree'"):
        placerl.sumtree  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ["sum_tree", "replay", "learner", "environments"])
def test_a_short_name_offers_what_the_primitive_does(name: str) -> None:
    short, long = getattr(placerl, name), getattr(placerl.primitives, name)
    assert short.__all__ == long.__all__
    assert all(getattr(short, public) is getattr(long, public) for public in long.__all__)


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("compose", "gymnasium", "harness"), ("map", "torch", "harness"), ("learner", "torch", "torch")],
)
def test_a_missing_extra_is_named(name: str, library: str, extra: str) -> None:
    script = (
        f"import sys, placerl\nsys.modules[{library!r}] = None\n"
        f"try:\n    placerl.{name}\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    expected = f"placerl.{name}: found no {library}, which the extra '{extra}' brings; allowed: "
    assert printed(script, "-P") == f"{expected}pip install 'placerl[{extra}]'\n"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_installation_has_no_other_name(name: str, tmp_path: Path) -> None:
    script = (
        f"from importlib.util import find_spec; print(find_spec({name!r}), find_spec('placerl') is not None)"
    )
    assert printed(script, folder=tmp_path) == "None True\n"


def test_no_module_is_loaded_twice_under_two_names() -> None:
    """In the working copy's top folder, where `import harness` would find something."""
    count, lacking, twice = printed(EVERYTHING).splitlines()
    assert int(count) > 500
    assert (lacking, twice) == ("[]", "[]")


def test_a_command_loads_no_module_under_another_name() -> None:
    script = (
        "import sys, atexit\nfrom placerl.__main__ import main\nsys.argv = ['placerl', 'map', 'cartpole-ddpg', "
        "'--batch-size', '32', '--platform', 'map-tpds23', '--json']\n"
        "atexit.register(lambda: print(sorted(n for n in sys.modules if n.partition('.')[0] in "
        "('harness', 'primitives')), file=sys.stderr))\nmain()"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "[]\n")
