"""TOML files from strangers: each is accepted, or refused with one error of the promised kind.

`make test` tries a thousand inputs of each kind; `make fuzz` sets PLACERL_FUZZ_EXAMPLES to 100,000.
"""

import json
import tomllib
from copy import deepcopy
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import placerl.harness
from placerl.harness import workloads
from placerl.harness.core.toml_models import check, parse_toml
from placerl.harness.platforms import PlatformFile
from placerl.harness.workloads import Workload
from tests.fuzz.fuzzing import (
    A_DRAW,
    EXAMPLES,
    accepted,
    each,
    edited,
    generators,
    many,
    several,
    values,
    whole,
)

pytestmark = whole
FOLDER = Path(placerl.harness.__file__).parent
WORKLOADS = [path.read_bytes() for path in sorted((FOLDER / "workloads").glob("*.toml"))]
PLATFORMS = [path.read_bytes() for path in sorted((FOLDER / "platforms").glob("*.toml"))]
WORKLOAD_TABLES = [tomllib.loads(content.decode()) for content in WORKLOADS]
PLAUSIBLE = [0, 1, -1, 2, 64, 10**6, 0.5, 1e-3, True, "", "native", "relu", "published"]
PLATFORM_TABLES = [tomllib.loads(content.decode()) for content in PLATFORMS]


@st.composite
def spoiled(draw, originals):
    """The tables of files of ours, with values anywhere replaced, added or removed."""
    rng, found = draw(generators), [*draw(several(values)), *PLAUSIBLE]
    return [_spoil(rng, deepcopy(rng.choice(originals)), found) for _ in range(A_DRAW)]


def _spoil(rng, tables, found):
    for _ in range(rng.randint(1, 4)):
        at = tables
        while keys := list(at) if isinstance(at, dict) else list(range(len(at))):
            key = rng.choice(keys)
            if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.5:
                at = at[key]
                continue
            if isinstance(at, dict) and rng.random() < 0.2:
                del at[key]
            else:
                at[key] = deepcopy(rng.choice(found))
            break
    return tables


@many
@given(several(st.binary(max_size=200), A_DRAW) | edited(WORKLOADS) | edited(PLATFORMS))
def test_toml_text(contents):
    for content in each(contents):
        tables = accepted(lambda content=content: parse_toml(content, "file.toml"))
        if tables is not None:
            accepted(lambda tables=tables: check(Workload, tables, "file.toml"))
            accepted(lambda tables=tables: check(PlatformFile, tables, "file.toml"))


@many
@given(spoiled(WORKLOAD_TABLES))
def test_workload_tables(inputs):
    for tables in each(inputs):
        made = accepted(lambda tables=tables: workloads.from_tables(tables, "file.toml"))
        if made is not None:
            assert workloads.from_tables(json.loads(json.dumps(made.tables())), "again") == made
            assert made.training.batch_size <= made.replay.capacity
            assert ":" not in made.environment.id


@many
@given(spoiled(PLATFORM_TABLES))
def test_platform_tables(inputs):
    for tables in each(inputs):
        made = accepted(lambda tables=tables: check(PlatformFile, tables, "file.toml"))
        if made is not None:
            for key in {device.key for device in made.device} - {"cpu"}:
                bytes_per_s = accepted(lambda made=made, key=key: made.bytes_per_s("cpu", key))
                assert bytes_per_s is None or bytes_per_s > 0


@settings(many, max_examples=max(50, EXAMPLES // 1000))
@given(st.from_regex(r"\A[A-Za-z0-9_.-]{1,12}(/[A-Za-z0-9_.-]{1,12})?(-v[0-9])?\Z"))
def test_environment_names(name):
    environment = workloads.load("cartpole-dqn").environment.model_copy(update={"id": name})
    accepted(lambda: workloads.check_environment(environment, "file.toml"))
