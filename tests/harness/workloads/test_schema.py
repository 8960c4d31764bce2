import json
import subprocess
import sys
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete, MultiBinary
from hypothesis import given, settings
from hypothesis import strategies as st

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.primitives.algorithms.networks import MLP, forward_macs

SHIPPED = ["cartpole-ddpg", "cartpole-dqn", "hopper-ddpg"]


def toml(name):
    return Path(workloads.__file__).with_name(f"{name}.toml").read_text()


def test_shipped_names():
    assert set(SHIPPED) <= set(workloads.names())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_workloads_load_with_their_environments(name):
    loaded = workloads.load(name)
    assert loaded.name == name
    assert loaded.stands_for
    assert {32, 256, 2048} <= set(loaded.training.batch_sizes)
    assert workloads.from_tables(json.loads(json.dumps(loaded.tables())), "job") == loaded


def test_sizes_are_those_of_map_table_iii():
    cartpole, hopper = workloads.load("cartpole-ddpg"), workloads.load("hopper-ddpg")
    assert (cartpole.environment.observation_shape, cartpole.environment.action_size) == ((4,), 1)
    assert (hopper.environment.observation_shape, hopper.environment.action_size) == ((11,), 3)
    assert cartpole.network.hidden == (8, 8)
    assert hopper.network.hidden == (256, 256)
    # MAP's 70.1K multiply-accumulates are within 2% of this critic's.
    assert forward_macs(MLP((14, *hopper.network.hidden, 1))) == pytest.approx(70_100, rel=0.02)


def test_words_of_a_transition():
    assert workloads.load("hopper-ddpg").item_words == 11 + 3 + 1 + 11 + 1
    assert workloads.load("cartpole-dqn").item_words == 4 + 1 + 1 + 4 + 1


def test_hyperparameters_are_complete():
    tables = tomllib.loads(toml("cartpole-dqn"))
    del tables["algorithm"]["loss"]
    assert workloads.from_tables(tables, "x").algorithm.hyperparameters["loss"] == "huber"


def test_a_file_by_its_path(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(toml("cartpole-dqn").replace("2.5e-4", "1e-3"))
    assert workloads.load(path).algorithm.hyperparameters["learning_rate"] == 1e-3


@pytest.mark.parametrize("name", ["nonesuch", "../workloads/cartpole-dqn", "", "cartpole-dqn\0", "a\nb"])
def test_an_unknown_name_lists_the_known(name):
    with pytest.raises(UserError, match=r"cartpole-ddpg, cartpole-dqn, .*hopper-ddpg") as caught:
        workloads.load(name)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("training.batch_size", 0, "training.batch_size: found 0; allowed: greater than or equal to 1"),
        ("training.batch_size", "many", "training.batch_size: found 'many'"),
        ("training.batch_sizes", [32, 0], r"training.batch_sizes\[1\]: found 0"),
        (
            "training.batch_sizes",
            [32, 32],
            "training.batch_sizes: found a list of 2; allowed: each size once",
        ),
        ("training.learning_starts", 31, "training.learning_starts: found 31; allowed: .*32 to 50000"),
        ("training.seeds", [-1], r"training.seeds\[0\]: found -1"),
        ("replay.capacity", 2047, "replay.capacity: found 2047; allowed: at least 2048"),
        ("training.presampled_batches", 2000, "replay.capacity: found 50000; allowed: at least 64032"),
        ("replay.fanout", 1, "replay.fanout: found 1; allowed: greater than or equal to 2"),
        ("replay.alpha", float("nan"), "replay.alpha: found nan"),
        ("algorithm.name", "sarsa", "algorithm.name: found 'sarsa'; allowed: .*dqn"),
        ("algorithm.gamma", 1.5, r"algorithm.gamma: found 1.5; allowed: a number in \[0, 1\]"),
        ("algorithm.gamma", "1", "algorithm.gamma: found '1'"),
        ("network.activation", "step", "network.activation: found 'step'; allowed: none, relu, tanh"),
        ("network.kind", "nature_cnn", "network.kind"),
        (
            "environment.action_kind",
            "continuous",
            "environment.action_kind: found 'continuous'; allowed: 'discrete'",
        ),
        ("environment.id", "os:system-v0", "environment.id: found 'os:system-v0'"),
        ("environment.kwargs", {"xml_file": "/etc/x.xml"}, "environment.kwargs.xml_file: found '/etc/x.xml'"),
        ("name", "<script>", "name: found '<script>'"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_allowed(field, value, line):
    tables = tomllib.loads(toml("cartpole-dqn"))
    tables["network"].setdefault("activation", "relu")
    tables["replay"]["capacity"] = 50_000
    tables["training"].setdefault("presampled_batches", 0)
    tables["environment"].setdefault("kwargs", {})
    *parents, last = field.split(".")
    table = tables
    for parent in parents:
        table = table[parent]
    table[last] = value
    with pytest.raises(UserError, match=line) as caught:
        workloads.from_tables(tables, "mine.toml")
    assert str(caught.value).startswith("mine.toml: ")
    assert len(str(caught.value).splitlines()) == 1


def test_an_unknown_hyperparameter_is_refused():
    tables = tomllib.loads(toml("cartpole-dqn"))
    tables["algorithm"]["learning_rat"] = 1
    with pytest.raises(UserError, match=r"learning_rat.*learning_rate"):
        workloads.from_tables(tables, "mine.toml")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"id": "Nonesuch-v0"}, "environment.id: found 'Nonesuch-v0'"),
        ({"id": "nowhere/Pong-v5"}, "environment.id: found 'nowhere/Pong-v5'"),
        ({"kwargs": {"no_such_argument": 1}}, "environment.kwargs"),
        ({"observation_shape": (5,)}, r"environment.observation_shape: found \[5\]; allowed: \(4,\)"),
        ({"action_size": 3}, "environment.action_size: found 3; allowed: 2"),
        ({"id": "ContinuousCartPole-v0"}, "environment.action_kind: found discrete; allowed: continuous"),
    ],
)
def test_an_environment_that_is_not_as_the_file_says(change, line):
    environment = workloads.load("cartpole-dqn").environment.model_copy(update=change)
    with pytest.raises(UserError, match=line):
        workloads.check_environment(environment, "mine.toml")


