"""Builds PufferLib 3.0.0 from its source distribution. Run it with the Python of this baseline's virtual environment.

pip alone cannot build it. Its `setup.py` downloads archives for web browsers and Box2D from outside the package
registry. If it is told to leave out the C environments (`NO_OCEAN=1`), it fails with an undefined name. The archives
are not needed for what is built here, with the library's own flags: the trainer with its C++ kernel, and the C
environment of the cart-pole. Three of that environment's constants are set to those of CartPole-v1, the workload's
environment; its arithmetic is not changed.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

VERSION = "3.0.0"
SOURCE = f"pufferlib-{VERSION}"
KEPT = "cartpole"
UNUSED = ("raylib-5.5_webassembly", "box2d-web", "box2d-linux-amd64")
HEADER = f"pufferlib/ocean/{KEPT}/{KEPT}.h"
CHANGES = (
    (HEADER, "#define MAX_STEPS 200", "#define MAX_STEPS 500"),
    (HEADER, "* 0.08f - 0.04f", "* 0.1f - 0.05f"),
    (HEADER, "env->rewards[0] = done ? 0.0f : 1.0f", "env->rewards[0] = 1.0f"),
    # It trains on the CPU here, also where CUDA's compiler is installed.
    ("setup.py", 'shutil.which("nvcc")', "None"),
    # Importing it would leave a link in the current folder.
    ("pufferlib/__init__.py", "os.symlink(link_to, 'resources')", "pass"),
    ("pufferlib/pufferl.py", 'shutil.which("nvcc")', "None"),
)


def pip(*arguments: str, **variables: str) -> None:
    """Run pip with these arguments, and with `variables` added to the environment variables."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, env=os.environ | variables)


def source(folder: Path) -> Path:
    """Download the source distribution into `folder`, unpack it there, and return the folder of the source."""
    # pip reads the metadata of what it downloads by running setup.py, which needs the missing name.
    shim = folder / "shim"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text("import builtins\n\nbuiltins.c_extension_paths = []\n")
    only = ("--no-deps", "--no-build-isolation", "--no-binary", "pufferlib")
    wanted = ("download", "--quiet", *only, "--dest", str(folder), f"pufferlib=={VERSION}")
    pip(*wanted, PYTHONPATH=str(shim), NO_OCEAN="1", NO_TRAIN="1")
    with tarfile.open(folder / f"{SOURCE}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / SOURCE


def prepare(tree: Path) -> None:
    """Change the unpacked source so that it builds the trainer for the CPU, and of the C environments the cart-pole.

    The cart-pole gets the constants of CartPole-v1.

    Raises:
        ValueError: the source is not the expected one.
    """
    for name in UNUSED:  # setup.py downloads what it does not find
        (tree / name).mkdir(exist_ok=True)
    for binding in (tree / "pufferlib" / "ocean").rglob("binding.c"):
        if binding.parent.name != KEPT:
            binding.unlink()
    for name, original, wanted in CHANGES:
        text = (tree / name).read_text()
        if original not in text:
            raise ValueError(f"{name}: found no {original!r}; allowed: the source of {VERSION}")
        (tree / name).write_text(text.replace(original, wanted))


def main() -> None:
    """Download PufferLib's source, prepare it, build it and install it."""
    with TemporaryDirectory() as name:
        tree = source(Path(name))
        prepare(tree)
        pip("install", "--quiet", "--no-deps", "--no-build-isolation", str(tree))


if __name__ == "__main__":
    main()
