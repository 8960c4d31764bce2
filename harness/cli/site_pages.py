"""Writes the fields of workloads' and platforms' files, and CONTRIBUTING.md, into pages when the site is built.

A hook of MkDocs (`mkdocs.yml` names this file): the tables come from the models that read the files.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from placerl.harness.core.toml_models import TomlTable
from placerl.harness.platforms import PlatformFile
from placerl.harness.workloads import Workload

_ROOT = Path(__file__).resolve().parents[2]
_FILES: dict[str, type[TomlTable]] = {"workload": Workload, "platform": PlatformFile}
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "pattern": "matching"}
_HEADER = ("| field | value | default | meaning |", "|---|---|---|---|")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page's text with tables and files in their places; MkDocs calls it with each page."""
    for name, model in _FILES.items():
        place = f"<!-- the fields of a {name}'s file -->"
        if place in markdown:
            markdown = markdown.replace(place, "\n\n".join(tables(model)))
    if (place := "<!-- CONTRIBUTING.md -->") in markdown:
        text = (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
        markdown = markdown.replace(place, text)
    return markdown


def tables(model: type[TomlTable]) -> Iterator[str]:
    """Yield the fields of a file and of each table in it, in Markdown."""
    schema = model.model_json_schema()
    for name, table in {schema["title"]: schema, **schema.get("$defs", {})}.items():
        if "properties" in table:
            rows = [
                _row(field, of, field in table.get("required", ()))
                for field, of in table["properties"].items()
            ]
            yield "\n".join([f"### {name}", "", *_HEADER, *rows])


def _row(field: str, stated: Mapping[str, Any], required: bool) -> str:
    default = "" if required or stated.get("default") in (None, "") else f"`{stated['default']}`"
    meaning = str(stated.get("description", "")).replace("|", "\\|")
    return f"| `{field}` | {_value(stated)} | {'required' if required else default} | {meaning} |"


def _value(stated: Mapping[str, Any]) -> str:
    """Return what a field may hold, as text: a type with its limits, values, or the name of a table."""
    if "$ref" in stated:
        return str(stated["$ref"]).rpartition("/")[2]
    if "anyOf" in stated:
        return " or ".join(_value(one) for one in stated["anyOf"] if one.get("type") != "null")
    if "enum" in stated:
        return ", ".join(f"`{one}`" for one in stated["enum"])
    inner = stated.get("items")
    kind = f"list of {_value(inner)}" if isinstance(inner, dict) else str(stated.get("type", "any"))
    limits = [f"{word} `{stated[key]}`".replace("|", "\\|") for key, word in _LIMITS.items() if key in stated]
    return ", ".join([kind, *limits])
