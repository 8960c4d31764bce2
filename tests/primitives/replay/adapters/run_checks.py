"""Runs checks in a library's own environment, where there is no pytest: a file of functions `check_*`.

    PYTHONPATH=<folder that contains primitives> baselines/<name>/.venv/bin/python -P run_checks.py <file>

Each line of standard input is {"check": name, "arguments": {...}}; each line of standard output answers it with
{"failure": traceback}, which is empty if the check passed.
"""

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path


def main():
    """Answer the requests of standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must go to standard error
    path = Path(sys.argv[1])
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # pickle finds the file's classes there
    spec.loader.exec_module(module)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            getattr(module, request["check"])(**request["arguments"])
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps({"failure": failure}), file=answers, flush=True)


if __name__ == "__main__":
    main()
