"""A soak of the store: `store_soak.py FOLDER KILLS [SEED]` kills a writer that opens, writes, closes and merges.

After each kill every reader must read the store and a copy of its one file, with the same content.
No acknowledged cell may be missing, and no merge may have changed a run.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from placerl.harness.core.provenance import Provenance
from placerl.harness.core.row import Row
from placerl.harness.report import export
from placerl.harness.store.rows import OtherResult
from placerl.harness.store.store import Store

MACHINE = {"fingerprint": "soak"}
MOST_CELLS, LONGEST_REST_S = 5, 0.02
ROWS = 2


def _row(value: float) -> Row:
    named = {"suite": "faults", "primitive": "cell", "quantity": "q", "unit": "1"}
    return OtherResult(**named, provenance=Provenance.MEASURED, value=value, samples=(value,) * 50)


def _write(path: Path, other: Path, turn: int, say: int) -> None:
    """Open, write, close and merge without an end; each cell is acknowledged once it is stored."""
    number = 0
    while True:
        with Store.open(path) as store:
            run = store.begin_run("quick", "r", MACHINE)
            for _ in range(3):
                run.finish(f"{turn}/{number}", [_row(number)] * ROWS)
                os.write(say, f"{turn}/{number}\n".encode())
                number += 1
            with Store.open(other, read_only=True) as source:
                store.copy_from(source)
        with Store.open(path, read_only=True) as store:
            store.measurements()


def _grow(other: Path, turn: int) -> None:
    with Store.open(other) as store:
        store.begin_run("quick", f"r{turn // 20}", {"fingerprint": "other"}).finish(f"c{turn}", [_row(turn)])


def _runs(path: Path) -> dict[str, list[tuple[str, list[Row]]]]:
    """Return the cells of each run by the run's key."""
    with Store.open(path, read_only=True) as store:
        rows = {}
        for run in store.runs():
            cells = {name: [] for name in store.cells(run.id)}
            for (_, name, _), measurement in store._select({"cell.run_id": run.id}):
                cells[name].append(measurement)
            rows[run.key] = list(cells.items())
        return rows


def soak(folder: Path, kills: int, seed: int = 0) -> Counter[str]:
    """Kill the writer this many times; return what was counted. AssertionError, UserError: something was lost."""
    path, other, copy = (folder / name / "placerl.sqlite" for name in ("results", "other", "copy"))
    copy.parent.mkdir(parents=True)
    chance, counts = random.Random(seed), Counter[str]()
    acknowledged, theirs = set[str](), set[str]()
    before: dict[str, list[tuple[str, list[Row]]]] = {}
    for turn in range(kills):
        _grow(other, turn)
        hears, says = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _write(path, other, turn, says)
            finally:
                os._exit(1)
        os.close(says)
        with open(hears, encoding="ascii") as heard:
            said = [heard.readline() for _ in range(chance.randrange(MOST_CELLS))]
            assert all(said), "the writer ended by itself"
            time.sleep(chance.uniform(0, LONGEST_REST_S))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            acknowledged |= {line.strip() for line in [*said, *heard]}
        counts["kills"] += 1
        counts["left a draft"] += path.with_name("placerl.sqlite-draft").exists()
        if not path.exists():
            assert not acknowledged
            continue
        shutil.copyfile(path, copy)
        assert copy.read_bytes() == path.read_bytes()
        now = _runs(path)
        counts["reads"] += 1
        with Store.open(other, read_only=True) as store:
            theirs = {run.key for run in store.runs()}
        own = [cells for key, cells in now.items() if key not in theirs]
        found = {name for cells in own for name, _ in cells}
        assert acknowledged <= found, sorted(acknowledged - found)
        assert all(len(rows) == ROWS for cells in own for _, rows in cells), "half a cell"
        for key, cells in before.items():
            assert now[key][: len(cells)] == cells, "a run was changed"
        before = now
        if turn % 50 == 49:
            export.write(copy, folder / "export", ["csv"])
            counts["exports"] += 1
    counts["acknowledged cells"] = len(acknowledged)
    counts["merged cells"] = sum(len(cells) for key, cells in before.items() if key in theirs)
    return counts


if __name__ == "__main__":
    print(dict(soak(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 0)))
