"""A choice by measurement: made once, kept, and measured again where the cache holds nothing of use."""

import json
from pathlib import Path

import pytest

from placerl.primitives import disk_cache
from placerl.primitives.measured_choice import measured_choice, processor

ALLOWED = (range(4), (256, 512))


class Measurement:
    """Counts how often something is measured."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> tuple[int, int]:
        self.count += 1
        return 3, 512


def choose(measure: Measurement, part: str = "a") -> tuple[int, ...]:
    return measured_choice("kinds", (part,), measure, ALLOWED)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "kinds"


def test_measures_once_for_each_key(folder: Path) -> None:
    measure = Measurement()
    assert choose(measure) == choose(measure) == (3, 512)
    assert measure.count == 1
    choose(measure, "b")
    assert measure.count == 2


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[3]", "[3, 100]", "[true, 512]", '["3", 512]', "7", "\x00\xff"]
)
def test_measures_again_what_is_corrupt(folder: Path, text: str) -> None:
    measure = Measurement()
    choose(measure)
    (path,) = folder.glob("*.json")
    path.write_text(text, encoding="latin-1")
    assert choose(measure) == (3, 512)
    assert measure.count == 2
    assert json.loads(path.read_text()) == [3, 512]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(disk_cache.CACHE_VARIABLE, str(tmp_path / "file"))
    measure = Measurement()
    assert choose(measure) == choose(measure) == (3, 512)
    assert measure.count == 2


def test_processors_differ_by_family_and_not_by_clock(tmp_path: Path) -> None:
    def described(family: int, clock: int) -> str:
        path = tmp_path / "cpuinfo"
        path.write_text(f"model name\t: EPYC\ncpu family\t: {family}\ncpu MHz\t: {clock}\n\nprocessor\t: 1\n")
        return processor(path)

    assert described(25, 3000) == described(25, 2000) != described(26, 3000)
    assert processor(tmp_path / "missing")


def test_processors_of_arm_differ_by_their_part(tmp_path: Path) -> None:
    def described(part: str, speed: str) -> str:
        path = tmp_path / "cpuinfo"
        path.write_text(f"processor\t: 0\nBogoMIPS\t: {speed}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n")
        return processor(path)

    assert described("0xd0c", "243.75") == described("0xd0c", "50.00") != described("0xd40", "243.75")
