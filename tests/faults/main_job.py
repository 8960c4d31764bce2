"""A main job of small cells, run as a process by the tests: `main_job.py FOLDER CELL...`, each cell a word below.

A line "begun KEY" is printed as a cell begins; what a cell did is appended to FOLDER/done, a line a measurement.
"""

import os
import resource
import sys
import time
from functools import partial
from pathlib import Path

from placerl.harness.compare.protocol import Worker, WorkerJob
from placerl.harness.core.progress import silent
from placerl.harness.plan import execution
from placerl.harness.store.cell import Cell
from placerl.harness.store.rows import OtherResult
from placerl.harness.store.store import Store

MACHINE = {"fingerprint": "faults"}


def row(value=1.0, **parameters):
    named = {"suite": "faults", "primitive": "cell", "quantity": "q", "unit": "1"}
    return OtherResult(**named, provenance="measured", value=value, parameters=parameters)


def measure(folder, key, what, run, report):
    print("begun", key, flush=True)
    if what == "hang":
        time.sleep(3600)
    elif what == "baseline":  # one that forks and is deaf to SIGTERM
        worker = Worker(
            [
                sys.executable,
                str(Path(__file__).parents[1] / "harness" / "compare" / "nasty_worker.py"),
                "forks",
            ]
        )
        worker.ask(WorkerJob(workload={}, batch_size=1, seed=0, gradient_steps=1), 3600)
    elif what == "killed":  # as by the kernel when it runs out of memory
        os.kill(os.getpid(), 9)
    elif what == "memory":
        limit = 2 << 30
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + limit, before[1]))
        try:
            bytearray(2 * limit)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    elif what == "large":
        return [row(text="x" * 200_000)]
    with (folder / "done").open("a") as done:
        done.write(f"{key}\n")
    return [row()]


def cells(folder, words):
    """`KEY=WORD` or `KEY`: a cell that does what the word says."""
    made = []
    for word in words:
        key, _, what = word.partition("=")
        made.append(Cell(key, 1, partial(measure, folder, key, what)))
    return made


def main(folder, *words):
    folder = Path(folder)
    with Store.open(folder / "store.sqlite") as store:
        run = store.begin_run("quick", "r", MACHINE)
        execution.execute(run, cells(folder, words), silent)


if __name__ == "__main__":
    main(*sys.argv[1:])