FRAMES, DISCRETE = Box(0, 255, (4, 84, 84), np.uint8), Discrete(2)


@pytest.mark.parametrize(
    ("observations", "actions", "line"),
    [
        (Box(-1, 1, (4,)), Discrete(2, start=1), "whose actions are Discrete(2, start=1); allowed: an environment w"),
        (Box(-1, 1, (4,)), Box(-np.inf, 1, (2,)), "whose actions are Box(-inf, 1.0, (2,), float32); allowed: an envi"),
        (Box(-1, 1, (4,)), Box(-1, 1, (2, 3)), "whose actions are Box(-1.0, 1.0, (2, 3), float32); allowed: an envir"),
        (Box(-1, 1, (4,)), MultiBinary(2), "whose actions are MultiBinary(2); allowed: an environment with a Discrete"),
        (Box(0, 1, FRAMES.shape), DISCRETE, "whose observations are Box(0.0, 1.0, (4, 84, 84), float32); allowed: an"),
        (FRAMES, DISCRETE, ""),
        (Box(-1, 1, (4,), np.float64), DISCRETE, ""),
        (Box(-1, 1, (4,)), Box(-0.4, 2, (2,)), ""),
    ],
)  # fmt: skip
def test_an_environment_of_another_kind_is_refused(monkeypatch, observations, actions, line):
    class Odd(gymnasium.Env):
        observation_space, action_space = observations, actions

    monkeypatch.setitem(gymnasium.registry, "Odd-v0", EnvSpec("Odd-v0", entry_point=Odd))
    stated = {
        "id": "Odd-v0",
        "observation_shape": observations.shape,
        "action_kind": "discrete" if isinstance(actions, Discrete) else "continuous",
        "action_size": 2,
    }
    environment = workloads.load("cartpole-dqn").environment.model_copy(update=stated)
    if not line:
        workloads.check_environment(environment, "mine.toml")
        return
    with pytest.raises(UserError) as refused:
        workloads.check_environment(environment, "mine.toml")
    assert str(refused.value).startswith(f"mine.toml: environment.id: found 'Odd-v0', {line}")
    assert "did you mean" not in str(refused.value)


def test_override_checks_like_a_file():
    loaded = workloads.load("hopper-ddpg")
    assert workloads.override(loaded, "replay.fanout", 64, "--fanout").replay.fanout == 64
    with pytest.raises(UserError, match=r"--fanout: replay\.fanout: found 1"):
        workloads.override(loaded, "replay.fanout", 1, "--fanout")


def test_another_batch_size_moves_the_start_of_learning():
    loaded = workloads.load("cartpole-dqn")
    assert (
        workloads.with_batch_size(loaded, 64, "x").training.learning_starts == loaded.training.learning_starts
    )
    assert workloads.with_batch_size(loaded, 2048, "x").training.learning_starts == 2048
    for bad in (0, -1, loaded.replay.capacity + 1, 1.5):
        with pytest.raises(UserError, match="--batch-size"):
            workloads.with_batch_size(loaded, bad, "--batch-size")


def test_importing_needs_no_pytorch():
    code = "import sys; from placerl.harness.workloads import schema; schema.names(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=8), v, max_size=3),
    max_leaves=8,
)
BASE = tomllib.loads(toml("cartpole-dqn"))
FIELDS = [(table, field) for table, content in BASE.items() if isinstance(content, dict) for field in content]


@settings(max_examples=200, deadline=None)
@given(place=st.sampled_from(FIELDS), value=values)
def test_any_value_anywhere_is_a_workload_or_one_line(place, value):
    tables = json.loads(json.dumps(BASE))
    tables[place[0]][place[1]] = value
    try:
        made = workloads.from_tables(tables, "x")
    except UserError as error:
        lines = str(error).splitlines()
    else:
        lines = [made.name]
        assert workloads.from_tables(made.tables(), "x") == made
    assert len(lines) == 1


def test_a_new_workload_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "cartpole-small.toml").write_text(
        toml("cartpole-dqn").replace("cartpole-dqn", "cartpole-small")
    )
    monkeypatch.setattr(workloads.schema, "_FOLDER", tmp_path)
    assert workloads.names() == ("cartpole-small",)
    assert workloads.load("cartpole-small").name == "cartpole-small"
