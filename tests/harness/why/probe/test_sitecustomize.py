"""What the probe counts inside a script."""

import json
import os
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

from placerl.harness.why.probe import sitecustomize
from placerl.harness.why.probe.sitecustomize import ENVIRONMENT, FIRST, GRADIENT, Counters


def pairs(folder: Path) -> np.ndarray:
    slots = np.fromfile(folder / f"{os.getpid()}.counts", np.int64)
    return slots[FIRST:].reshape(-1, 2, 2, 2)


def test_events_are_counted_by_the_kind_before_in_the_table_that_counts(tmp_path: Path) -> None:
    counters = Counters(str(tmp_path))
    for kind in (ENVIRONMENT, GRADIENT, GRADIENT, ENVIRONMENT):
        counters.event(kind)
    counters.slots[sitecustomize.TABLE] = 2
    counters.event(GRADIENT)
    found = pairs(tmp_path)
    assert found[0, ..., 0].tolist() == [[1, 1], [1, 1]]
    assert found[2, ..., 0].tolist() == [[0, 1], [0, 0]]
    assert (found[..., 1] > 0).tolist() == (found[..., 0] > 0).tolist()


def test_of_steps_inside_each_other_the_outermost_counts(tmp_path: Path) -> None:
    counters = Counters(str(tmp_path))

    class Inner:
        num_envs = 3

        def step(self, action: int) -> int:
            return action + 1

    Inner.step = counters.counted(Inner.step)  # type: ignore[method-assign]

    class Outer:
        def __init__(self) -> None:
            self.env = Inner()

        def step(self, action: int) -> int:
            return self.env.step(action) + 1

    Outer.step = counters.counted(Outer.step)  # type: ignore[method-assign]
    assert [Outer().step(1), Outer().step(2)] == [3, 4]
    assert pairs(tmp_path)[0, ..., 0].sum() == 2
    facts = (tmp_path / f"{os.getpid()}.facts").read_text().splitlines()
    assert [json.loads(line) for line in facts] == [{"fact": "environment", "kind": "Outer", "count": 1}]


def test_environments_that_a_library_counts_under_another_name_are_counted(tmp_path: Path) -> None:
    class Four:
        env_num = 4

        def step(self) -> None:
            pass

    Four.step = Counters(str(tmp_path)).counted(Four.step)  # type: ignore[method-assign]
    Four().step()
    (fact,) = (tmp_path / f"{os.getpid()}.facts").read_text().splitlines()
    assert json.loads(fact)["count"] == 4


def test_gradient_steps_in_jax_are_as_many_as_an_algorithm_says(tmp_path: Path) -> None:
    module = types.ModuleType("library")
    module.Base = type("Base", (), {"_n_updates": 0})  # type: ignore[attr-defined]
    sitecustomize._updates(Counters(str(tmp_path)), "Base")(module)

    class Algorithm(module.Base):  # type: ignore[misc, name-defined]
        def train(self, gradient_steps: int) -> str:
            self._n_updates += gradient_steps
            return "done"

    assert Algorithm().train(gradient_steps=3) == "done"
    assert pairs(tmp_path)[0, :, GRADIENT, 0].sum() == 3


def test_the_batch_size_is_read_from_the_graph_of_a_loss() -> None:
    dense = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    seen: list[dict[str, Any]] = []
    assert sitecustomize._rows((dense(torch.ones(37, 3)) ** 2).mean(), lambda **one: seen.append(one)) == 37
    assert seen == []
    image = torch.nn.Conv2d(1, 2, 3, stride=2, padding=1)
    assert sitecustomize._rows(image(torch.ones(5, 1, 8, 8)).sum(), lambda **one: seen.append(one)) == 5
    assert seen == [{"weight": [2, 1, 3, 3], "input": [1, 8, 8], "stride": [2, 2], "padding": [1, 1]}]


def test_without_its_variable_the_import_changes_nothing() -> None:
    assert sitecustomize.FOLDER not in os.environ
    assert not any(isinstance(finder, sitecustomize.Patches) for finder in __import__("sys").meta_path)
