"""TOML files from strangers: each is accepted, or refused with one error of the promised kind.

`make test` tries a few hundred inputs of each kind; `make fuzz` sets PLACERL_FUZZ_EXAMPLES to 100,000.
"""

import json
import tomllib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from harness import workload
from harness.checked_toml import check, parse_toml
from harness.platform_model import Platform
from harness.workload import Workload
from tests.fuzz.fuzzing import EXAMPLES, accepted, edited, many, values, whole

pytestmark = whole
FOLDER = Path(harness.__file__).parent
WORKLOADS = [path.read_bytes() for path in sorted((FOLDER / "workloads").glob("*.toml"))]
PLATFORMS = [path.read_bytes() for path in sorted((FOLDER / "platforms").glob("*.toml"))]


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
