"""The file that counts the deaths of the process in each cell."""

import json
from pathlib import Path

import pytest

from placerl.harness.store.crash_marker import crash_marker


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def noted(store: Path) -> Path:
    return store.with_name(f"{store.name}-in-hand")


def die_in(store: Path, cell: str, run: str = "run") -> int:
    """Leave the file as a process leaves it that is killed in a cell; returns the deaths known before."""
    with crash_marker(store, run, cell) as deaths:
        left = noted(store).read_bytes()
    noted(store).write_bytes(left)
    return deaths


def known(store: Path, cell: str) -> int:
    return die_in(store, cell)


def test_deaths_in_a_cell_are_counted_until_it_ends(store: Path) -> None:
    assert [die_in(store, "b") for _ in range(3)] == [0, 1, 2]
    with crash_marker(store, "run", "b") as deaths:
        assert deaths == 3
    assert not noted(store).exists()
    assert known(store, "b") == 0


def test_deaths_in_one_run_are_not_counted_in_another(store: Path) -> None:
    """A later revision may have mended the cell; the earlier run may go on, too."""
    assert [die_in(store, "b") for _ in range(3)] == [0, 1, 2]
    assert [die_in(store, "b", "another") for _ in range(2)] == [0, 1]
    with crash_marker(store, "another", "b"):
        pass
    assert known(store, "b") == 3


@pytest.mark.parametrize("ends", ["well", "raises"])
def test_a_cell_that_ends_does_not_erase_the_deaths_in_another(store: Path, ends: str) -> None:
    for deaths in range(3):
        try:
            with crash_marker(store, "run", "a") as own:
                assert own == 0
                if ends == "raises":
                    raise RuntimeError("each time")
        except RuntimeError:
            pass
        assert die_in(store, "b") == deaths


def test_the_deaths_in_a_file_of_an_earlier_version_count(store: Path) -> None:
    noted(store).write_text(json.dumps({"cell": "b", "deaths": 2}))
    with crash_marker(store, "run", "a") as deaths:
        assert deaths == 0
    assert known(store, "b") == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        '{"deaths": 3}',
        '{"deaths": [1]}',
        '{"deaths": {"b": "x", "a": 1}}',
        '{"deaths": {"b": null}}',
        '{"deaths": {"b": Infinity}}',
        '{"cell": ["b"], "deaths": 2}',
        "[" * 100_000,
    ],
)
def test_no_deaths_are_known_from_a_file_with_other_content(store: Path, content: str) -> None:
    noted(store).write_text(content)
    assert known(store, "b") == 0
    assert known(store, "b") == 1


def test_a_write_that_breaks_off_keeps_the_deaths(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        die_in(store, "b")
    whole = noted(store).read_bytes()

    def breaks_off(path: Path, text: str, **_: object) -> int:
        path.write_bytes(text.encode()[:5])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", breaks_off)
    with crash_marker(store, "run", "a") as deaths:
        assert deaths == 0
        assert noted(store).read_bytes() == whole
    assert noted(store).read_bytes() == whole
    assert list(store.parent.iterdir()) == [noted(store)]
