"""Loads one module from the source of a mutant, in this process and in every Python process that it starts.

Python imports a module of this name when it starts, so that the folder of this file in PYTHONPATH is all it takes. The
files of the checkout stay as they are.
"""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import CodeType

MODULE, FILE, SOURCE = "PLACERL_MUTANT_MODULE", "PLACERL_MUTANT_FILE", "PLACERL_MUTANT_SOURCE"


class _Mutant(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compile the mutant, so that no cached bytecode is read or written."""
        return compile(Path(os.environ[SOURCE]).read_text(), self.path, "exec")


class _Finder:
    @staticmethod
    def find_spec(
        name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != os.environ[MODULE]:
            return None
        file = os.environ[FILE]
        folders = [str(Path(file).parent)] if Path(file).name == "__init__.py" else None
        loader = _Mutant(name, file)
        return importlib.util.spec_from_file_location(
            name, file, loader=loader, submodule_search_locations=folders
        )


if MODULE in os.environ:
    sys.meta_path.insert(0, _Finder())  # before the finder of an editable installation
