"""A public class has a name of its own, in primitives and the harness together."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHARED = {
    "PrioritizedReplayBuffer": "what each library calls the class that the adapter stands for",
}
"""Names that several classes have, and why."""


def shared(root: Path) -> dict[str, list[str]]:
    """Return the files of each public top-level class whose name another one has, by name."""
    files = defaultdict(list)
    for package in ("primitives", "harness"):
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    files[node.name].append(path.relative_to(root).as_posix())
    return {name: where for name, where in files.items() if len(where) > 1}


def test_public_classes_have_names_of_their_own() -> None:
    found = shared(ROOT)
    assert {name: where for name, where in found.items() if name not in SHARED} == {}
    assert set(SHARED) <= set(found), "no longer shared: delete it"


def test_a_name_that_is_used_twice_is_found(tmp_path: Path) -> None:
    sources = {
        "primitives/a.py": "class One: ...\nclass _Own: ...\n",
        "harness/b/c.py": "class One: ...\nclass Two: ...\nclass _Own: ...\n",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert shared(tmp_path) == {"One": ["primitives/a.py", "harness/b/c.py"]}
