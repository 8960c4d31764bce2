"""What README, CONTRIBUTING and docs show is run as it stands: Python in full, commands as far as their arguments."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.exceptions import TyperException
from typer.main import get_group

from placerl.harness.cli.app import app, commands

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}


def fenced(language: str) -> list[tuple[str, str]]:
    """Return (page, text) of every block of a language."""
    blocks = rf"```{language}\n(.*?)```"
    return [(page, block) for page, text in TEXTS.items() for block in re.findall(blocks, text, re.DOTALL)]


PYTHON = fenced("python")
# Each block once, though two pages may show it; adapters need the other library.
OWN = [
    (page, block)
    for block, page in {block: page for page, block in PYTHON}.items()
    if "adapters" not in block
]
# The blocks of a page are one program. That of a tutorial trains for so long in a test of the runtime, which asks what
# it has learnt.
LONG_TRAINING, SHORT_TRAINING = "advance(30_000)", "advance(1_000)"
SHOWN = sorted(
    {
        (page, line.partition(" #")[0].strip())
        for page, block in fenced("sh")
        for line in block.splitlines()
        if line.startswith("placerl ")
    }
)
MENTIONED = sorted(
    {
        (page, " ".join(command.split()))
        for page, text in TEXTS.items()
        for command in re.findall(r"`(placerl\s[^`]+)`", text)
        if not re.search(r"[A-Z]{2,}|<|\bW\b", command)  # with a name to fill in
        and "--install-completion" not in command  # which is done as soon as it is read
    }
)


TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
IN_INSTALL = set(re.findall(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split(","))
NO_INDEX = {"docs/install.md", "docs/gpu.md"}
"""Pages that say where `pip install placerl[X]` works: only where the package is installed, since no index has it."""


GROUP: Any = get_group(app)


def parse(line: str) -> None:
    """Read a command line as `placerl` does, without running the command."""
    _, *arguments = shlex.split(line)
    group = GROUP
    context = group.make_context("placerl", list(arguments))
    while hasattr(group, "resolve_command") and (left := [*context._protected_args, *context.args]):
        name, group, rest = group.resolve_command(context, left)
        context = group.make_context(name, rest, parent=context)


def test_there_is_python_to_run() -> None:
    assert len(OWN) >= 3
    assert len(SHOWN) >= 20
    assert len(MENTIONED) >= 20
    assert sum(LONG_TRAINING in block for _, block in OWN) == 1


SLOW = ("docs/hardware.md",)
"""Pages whose blocks build hardware."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] * (page in SLOW))
        for page in sorted({page for page, _ in OWN})
    ],
)
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for _, block in (own for own in OWN if own[0] == page):
        exec(compile(block.replace(LONG_TRAINING, SHORT_TRAINING), page, "exec"), names)
    if "trace" in names:
        assert np.allclose(names["learner"].state()["state/weight"], [1, -2, 3], atol=1e-3)


def test_the_page_of_commands_shows_every_command() -> None:
    shown = {line.split()[1] for page, line in SHOWN if page == "docs/commands.md"}
    assert shown == set(commands())


@pytest.mark.parametrize(("page", "line"), SHOWN)
def test_a_command_takes_the_arguments_that_a_page_gives_it(page: str, line: str) -> None:
    parse(line)


@pytest.mark.parametrize(("page", "line"), MENTIONED)
def test_a_command_in_a_sentence_has_the_options_that_it_names(page: str, line: str) -> None:
    try:
        parse(line)
    except TyperException as error:
        if not error.format_message().startswith("Missing"):  # a sentence may leave the workload out
            raise


def test_a_target_in_a_block_is_one_of_the_makefile() -> None:
    lines = {line.partition(" #")[0] for _, block in fenced("sh") for line in block.splitlines()}
    made = {target for line in lines for target in re.findall(r"\bmake ([a-z-]+)", line)}
    assert {"reproduce", "test", "gpu-check"} <= made <= TARGETS


def test_pages_install_extras_that_exist_from_where_they_are() -> None:
    commands = {
        (page, command)
        for page, text in TEXTS.items()
        for command in re.findall(r"pip\s+install\b[^\n`]*", text)
    }
    assert len(commands) >= 5
    for page, command in commands:
        for target, names in re.findall(r"(\S*?)\[([a-z,]+)\]", command):
            assert set(names.split(",")) <= EXTRAS, f"{page}: {command}"
            assert "placerl" not in target or page in NO_INDEX, f"{page}: {command}"


def test_the_table_of_extras_is_the_projects() -> None:
    rows = re.findall(r"^\| (`.+?`) \| .* \| (.*) \|$", TEXTS["docs/install.md"], re.MULTILINE)
    listed = {name: said for names, said in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(listed) == EXTRAS
    assert {name for name, said in listed.items() if said == "yes"} == IN_INSTALL


def test_the_example_file_is_a_block_of_the_pages() -> None:
    _, example = (ROOT / "harness" / "examples" / "q_learning.py").read_text().split('"""\n\n', 1)
    assert example in [block for _, block in PYTHON]
