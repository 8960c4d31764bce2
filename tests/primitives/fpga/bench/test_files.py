"""Exported blocks in the tools of the trade: from a clean export, without PlaceRL, on both simulators."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("amaranth", reason="needs the extra fpga")

from placerl.primitives.fpga.bench.files import companions
from placerl.primitives.fpga.export import verilog
from placerl.primitives.fpga.export.published import published
from placerl.primitives.fpga.host import with_axi_names
from placerl.primitives.fpga.simulation.verilator_build import verilator_program
from placerl.primitives.fpga.tools.blocks import BLOCKS, Block
from tests.primitives.fpga.bench.scaler import SCALER, recorded_values

BLOCKS_HERE = {**BLOCKS, SCALER.name: SCALER}


def export(block: Block, folder: Path, **given: str) -> str:
    """Write what `placerl rtl` writes; return the module's name."""
    module, values = block.name.replace("-", "_"), block.parameters(given)
    text = verilog.export(with_axi_names(block.make(**values)), module)
    (folder / f"{module}.v").write_text(published(text))
    for name, text in companions(block.make(**values), module, block.description, block.bench).items():
        (folder / name).write_text(text)
    return module


def fusesoc(folder: Path, module: str, target: str) -> subprocess.CompletedProcess[str]:
    """Run a core's target from a folder outside the working copy, with Verilator on the path."""
    verilator, environment = verilator_program()
    path = f"{Path(verilator).parent}:{Path(sys.executable).parent}:{environment['PATH']}"
    program = shutil.which("fusesoc", path=path) or "fusesoc"
    return subprocess.run(
        [program, "--cores-root", ".", "run", f"--target={target}", f"placerl:rtl:{module}"],
        cwd=folder,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def needs(*programs: str) -> None:
    for package in ("cocotb", "fusesoc"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package} (extra cosim)")
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")


SMALL: list[tuple[str, dict[str, str]]] = [
    ("processing-element", {}),
    ("float-operator", {"operator": "mul"}),
    ("lane-route", {}),
    ("replay-pipeline", {"fanout": "4", "levels": "2", "leaf_bits": "16"}),
    ("replay-pipeline", {"fanout": "4", "levels": "2", "leaf_bits": "16", "leaves": "9"}),
    ("scaler", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "given"), SMALL, ids=str)
def test_a_bench_passes_on_icarus_and_fails_on_another_result(
    name: str, given: dict[str, str], tmp_path: Path
) -> None:
    needs("iverilog", "make")
    module = export(BLOCKS_HERE[name], tmp_path, **given)
    done = fusesoc(tmp_path, module, "sim")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "values compared in" in done.stdout
    path = tmp_path / f"{module}_vectors.json"
    vectors = json.loads(path.read_text())
    output = next(output for output in vectors["outputs"].values() if not output["valid"])
    *values, last = recorded_values(output["values"])
    output["values"] = " ".join(f"{value:x}" for value in (*values, last ^ 1))
    path.write_text(json.dumps(vectors))
    assert fusesoc(tmp_path, module, "sim").returncode != 0


@pytest.mark.slow
def test_a_bench_passes_on_verilator(tmp_path: Path) -> None:
    needs("make", "perl", os.environ.get("CXX", "g++"))  # Verilator's wrapper is in Perl
    module = export(SCALER, tmp_path)
    done = fusesoc(tmp_path, module, "sim_verilator")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS=2 FAIL=0" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_accelerators_register_bench_passes_and_fails_on_another_reset_value(tmp_path: Path) -> None:
    needs("iverilog", "make")
    sizes = {"network": "small", "batch": "8", "fanout": "4", "levels": "2"}
    module = export(BLOCKS["map-accelerator"], tmp_path, **sizes)
    done = fusesoc(tmp_path, module, "sim")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS=1 FAIL=0" in done.stdout
    path = tmp_path / f"{module}_vectors.json"
    vectors = json.loads(path.read_text())
    next(register for register in vectors["registers"] if register["name"] == "batch")["reset"] ^= 1
    path.write_text(json.dumps(vectors))
    assert fusesoc(tmp_path, module, "sim").returncode != 0


def test_a_block_with_registers_has_their_header_and_table(tmp_path: Path) -> None:
    export(SCALER, tmp_path)
    assert "#define SCALER_FACTOR_ADDRESS 0x10u" in (tmp_path / "scaler_registers.h").read_text()
    assert "| 0x10 | 31:0 | `factor` |" in (tmp_path / "scaler_registers.md").read_text()
