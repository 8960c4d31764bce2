import re
import subprocess

import pytest

from placerl.harness.core.revision import CodeWatch, revision


def git(folder, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "-m", "all")


@pytest.fixture
def working_copy(tmp_path):
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("1\n")
    (tmp_path / ".gitignore").write_text("ignored\n")
    commit(tmp_path)
    return tmp_path


def test_clean_working_copy_is_its_commit(working_copy):
    assert re.fullmatch(r"[0-9a-f]{40}", revision(working_copy))
    (working_copy / "ignored").write_text("x")
    assert re.fullmatch(r"[0-9a-f]{40}", revision(working_copy))


def test_uncommitted_changes_have_their_own_hash(working_copy):
    (working_copy / "a.py").write_text("2\n")
    changed = revision(working_copy)
    (working_copy / "new.py").write_text("3\n")
    with_new = revision(working_copy)
    (working_copy / "new.py").write_text("4\n")
    with_other_new = revision(working_copy)
    assert len({changed, with_new, with_other_new}) == 3
    assert all(re.fullmatch(r"[0-9a-f]{40}\+[0-9a-f]{12}", r) for r in (changed, with_new, with_other_new))
    assert revision(working_copy) == with_other_new


def test_results_in_the_working_copy_are_no_changes_of_the_code(working_copy):
    clean = revision(working_copy)
    (working_copy / "out" / "report").mkdir(parents=True)
    (working_copy / "out" / "report" / "index.html").write_text("1\n")
    assert revision(working_copy) != clean, "there is no store yet: it could be anything"
    (working_copy / "out" / "placerl.sqlite").write_text("1\n")
    assert revision(working_copy) == clean
    (working_copy / "out" / "papers").mkdir()
    (working_copy / "out" / "papers" / "a.csv").write_text("1\n")
    git(working_copy, "add", "out/papers")
    git(working_copy, "commit", "-m", "a table")
    committed = revision(working_copy)
    assert "+" not in committed
    (working_copy / "out" / "papers" / "b.csv").write_text("1\n")
    assert revision(working_copy) != committed, "it is read like the committed file beside it"


def test_a_store_at_the_top_hides_no_code(working_copy):
    (working_copy / "placerl.sqlite").write_text("1\n")
    before = revision(working_copy)
    (working_copy / "new.py").write_text("1\n")
    assert revision(working_copy) != before


def test_outside_git_it_is_the_version(working_copy, tmp_path_factory):
    assert re.fullmatch(r"placerl-\d.*", revision(tmp_path_factory.mktemp("plain")))
    inner = working_copy / "site-packages"  # inside somebody else's working copy
    inner.mkdir()
    assert revision(inner).startswith("placerl-")


def test_an_edit_of_the_code_is_noticed_until_it_is_taken_back(working_copy):
    (working_copy / "a.py").write_text("2\n")
    watch = CodeWatch(working_copy)
    assert not watch.changed()
    (working_copy / "a.py").write_text("3\n")
    assert watch.changed()
    (working_copy / "a.py").write_text("2\n")
    assert not watch.changed()
    (working_copy / "a.py").unlink()
    assert watch.changed()


def test_a_commit_is_noticed_only_if_it_changes_the_code(working_copy):
    (working_copy / "a.py").write_text("2\n")
    watch = CodeWatch(working_copy)
    commit(working_copy)
    assert not watch.changed()
    (working_copy / "b.py").write_text("3\n")
    assert not watch.changed(), "it may be a log of the run"
    commit(working_copy)
    assert watch.changed()


def test_code_without_a_working_copy_of_its_own_is_not_watched(working_copy, tmp_path):
    inner = working_copy / "installed"
    inner.mkdir()
    for folder in (inner, tmp_path / "none"):
        watch = CodeWatch(folder)
        (working_copy / "a.py").write_text(f"{folder}\n")
        assert not watch.changed()
