"""Files that people send: JSON that states its schema and the hash of its own content, read without trust."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field

from placerl.harness.core.errors import UserError
from placerl.harness.core.files import write_atomically
from placerl.harness.core.toml_models import TomlTable, check

_FORMAT = re.compile(rb'"format":\s*"([\w-]{1,40})"')


def content_hash(content: Any) -> str:
    """Return the SHA-256, as 64 hexadecimal digits, of data that JSON can hold; the order of keys does not matter."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class SentFile(TomlTable):
    """The base class of files that people send.

    Attributes:
        format: name and version of the schema, such as "placerl-card-1".
        hash: SHA-256 of everything else in the file.
    """

    format: str = Field(description="name and version of the schema")
    hash: str = Field(default="", description="SHA-256 of everything else in the file")

    FORMAT: ClassVar[str]
    LARGEST_BYTES: ClassVar[int]

    def content_hash(self) -> str:
        """Return the hash that the file should state."""
        return content_hash(self.model_dump(mode="json", exclude={"hash"}))

    def sealed(self) -> Self:
        """Return a copy that states the hash of its content."""
        return self.model_copy(update={"hash": self.content_hash()})

    def write(self, path: Path) -> None:
        """Write the file, with the hash of its content.

        Raises:
            UserError: the folder cannot be written, or the file would be larger than `LARGEST_BYTES`.
        """
        text = json.dumps(self.sealed().model_dump(mode="json"), indent=1, allow_nan=False) + "\n"
        if len(text) > self.LARGEST_BYTES:
            raise UserError(path, "file", f"{len(text)} bytes", f"at most {self.LARGEST_BYTES} bytes")
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the content of a file, once its size, version, hash and every field are checked.

        Raises:
            UserError: the file is missing, too large or no JSON, is of another version, was edited, or a field is
                wrong; the message names it.
        """
        tables = _json(path, cls.LARGEST_BYTES)
        if not isinstance(tables, dict):
            raise UserError(path, "file", f"a {type(tables).__name__}", "a JSON object")
        if tables.get("format") != cls.FORMAT:
            raise UserError(path, "format", repr(tables.get("format", "nothing")), cls.FORMAT)
        stated, content = tables.get("hash"), {key: tables[key] for key in tables if key != "hash"}
        if stated != content_hash(content):
            raise UserError(path, "hash", repr(stated), "that of the content: the file was edited")
        return check(cls, tables, path)


def format_of(path: Path, largest_bytes: int) -> str:
    """Return the name and version of the schema that a file states; empty if it states none.

    Raises:
        UserError: the file is missing, larger than `largest_bytes`, or no JSON.
    """
    tables = _json(path, largest_bytes)
    return str(tables.get("format", "")) if isinstance(tables, dict) else ""


def _json(path: Path, largest_bytes: int) -> Any:
    """Return the content of a JSON file.

    Raises:
        UserError: it is missing, no regular file, too large, or no JSON with finite numbers.
    """
    try:
        if not path.is_file():
            found = "no such file" if not path.exists() else "not a regular file"
            raise UserError(path, "file", found, "a readable JSON file")
        with path.open("rb") as file:
            content = file.read(largest_bytes + 1)
    except OSError as error:
        raise UserError(path, "file", error, "a readable JSON file") from error
    if len(content) > largest_bytes:
        stated = _FORMAT.search(content)
        of_format = f" of {stated[1].decode()}" if stated else ""
        raise UserError(
            path, "file", f"more than {largest_bytes} bytes{of_format}", f"at most {largest_bytes} bytes"
        )

    def refuse(constant: str) -> None:
        raise UserError(path, "number", constant, "finite numbers")

    try:
        tables = json.loads(content, parse_constant=refuse)
        content_hash(tables)  # 1e999 is read as infinity
    except (ValueError, RecursionError) as error:
        raise UserError(path, "file", error, "JSON with finite numbers") from error
    return tables
