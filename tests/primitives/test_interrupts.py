"""Ctrl-C in an import stays a KeyboardInterrupt: it is neither dropped nor taken for a package that is missing."""

import ast
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import placerl.primitives
from placerl.primitives import sum_tree
from placerl.primitives.device import opencl_runtime
from placerl.primitives.environments import mujoco_simulations
from placerl.primitives.interrupts import whole_imports
from placerl.primitives.learner.native import native_backend as native_learner
from placerl.primitives.quantization import native_backend as native_quantization
from placerl.primitives.sum_tree import cuda_backend
from placerl.primitives.sum_tree import native_backend as native_tree

ROOT = Path(__file__).parents[2]


class Interrupted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a module during which Ctrl-C is pressed, as a library whose extension initialises then."""

    def __init__(self, name: str, dropped: bool) -> None:
        self.name, self.dropped, self.whole = name, dropped, False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
        except KeyboardInterrupt as error:
            if not self.dropped:
                raise ImportError("initialization failed") from error
        self.whole = True


SITES: dict[str, tuple[str, Callable[[], object]]] = {
    "OpenCL": ("pyopencl", opencl_runtime.unavailable_reason),
    "CuPy": ("cupy", cuda_backend.unavailable_reason),
    "MuJoCo": ("mujoco", mujoco_simulations.unavailable_reason),
    "native sum tree": ("placerl.primitives._native", native_tree.unavailable_reason),
    "native learner": ("placerl.primitives._native", native_learner.unavailable_reason),
    "native fixed point": ("placerl.primitives._native", native_quantization.unavailable_reason),
    "flat sum tree": ("torch", lambda: sum_tree.create(8, backend="flat")),
}
"""Each place that imports a library when it is needed: its name, and a call that does so."""


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, bool], Interrupted]]:
    """Makes a module one that is not imported yet, and that Ctrl-C interrupts."""
    found = signal.signal(signal.SIGINT, signal.default_int_handler)

    def make(name: str, dropped: bool) -> Interrupted:
        finder = Interrupted(name, dropped)
        package, _, own = name.rpartition(".")
        if package:
            monkeypatch.delattr(placerl.primitives, own, raising=False)
        monkeypatch.setitem(sys.modules, name, None)  # so that what is imported here does not stay
        del sys.modules[name]
        monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
        opencl_runtime.devices.cache_clear()
        opencl_runtime.load.cache_clear()
        return finder

    yield make
    opencl_runtime.devices.cache_clear()
    opencl_runtime.load.cache_clear()
    signal.signal(signal.SIGINT, found)


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("site", SITES)
def test_a_lazy_import_that_is_interrupted_raises_keyboard_interrupt(
    site: str, dropped: bool, missing: Callable[[str, bool], Interrupted]
) -> None:
    name, call = SITES[site]
    finder = missing(name, dropped)
    with pytest.raises(KeyboardInterrupt):
        call()
    assert finder.whole, "the import was interrupted in the middle"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_import_error_that_an_interruption_caused_is_an_interruption() -> None:
    """As pybind11 raises it, where Ctrl-C came before the block."""

    def imports() -> None:
        with whole_imports():
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise ImportError("initialization failed") from error

    with pytest.raises(KeyboardInterrupt):
        imports()
    thread_found: list[BaseException] = []

    def in_thread() -> None:
        try:
            imports()
        except BaseException as error:
            thread_found.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert isinstance(thread_found[0], KeyboardInterrupt)


def test_a_package_that_is_missing_stays_missing() -> None:
    with pytest.raises(ModuleNotFoundError), whole_imports():
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401


def test_the_programs_own_handler_is_called_once_and_stays() -> None:
    calls: list[int] = []

    def own(number: int, frame: object) -> None:
        calls.append(number)

    before = signal.signal(signal.SIGINT, own)
    try:
        with whole_imports():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            assert not calls
        assert calls == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("setting", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_setting_that_is_no_handler_is_left_alone(setting: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, setting)
    try:
        with whole_imports():
            assert signal.getsignal(signal.SIGINT) is setting
    finally:
        signal.signal(signal.SIGINT, before)


def catches_import_errors(tree: ast.Try) -> bool:
    caught = [node for handler in tree.handlers if handler.type for node in ast.walk(handler.type)]
    names = {node.id for node in caught if isinstance(node, ast.Name)}
    return bool(names & {"ImportError", "Exception", "BaseException", "ModuleNotFoundError"})


def unguarded(source: str) -> list[int]:
    """Return the lines of a file's imports whose failure is caught, but in which Ctrl-C is not held back."""
    return [
        statement.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Try) and catches_import_errors(node)
        for statement in node.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]


def test_every_import_whose_failure_is_caught_is_whole() -> None:
    # The process's entry ends at once where Ctrl-C comes in its imports.
    files = [
        p
        for package in ("primitives", "harness")
        for p in (ROOT / package).rglob("*.py")
        if p.name != "__main__.py"
    ]
    assert len(files) > 100
    found = {(str(path.relative_to(ROOT)), line) for path in files for line in unguarded(path.read_text())}
    assert not found, "put these into `with whole_imports():`"
    assert unguarded("try:\n    import x\nexcept ImportError:\n    pass") == [2]
