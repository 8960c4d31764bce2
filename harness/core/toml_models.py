"""Reads TOML files from untrusted sources into validated models, and reports a fault as one `UserError`.

A file is only data, never code: the standard library parses it, its size is limited, and pydantic checks every
field.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from placerl.harness.core.errors import UserError, closest

LARGEST_FILE_BYTES = 256 * 1024
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
"""Pydantic's names for the error that a field is unknown: of a model, and of a dataclass."""
_POSITION = re.compile(r"^(.*) \(at (line \d+, column \d+|end of document)\)$", re.DOTALL)
_QUOTED = re.compile(r"'([^']+)'")
_FOUND_ALLOWED = re.compile(
    r"^(?P<field>[\w.]+)[^:]*: found (?P<found>.*); allowed: (?P<allowed>.*)$", re.DOTALL
)


class TomlTable(BaseModel):
    """The base class of models for TOML tables.

    A table is immutable. It may have no unknown fields, its values are not converted between types, and its numbers
    are finite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


_T = TypeVar("_T", bound=BaseModel)


def refusal(field: str, found: object, allowed: str) -> PydanticCustomError:
    """Return the error that a validator raises if fields of a table contradict each other.

    Args:
        field: full path of the wrong field (`replay.capacity`).
        found: the value found, in words or as written in the file.
        allowed: what is allowed there.
    """
    return PydanticCustomError(
        "contradiction",
        "{allowed}",
        {"at": field, "found": found if isinstance(found, str) else _shown(found), "allowed": allowed},
    )


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file as nested dicts, lists and scalars.

    Raises:
        UserError: the file is missing, not a regular file, too large, not UTF-8, or not TOML (with line and
            column).
    """
    try:
        if not path.is_file():
            found = "no such file" if not path.exists() else "not a regular file"
            raise UserError(path, "file", found, "a readable TOML file")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(path, "file", error, "a readable TOML file") from error
    if len(content) > LARGEST_FILE_BYTES:
        raise UserError(
            path, "file", f"more than {LARGEST_FILE_BYTES} bytes", f"at most {LARGEST_FILE_BYTES} bytes"
        )
    return parse_toml(content, path)


def parse_toml(content: bytes, source: object) -> dict[str, Any]:
    """Return the tables of TOML text as nested dicts, lists and scalars.

    Raises:
        UserError: the text is not valid TOML; the message names the source, line and column.
    """
    try:
        return tomllib.loads(content.decode())
    except RecursionError as error:
        raise UserError(source, "file", "too many nested brackets", "TOML as in the shipped files") from error
    except UnicodeDecodeError as error:
        raise UserError(source, f"byte {error.start}", "no UTF-8", "TOML, which is UTF-8 text") from error
    except ValueError as error:  # TOMLDecodeError, or an integer of thousands of digits
        position = _POSITION.match(str(error))
        found, where = position.groups() if position else (str(error), "file")
        raise UserError(source, where, found, "TOML") from error


def check(model: type[_T], tables: Any, source: object) -> _T:
    """Check tables against a model, and return them as an instance of it.

    Raises:
        UserError: a field is wrong, missing or unknown; the message gives the path of the first one.
    """
    try:
        # JSON is used because its strict mode forbids conversions but still turns an array into a tuple.
        return model.model_validate_json(json.dumps(tables, default=str))
    except ValidationError as error:
        raise first_error(model, error, source) from error
    except (RecursionError, ValueError, TypeError) as error:
        raise UserError(source, "file", error, "tables of numbers, text and lists") from error


def first_error(model: type[Any], error: ValidationError, source: object) -> UserError:
    """Return the first fault that pydantic found as an error of one line."""
    errors = error.errors(include_url=False)
    # A misspelt field is reported before the field that is missing because of it.
    misspelt = (one for one in errors if one["type"] in _UNKNOWN and _meant(model, one))
    details = next(misspelt, errors[0]) if errors[0]["type"] == "missing" else errors[0]
    path = _path(details["loc"])
    context = details.get("ctx", {})
    if "at" in context:
        return UserError(source, context["at"], context["found"], context["allowed"])
    # A check outside pydantic names its own argument: "gamma: found 2; allowed: ..."
    named = _FOUND_ALLOWED.match(str(context.get("error", "")))
    if named:
        field = ".".join(part for part in (path, named["field"]) if part)
        return UserError(source, field, named["found"], named["allowed"])
    found = "nothing" if details["type"] == "missing" else _shown(details["input"])
    *parents, last = details["loc"] or ("",)
    known = _fields_at(model, parents)
    allowed = _allowed(known, details, str(last))
    if details["type"] in _UNKNOWN:
        return UserError(source, path, found, allowed, name=last, names=known)
    return UserError(source, path or "file", found, allowed, names=_QUOTED.findall(allowed))


def _meant(model: type[Any], details: ErrorDetails) -> str:
    """Return the field that an unknown field was probably meant to be."""
    *parents, last = details["loc"]
    return closest(last, _fields_at(model, parents))


def _allowed(known: dict[str, str], details: ErrorDetails, name: str) -> str:
    """Return what a field of that name may hold, among the fields known there."""
    if details["type"] in _UNKNOWN:
        return f"the fields {', '.join(known)}"
    rule = str(details["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    description = known.get(name, "")
    return f"{description} (required)" if details["type"] == "missing" and description else rule


def _fields_at(model: type[Any], path: list[int | str]) -> dict[str, str]:
    """Return names and descriptions of the fields of the table at `path`."""
    for part in path:
        if isinstance(part, int):
            continue
        known = model.__pydantic_fields__
        annotation = known[part].annotation if part in known else None
        candidates = [annotation, *getattr(annotation, "__args__", ())]
        model = next((c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)), TomlTable)
    return {name: info.description or "" for name, info in model.__pydantic_fields__.items()}


def _path(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in location).removeprefix(".")


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}"
    return repr(value)
