"""The build takes Box2D's source only as it is pinned, and runs nothing of another one."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.limits import LIMIT_S

ROOT = Path(__file__).parent.parent
PROJECT = f"cmake_minimum_required(VERSION 3.25)\nproject(build LANGUAGES NONE)\ninclude({ROOT}/cmake/box2d.cmake)\n"
NAME = "box2d-py-2.3.8"
FETCHED = Path("build", "box2d", f"{NAME}.tar.gz")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the package index, for pip."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    folder = tmp_path / "index"
    folder.mkdir()
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(folder)), ("CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(f"PIP_{name}", value)
    return folder


def configured(folder: Path, *options: str) -> tuple[int, str]:
    """Configure a project that includes the file; return the exit code, and what was said without its line breaks."""
    (folder / "CMakeLists.txt").write_text(PROJECT)
    command = ["cmake", "-S", folder, "-B", folder / "out", f"-DPython_EXECUTABLE={sys.executable}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, " ".join(done.stderr.split())


def test_another_source_is_refused_before_any_of_it_runs(index: Path, tmp_path: Path) -> None:
    ran, source = tmp_path / "ran", index / f"{NAME}.tar.gz"
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: box2d-py\nVersion: 2.3.8\n",
        "setup.py": f"open({str(ran)!r}, 'w')\n",
    }
    with tarfile.open(source, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{NAME}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    code, said = configured(tmp_path)
    assert code
    assert f"found SHA-256 {hashlib.sha256(source.read_bytes()).hexdigest()}; allowed: bdacfbbc" in said
    assert not ran.exists()
    assert not (tmp_path / FETCHED).exists()


def test_without_an_index_the_build_goes_on_without_a_source_of_another_hash(
    index: Path, tmp_path: Path
) -> None:
    left = tmp_path / FETCHED
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of an interrupted download")
    code, said = configured(tmp_path)
    assert not code, said
    assert "Without LunarLander: the source of Box2D could not be fetched" in said
    assert not left.exists()


def test_a_file_of_the_user_s_is_checked_and_kept(index: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.tar.gz"
    own.write_bytes(b"another file")
    code, said = configured(tmp_path, f"-DPLACERL_BOX2D_ARCHIVE={own}")
    assert code
    assert f"{own}: found SHA-256 {hashlib.sha256(b'another file').hexdigest()}; allowed: bdacfbbc" in said
    assert own.exists()
    assert configured(tmp_path, "-DPLACERL_BOX2D=OFF")[0] == 0
