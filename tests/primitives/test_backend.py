"""Backends are found by their files' names."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placerl.primitives import backend, learner, sum_tree
from placerl.primitives.backend import BackendUnavailableError
from placerl.primitives.replay import device

HERE = "def unavailable_reason():\n    return ''\n"
ABSENT = "SIMULATED = True\n\n\ndef unavailable_reason():\n    return 'no such board'\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "a_primitive"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.split(".")[0] == "a_primitive"]:
        del sys.modules[name]
    backend._modules.cache_clear()


def test_a_backend_is_a_file_or_a_folder(package: Path) -> None:
    (package / "fast_backend.py").write_text(HERE)
    (package / "reference_backend.py").write_text(HERE)
    (package / "helper.py").write_text("raise AssertionError('a helper is no backend')\n")
    (package / "board").mkdir()
    (package / "board" / "board_backend.py").write_text(ABSENT)

    assert backend.names("a_primitive") == ("reference", "board", "fast")
    assert [
        (one.name, one.available, one.reason, one.simulated) for one in backend.statuses("a_primitive")
    ] == [
        ("reference", True, "", False),
        ("board", False, "no such board", True),
        ("fast", True, "", False),
    ]
    assert backend.load("a_primitive", "fast").__name__ == "a_primitive.fast_backend"
    with pytest.raises(
        BackendUnavailableError, match="'board' of a_primitive is not available: no such board"
    ):
        backend.load("a_primitive", "board")
    with pytest.raises(ValueError, match="backend: unknown 'fats'; allowed: reference, board, fast"):
        backend.load("a_primitive", "fats")


def test_two_backends_of_one_name_are_refused(package: Path) -> None:
    (package / "fast_backend.py").write_text(HERE)
    (package / "fast").mkdir()
    (package / "fast" / "fast_backend.py").write_text(HERE)

    with pytest.raises(RuntimeError, match="two backends are called fast"):
        backend.names("a_primitive")


@pytest.mark.parametrize("primitive", [learner, sum_tree, device], ids=["learner", "sum_tree", "rows"])
def test_a_backend_says_without_being_created_whether_it_has_a_device(primitive: Any) -> None:
    for status in primitive.backends():
        if not status.available:
            with pytest.raises(BackendUnavailableError):
                primitive.check(backend=status.name)
            continue
        primitive.check(backend=status.name)
        with pytest.raises((ValueError, TypeError), match="device: found"):
            primitive.check(backend=status.name, device="no such device")
    with pytest.raises(ValueError, match="backend: unknown 'abacus'; allowed: "):
        primitive.check(backend="abacus")


def test_every_learner_here_has_the_default_device() -> None:
    for status in learner.backends():
        if status.available:
            learner.check(backend=status.name, device="cpu")
