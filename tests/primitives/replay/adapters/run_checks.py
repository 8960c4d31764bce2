"""Runs checks in a library's own environment, where there is no pytest: files of functions `check_*`.

    PYTHONPATH=<folder that contains primitives> baselines/<name>/.venv/bin/python -P run_checks.py <files>

Each line of standard input is {"check": name, "arguments": {...}}; each line of standard output answers it with
{"failure": traceback}, which is empty if the check passed.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path


def main():
    """Answer the requests of standard input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must go to standard error
    paths = [Path(name) for name in sys.argv[1:]]
    # A file of checks imports its neighbours; pickle finds its classes by its name.
    sys.path[:0] = [str(Path(__file__).parent), *(str(path.parent) for path in paths)]
    checks = {}
    for path in paths:
        checks |= vars(importlib.import_module(path.stem))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            checks[request["check"]](**request["arguments"])
            failure = ""
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps({"failure": failure}), file=answers, flush=True)


if __name__ == "__main__":
    main()
