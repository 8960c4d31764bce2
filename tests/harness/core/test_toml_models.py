import os

import pytest
from pydantic import Field

from placerl.harness.core.errors import UserError
from placerl.harness.core.toml_models import LARGEST_FILE_BYTES, TomlTable, check, parse_toml, read_toml


class Inner(TomlTable):
    size: int = Field(ge=1, description="units")


class Outer(TomlTable):
    inner: Inner
    items: tuple[Inner, ...] = ()
    rate: float = 1.0


def refused(tables):
    with pytest.raises(UserError) as caught:
        check(Outer, tables, "file.toml")
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ({"inner": {"size": 0}}, "inner.size: found 0; allowed: greater than or equal to 1"),
        (
            {"inner": {"size": 1}, "items": [{"size": "x"}]},
            "items[0].size: found 'x'; allowed: a valid integer",
        ),
        ({"inner": {"size": 1.0}}, "inner.size: found 1.0; allowed: a valid integer"),
        ({"inner": {"size": True}}, "inner.size: found True; allowed: a valid integer"),
        ({"inner": {}}, "inner.size: found nothing; allowed: units (required)"),
        ({"inner": {"size": 1, "sise": 2}}, "inner.sise: found 2; allowed: the fields size"),
        (
            {"inner": {"size": 1}, "items": [{"size": 1, "x": 2}]},
            "items[0].x: found 2; allowed: the fields size",
        ),
        ({"inner": {"size": 1}, "rate": float("nan")}, "rate: found nan; allowed: a finite number"),
        ({"inner": []}, "inner: found a list of 0"),
        ([], "file.toml: file: found a list of 0"),
    ],
)
def test_the_first_wrong_field_is_named(tables, line):
    assert line in refused(tables)


def test_arrays_become_tuples_and_integers_floats():
    made = check(Outer, {"inner": {"size": 1}, "items": [{"size": 2}], "rate": 2}, "file.toml")
    assert made.items[0].size == 2
    assert isinstance(made.rate, float)


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"a = 1\nb = = 2", "line 2, column 5"),
        (b"a = ", "end of document"),
        (b"a = 1\na = 2", "Cannot overwrite"),
        (b"a = \xff", "byte 4: found no UTF-8"),
        (b"a = " + b"[" * 100_000, "nested"),
        (b"a = " + b"9" * 10_000, "digits"),
    ],
)
def test_malformed_toml_says_where(content, where):
    with pytest.raises(UserError, match=where) as caught:
        parse_toml(content, "file.toml")
    assert str(caught.value).startswith("file.toml: ")
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_file_of_reasonable_size_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * (LARGEST_FILE_BYTES + 1))
    (tmp_path / "largest").write_bytes(b"#" * LARGEST_FILE_BYTES)
    for name, found in {
        "none": "no such file",
        "": "not a regular file",
        "pipe": "not a regular file",
        "large": "more than",
        "a\0b": "no such file",
        "x" * 300: "too long",
    }.items():
        with pytest.raises(UserError, match=found):
            read_toml(tmp_path / name)
    assert read_toml(tmp_path / "largest") == {}
