"""Files and lines from strangers: each is accepted, or refused with one error of the promised kind.

`make test` tries a few hundred inputs of each kind; `make fuzz` sets PLACERL_FUZZ_EXAMPLES to 100,000.
"""

import json
import os
import sqlite3
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harness
from harness import workers, workload
from harness.checked_toml import check, parse_toml
from harness.errors import UserError
from harness.platform_model import Platform
from harness.store import Measurement, Store
from harness.workload import Workload

EXAMPLES = int(os.environ.get("PLACERL_FUZZ_EXAMPLES", "300"))
many = settings(
    max_examples=EXAMPLES,
    deadline=30_000,  # ms: an input that takes longer counts as a hang
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
# One process tries them all, so the limit is that of the whole.
pytestmark = pytest.mark.timeout(max(300, EXAMPLES // 10))

FOLDER = Path(harness.__file__).parent
WORKLOADS = [path.read_bytes() for path in sorted((FOLDER / "workloads").glob("*.toml"))]
PLATFORMS = [path.read_bytes() for path in sorted((FOLDER / "platforms").glob("*.toml"))]
TOKENS = [
    *(b"[ ] [[ ]] { } = , . - + _ e nan inf -inf true 0x 1e999 -1 0 1_000_000_000_000_000_000_000").split(),
    *(
        b"\" ' \"\"\" ''' \\ \\u0000 \\U00110000 \n \r \t \0 \xff \xc3 \xe2\x80\xa8 # <script> ../../etc/passwd"
    ).split(b" "),
    *(b"1979-05-27 07:32:00 [training] [[stands_for]] name batch_size __class__ os:system-v0").split(),
]


@st.composite
def edited(draw, originals):
    """A file of ours after some edits: parts cut out, doubled, moved, or replaced by tokens and noise."""
    content = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        part = draw(st.sampled_from(TOKENS) | st.binary(max_size=8) | st.just(bytes(content[start:end]) * 2))
        content[start:end] = part
    return bytes(content)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@st.composite
def spoiled(draw, originals):
    """The tables of a file of ours, with values anywhere replaced, added or removed."""
    tables = tomllib.loads(draw(st.sampled_from(originals)).decode())
    for _ in range(draw(st.integers(1, 4))):
        at = tables
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and at[key] and draw(st.booleans()):
                at = at[key]
                continue
            if isinstance(at, dict) and draw(st.integers(0, 4)) == 0:
                del at[key]
            else:
                at[key] = draw(values)
            break
    return tables


def accepted(action):
    """What an action returns; None when it refuses with one line. Any other exception is the test's failure."""
    try:
        return action()
    except UserError as error:
        line = str(error)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 2000
    return None


@many
@given(st.binary(max_size=200) | edited(WORKLOADS) | edited(PLATFORMS))
def test_toml_text(content):
    tables = accepted(lambda: parse_toml(content, "file.toml"))
    if tables is not None:
        accepted(lambda: check(Workload, tables, "file.toml"))
        accepted(lambda: check(Platform, tables, "file.toml"))


@many
@given(spoiled(WORKLOADS))
def test_workload_tables(tables):
    made = accepted(lambda: workload.from_tables(tables, "file.toml"))
    if made is not None:
        assert workload.from_tables(json.loads(json.dumps(made.tables())), "again") == made
        assert made.training.batch_size <= made.replay.capacity
        assert ":" not in made.environment.id


@many
@given(spoiled(PLATFORMS))
def test_platform_tables(tables):
    made = accepted(lambda: check(Platform, tables, "file.toml"))
    if made is not None:
        for key in {device.key for device in made.device} - {"cpu"}:
            bytes_per_s = accepted(lambda key=key: made.bytes_per_s("cpu", key))
            assert bytes_per_s is None or bytes_per_s > 0


@settings(many, max_examples=max(50, EXAMPLES // 1000))
@given(st.from_regex(r"\A[A-Za-z0-9_.-]{1,12}(/[A-Za-z0-9_.-]{1,12})?(-v[0-9])?\Z"))
def test_environment_names(name):
    environment = workload.load("cartpole-dqn").environment.model_copy(update={"id": name})
    accepted(lambda: workload.check_environment(environment, "file.toml"))


# The store


def _store_bytes(folder):
    path = folder / "original.sqlite"
    row = {
        "suite": "s",
        "primitive": "p",
        "quantity": "q",
        "unit": "s",
        "provenance": "measured",
        "value": 1.0,
    }
    with Store.open(path) as store:
        run = store.begin_run("quick", "r", {"fingerprint": "f"})
        for cell in range(6):
            run.finish(str(cell), [Measurement(**row, samples=(1.0, 2.0), details={"k": "v" * 200})] * 3)
    return path.read_bytes()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return _store_bytes(tmp_path_factory.mktemp("original"))


def use(path):
    """Everything that a report or a merge does with a store."""
    with Store.open(path, read_only=True) as store:
        runs, measurements = store.runs(), store.measurements()
        for run in runs:
            store.cells(run.id)
        return runs, measurements


@many
@given(data=st.data())
def test_store_bytes(original, tmp_path, data):
    content = bytearray(original)
    for _ in range(data.draw(st.integers(1, 8))):
        # Headers of the file and of its pages are where a byte changes most.
        page = 4096 * data.draw(st.integers(0, len(original) // 4096))
        start = min(len(content), page + data.draw(st.integers(0, 128) | st.integers(0, 4095)))
        content[start : start + 4] = data.draw(
            st.binary(max_size=8) | st.sampled_from([b"\xff" * 4, b"\0" * 4])
        )
    if data.draw(st.integers(0, 9)) == 0:
        del content[data.draw(st.integers(0, len(content))) :]
    path = tmp_path / "store.sqlite"
    for beside in tmp_path.iterdir():
        beside.unlink()
    path.write_bytes(content)
    found = accepted(lambda: use(path))
    if found is not None:
        assert all(isinstance(row, Measurement) for row in found[1])


texts = (
    st.text(max_size=30)
    | values.map(lambda value: json.dumps(value))
    | st.sampled_from(["[1e999]", "[" * 9999])
)


@many
@given(
    column=st.sampled_from(["provenance", "status", "reason", "samples", "details", "unit", "suite"]),
    text=texts.filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)),
)
def test_store_content(original, tmp_path, column, text):
    path = tmp_path / "content.sqlite"
    path.write_bytes(original)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = MEMORY")
    with database:
        database.execute(f"UPDATE measurement SET {column} = ? WHERE id = 3", (text,))
    database.close()
    found = accepted(lambda: use(path))
    if found is not None:
        assert len(found[1]) == 18


# The workers' protocol


class Deaf(workers.Worker):
    """A worker without a process: only what it says is judged."""

    def __init__(self):
        self._stderr = workers.LastLines()

    def close(self, grace_s=0.0):
        return 0


def judged(line):
    """How a line failed, or what it says."""
    try:
        return None, Deaf()._parse(line)
    except workers.WorkerFailure as failure:
        return failure.kind, None


GOOD_ANSWER = {
    "gradient_steps": 1,
    "environment_steps": 1,
    "wall_s": 0.5,
    "episode_returns": [1.0],
    "versions": {},
}
answers = st.dictionaries(st.sampled_from([*GOOD_ANSWER, "error", "x"]), values, max_size=6).map(
    lambda change: json.dumps({**GOOD_ANSWER, **change}).encode()
)


@many
@given(st.binary(max_size=100) | answers | edited([json.dumps(GOOD_ANSWER).encode()]))
def test_worker_answers(line):
    kind, result = judged(line)
    assert kind in (None, workers.FailureKind.RUBBISH, workers.FailureKind.REFUSED)
    if result is not None:
        assert result.gradient_steps >= 1
        assert result.wall_s > 0


@many
@given(st.lists(st.binary(max_size=3000), max_size=6))
def test_worker_noise(parts):
    noise = workers.LastLines()
    for part in parts:
        noise.feed(part)
    lines = noise.lines()
    assert len(lines) <= workers.LAST_LINES
    assert all(len(line) <= workers.MAX_LINE_CHARACTERS for line in lines)
