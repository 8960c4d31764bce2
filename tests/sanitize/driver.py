"""Runs everything in the C++ extensions that releases the interpreter's lock, from several Python threads at once.

    LD_PRELOAD=$(gcc -print-file-name=libtsan.so) python -m tests.sanitize.driver build/sanitize-thread [PART ...]

Takes the extensions from a build with sanitizers (`make sanitize` says how each is run), whose runtime must be
preloaded, and fails where a place that releases the lock was not reached. The interpreter itself is not instrumented:
what is reported lies in this project's code, and nothing is suppressed.
"""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
EXTENSIONS = ("placerl.primitives._native", "placerl.harness._experiments")
RELEASE = "gil_scoped_release"
"""What a place in the sources that releases the lock is found by."""


def load(folder: Path) -> list[ModuleType]:
    """Import the extensions of a build in the place of the installed ones, and return them."""
    loaded = []
    for name in EXTENSIONS:
        package, _, own = name.rpartition(".")
        (path,) = folder.glob(f"{own}.*.so")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        setattr(importlib.import_module(package), own, module)
        loaded.append(module)
    return loaded


def sources() -> set[str]:
    """Return every place in the sources that releases the lock, as `file:line`."""
    found = set()
    for package in ("primitives", "harness"):
        for path in sorted((ROOT / package).rglob("*.[ch]pp")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if RELEASE in line and "//" not in line.partition(RELEASE)[0]:
                    found.add(f"{path.relative_to(ROOT)}:{number}")
    return found


def main() -> None:
    """Run the parts that the arguments name, or all of them."""
    sys.setswitchinterval(1e-4)  # threads change places often
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="folder of a build with sanitizers")
    parser.add_argument(
        "part", nargs="*", help="parts to run; without one, all, and every release must be reached"
    )
    asked = parser.parse_args()
    extensions = load(asked.build)
    from tests.sanitize import parts, reached

    for name, part in parts.PARTS.items():
        if not asked.part or name in asked.part:
            print(f"{name} ...", flush=True)
            part()
    places = {place for extension in extensions for place in reached.places(extension)}
    missing = sources() - places
    print(
        f"{asked.build.name}: "
        f"{len(places)} of {len(sources())} places that release the interpreter's lock were reached"
    )
    if not asked.part and missing:
        sys.exit("not reached, add them to tests/sanitize/parts.py: " + ", ".join(sorted(missing)))


if __name__ == "__main__":
    main()
