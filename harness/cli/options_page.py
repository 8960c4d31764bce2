"""Writes the options of every command into the page `docs/options.md`, when the site of the pages is built.

A hook of MkDocs (`mkdocs.yml` names this file): the tables come from what `--help` prints, and cannot differ from it.
"""

from collections.abc import Iterator
from typing import Any

from typer.main import get_group

from placerl.harness.cli.app import app

PLACE = "<!-- the options of every command -->"
"""The line of a page that the tables replace."""
_HEADER = ("| option | meaning | default, range |", "|---|---|---|")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with the tables in their place; MkDocs calls it with each page."""
    return markdown.replace(PLACE, "\n\n".join(sections())) if PLACE in markdown else markdown


def sections() -> Iterator[str]:
    """Yield a section in Markdown for each command of `placerl`, and for the commands of its groups."""
    root: Any = get_group(app)
    for name in root.list_commands(None):
        root.load(name)
    yield from _subcommands(root, root.make_context("placerl", ["--"], resilient_parsing=True), depth=2)


def _subcommands(group: Any, context: Any, depth: int) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = type(context)(command, info_name=name, parent=context)
        yield _section(command, inner, depth)
        if hasattr(command, "list_commands"):
            yield from _subcommands(command, inner, depth + 1)


def _section(command: Any, context: Any, depth: int) -> str:
    """Return what a command does, an example, how it is called, and its options."""
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    heading = f"{'#' * depth} {context.command_path.removeprefix('placerl ')}"
    parts = (heading, command.help, command.epilog, f"```text\n{usage}\n```", options_table(command, context))
    return "\n\n".join(part for part in parts if part)


def options_table(command: Any, context: Any) -> str:
    """Return the arguments and options of a command as a table in Markdown; empty if it has none."""
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [_row(*record) for record in records if record]
    return "\n".join([*_HEADER, *rows]) if rows else ""


def _row(names: str, text: str) -> str:
    """Return a row; `text` ends with the default and the range in brackets where an option has some."""
    meaning, _, limits = text.rpartition("[") if text.endswith("]") else (text, "", "")
    meaning = meaning.strip().replace("|", r"\|")  # in code, as the names are, a bar ends no cell
    return f"| `{names}` | {meaning} | {limits.removesuffix(']')} |"
