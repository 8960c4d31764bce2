"""When MuJoCo is not there, or is not the one that it says: a reason by name, never a crash."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from placerl.primitives import environments
from placerl.primitives.environments import make_vec, mujoco_simulations


class Library:
    """Stands for a loaded shared library."""

    def __init__(self, version: int, functions: tuple[str, ...]) -> None:
        self.mj_version = lambda: version
        for name in functions:
            setattr(self, name, lambda: None)


def package(folder: Path, files: int = 1) -> Any:
    for number in range(files):
        (folder / f"libmujoco.so.4.0.{number}").touch()
    return SimpleNamespace(
        __file__=str(folder / "__init__.py"), __version__="4.0.0", mj_version=lambda: 4_000_000
    )


def test_a_library_of_another_version_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: Library(3_010_000, mujoco_simulations.FUNCTIONS))
    reason = mujoco_simulations.library_reason(package(tmp_path))
    assert reason == "the shared library is MuJoCo 3010000, the package 'mujoco' was built for 4000000"


def test_a_library_without_a_function_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: Library(4_000_000, mujoco_simulations.FUNCTIONS[1:]))
    reason = mujoco_simulations.library_reason(package(tmp_path))
    assert reason == "MuJoCo 4.0.0 has no mj_step in its shared library"


@pytest.mark.parametrize("files", [0, 2])
def test_there_must_be_one_library(tmp_path: Path, files: int) -> None:
    reason = mujoco_simulations.library_reason(package(tmp_path, files))
    assert reason.startswith(f"{files} shared libraries of MuJoCo in ")


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    reason = mujoco_simulations.library_reason(package(tmp_path))
    assert reason.startswith("the shared library of MuJoCo cannot be loaded: ")


def test_without_the_package_it_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mujoco_simulations, "find_spec", lambda name: None if name == "mujoco" else object())
    reason = environments.unavailable_reason("Hopper-v5")
    assert reason == "the package 'mujoco' is not installed (the physics)"
    assert not environments.unavailable_reason("CartPole-v1")
    with pytest.raises(ValueError, match="id: found 'Hopper-v5'; the package 'mujoco' is not installed"):
        make_vec("Hopper-v5", 2)
