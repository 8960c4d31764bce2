"""Completion of command lines in a shell, as bash asks for it."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from placerl.harness import papers, workloads
from placerl.harness.cli import completion
from placerl.harness.cli.app import app, commands
from placerl.harness.mapping import Mapping, roofline
from placerl.harness.plan.tiers import TIERS
from placerl.primitives.fpga.tools.blocks import BLOCKS
from placerl.primitives.quantization.precision import OTHER_PRECISIONS
from tests.limits import LIMIT_S

HEAVY = {"numpy", "pandas", "torch", "pyopencl", "sqlite3", "psutil", "placerl.harness.mapping"}


def environment(line: str) -> dict[str, str]:
    """Return what bash tells a program that is to complete a line."""
    return {"_PLACERL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}


def completed(line: str) -> list[str]:
    return CliRunner().invoke(app, [], env=environment(line), prog_name="placerl").stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("placerl re", [name for name in commands() if name.startswith("re")]),
        ("placerl map hopper", [name for name in workloads.names() if name.startswith("hopper")]),
        ("placerl map --bat", ["--batch-size"]),
        ("placerl map hopper-ddpg --platform map", ["map-tpds23"]),
        ("placerl map hopper-ddpg --precision fixed", ["fixed32", "fixed16"]),
        ("placerl run hopper-ddpg --mapping native-nat", ["native-native-cpu"]),
        ("placerl rtl fi", ["fixar"]),
        ("placerl claims --only FIX-F7", ["FIX-F7", "FIX-F7-sweep"]),
        ("placerl export --claim PRL-F9", ["PRL-F9"]),
        ("placerl reproduce --tier st", ["standard"]),
        ("placerl bench train", ["training"]),
    ],
)
def test_words_are_completed(line: str, words: list[str]) -> None:
    assert words
    assert completed(line) == words


def test_names_are_those_of_what_they_name() -> None:
    assert completion.workloads() == list(workloads.names())
    assert completion.platforms() == list(roofline.platforms())
    assert completion.blocks() == list(BLOCKS)
    assert completion.claims() == sorted(claim.key for claim in papers.claims())
    assert tuple(TIERS) == completion.TIERS
    assert completion.OTHER_PRECISIONS == OTHER_PRECISIONS
    for mapping in completion.mappings():
        Mapping.parse(mapping)


PROGRAM = """
import os, sys
from contextlib import suppress
from placerl.harness.cli.app import app
for environment in {environments}:
    os.environ |= environment
    with suppress(SystemExit):
        app(prog_name="placerl")
print(*sys.modules, file=sys.stderr)
"""


def test_a_tab_loads_nothing_heavy() -> None:
    lines = (
        "placerl map ho", "placerl map hopper-ddpg --platform p", "placerl profile ho", "placerl rtl f",
        "placerl claims --only F", "placerl reproduce --only F",
    )  # fmt: skip
    program = PROGRAM.format(environments=[environment(line) for line in lines])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert {"hopper-ddpg", "pal21", "fixar", "FIX-F7"} <= set(done.stdout.split())
    assert not set(done.stderr.split()) & HEAVY
