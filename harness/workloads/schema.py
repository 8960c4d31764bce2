"""Defines workloads: TOML files, each with an environment, an algorithm, its training, and the papers' places.

The places are the tables, figures and sections of the papers that the workload reproduces:

name = "hopper-ddpg"
description = "..."
[environment]  # a Gymnasium environment and its sizes
[algorithm]    # `name`, and the hyper-parameters of `primitives.algorithms`, by their names there
[network]      # layers
[replay]       # data storage and sum tree
[training]     # batch sizes, actors, ratio of environment steps to gradient steps, seeds
[[stands_for]] # the places in the papers
"""

import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from placerl.harness.core.errors import UserError
from placerl.harness.core.toml_models import TomlTable, check, read_toml, refusal
from placerl.harness.environments.schema import Environment, Size, check_environment
from placerl.primitives.sum_tree.base import FANOUT_MAX, FANOUT_MIN

_FOLDER = Path(str(resources.files("placerl.harness") / "workloads"))
_LARGEST_OBSERVATION = 10**7

BatchSize = Annotated[int, Field(ge=1, le=2**20)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class AlgorithmTable(TomlTable):
    """The `[algorithm]` table: the algorithm's name and its hyper-parameters, which have defaults."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="an algorithm of placerl.primitives.algorithms")

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The algorithm's hyper-parameters by name, without the algorithm's name."""
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("name"), str):
            return values
        # Imported here because PyTorch takes seconds to load and most of the harness does not need it.
        from placerl.primitives import algorithms

        given = {name: value for name, value in values.items() if name != "name"}
        defaults = algorithms.create(values["name"], observation_shape=(1,), action_size=1).hyperparameters
        return {"name": values["name"], **vars(type(defaults).of(given))}


class NetworkTable(TomlTable):
    """The `[network]` table, which describes the agent's networks. Actor and critic have the same hidden layers."""

    kind: str = Field(
        default="mlp", description="'mlp' or another kind of placerl.primitives.algorithms.networks"
    )
    hidden: tuple[Size, ...] = Field(
        default=(256, 256), max_length=16, description="units of the hidden layers, from the input on"
    )
    activation: str = Field(default="relu", description="after each hidden layer")

    @model_validator(mode="after")
    def _known(self) -> Self:
        from placerl.primitives.algorithms.networks import NetworkDescription

        NetworkDescription.of(self.model_dump())
        return self


class ReplayTable(TomlTable):
    """The `[replay]` table: the replay's capacity, and the parameters of its priorities."""

    capacity: int = Field(ge=2, le=2**31, description="transitions stored before the oldest is evicted")
    prioritized: bool = Field(default=True, description="prioritised replay, or uniform")
    fanout: int = Field(
        default=16, ge=FANOUT_MIN, le=FANOUT_MAX, description="K, children of a sum tree node"
    )
    alpha: float = Field(default=0.6, ge=0, le=1, description="exponent of the priority; 0 is uniform")
    beta_initial: float = Field(default=0.4, ge=0, le=1, description="importance exponent at first")
    beta_final: float = Field(default=1.0, ge=0, le=1, description="importance exponent after beta_steps")
    beta_steps: int = Field(
        default=100_000, ge=1, le=10**12, description="gradient steps over which beta changes linearly"
    )
    epsilon: float = Field(default=1e-6, gt=0, le=1, description="added to |TD error| before the exponent")


class TrainingTable(TomlTable):
    """The `[training]` table: batch sizes, numbers of steps and environments, and seeds."""

    batch_size: BatchSize = Field(description="transitions in a gradient step")
    batch_sizes: tuple[BatchSize, ...] = Field(
        min_length=1, max_length=64, description="batch sizes that the primitives are profiled for"
    )
    actors: int = Field(default=1, ge=1, le=4096, description="environments stepped in parallel")
    update_interval: int = Field(
        default=1, ge=1, le=10**6, description="environment steps (of all actors) per gradient step"
    )
    learning_starts: int = Field(
        ge=1, le=10**9, description="environment steps before the first gradient step"
    )
    presampled_batches: int = Field(
        default=0, ge=0, le=10_000, description="D, batches sampled ahead; 0 is the strict loop (MAP V-A)"
    )
    solved_return: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="mean return of 20 episodes in a row at which the task counts as solved",
    )
    seeds: tuple[Seed, ...] = Field(default=(0,), min_length=1, max_length=1000, description="one run each")

    @property
    def rows_of_batches(self) -> int:
        """The transitions of the largest batch, or of those that are sampled ahead, whichever are more."""
        ahead = self.batch_size * (self.presampled_batches + 1)
        return max(self.batch_size, *self.batch_sizes, ahead)

    @property
    def rows_of_an_iteration(self) -> int:
        """The transitions between two insertions: of whole steps of all actors, and of whole gradient steps."""
        return math.lcm(self.actors, self.update_interval)


class StandsFor(TomlTable):
    """A `[[stands_for]]` table: a place in a paper, such as a table's row, that the workload reproduces."""

    paper: Literal["MAP", "PAL", "PRL", "PPO", "FIX"] = Field(description="the paper's key")
    place: str = Field(
        min_length=1, max_length=200, description="table, figure or section, and row or column"
    )
    note: str = Field(default="", max_length=500, description="in what this workload differs from the paper")


class Workload(TomlTable):
    """A workload: an environment, an algorithm and the settings of its training, as its TOML file describes them.

    Workloads with equal fields are equal.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="lower case, digits and hyphens")
    description: str = Field(default="", max_length=2000)
    environment: Environment
    algorithm: AlgorithmTable
    network: NetworkTable = Field(default_factory=NetworkTable)
    replay: ReplayTable
    training: TrainingTable
    stands_for: tuple[StandsFor, ...] = Field(default=(), max_length=100)

    @property
    def item_words(self) -> int:
        """The size of a stored transition in 32-bit words, one for each number.

        These are the observations before and after the step, the action, the reward, and the terminated flag.
        """
        action = self.environment.action_size if self.environment.action_kind == "continuous" else 1
        return 2 * math.prod(self.environment.observation_shape) + action + 2

    def tables(self) -> dict[str, Any]:
        """Return the contents of the workload's file as nested dicts and lists, with every default filled in."""
        return self.model_dump(mode="json")

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        environment, replay, training = self.environment, self.replay, self.training
        if math.prod(environment.observation_shape) > _LARGEST_OBSERVATION:
            found = list(environment.observation_shape)
            raise refusal("environment.observation_shape", found, f"at most {_LARGEST_OBSERVATION} numbers")
        if len(set(training.batch_sizes)) < len(training.batch_sizes):
            raise refusal("training.batch_sizes", list(training.batch_sizes), "each size once")
        if len(set(training.seeds)) < len(training.seeds):
            raise refusal("training.seeds", list(training.seeds), "each seed once")
        if replay.capacity < (needed := training.rows_of_batches):
            why = "the largest batch, and batch_size * (presampled_batches + 1)"
            raise refusal("replay.capacity", replay.capacity, f"at least {needed}: {why}")
        if not training.batch_size <= training.learning_starts <= replay.capacity:
            allowed = f"batch_size to replay.capacity, {training.batch_size} to {replay.capacity}"
            raise refusal("training.learning_starts", training.learning_starts, allowed)
        self._check_algorithm()
        return self

    def _check_algorithm(self) -> None:
        from placerl.primitives import algorithms

        try:
            algorithm = algorithms.create(
                self.algorithm.name,
                observation_shape=self.environment.observation_shape,
                action_size=self.environment.action_size,
                network=self.network.model_dump(),
                hyperparameters=self.algorithm.hyperparameters,
            )
        except ValueError as error:  # each table is valid, but they contradict each other
            together = "environment.observation_shape, network.kind, algorithm.name"
            values = (list(self.environment.observation_shape), self.network.kind, self.algorithm.name)
            raise refusal(together, values, str(error)) from error
        if self.environment.action_kind not in algorithm.action_kinds:
            kinds = " or ".join(repr(kind) for kind in algorithm.action_kinds)
            allowed = f"{kinds}, which {self.algorithm.name} acts in"
            found = repr(self.environment.action_kind)
            raise refusal("environment.action_kind", found, allowed)


def names() -> tuple[str, ...]:
    """Return the names of the shipped workloads."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name_or_path: str | Path) -> Workload:
    """Return a shipped workload by its name, or one from a TOML file.

    Args:
        name_or_path: one of `names()`, or a path that ends in `.toml`.

    Raises:
        UserError: the name is unknown; the file is unreadable, malformed or has a value out of range; or its
            environment is not installed or has other sizes than the file states.
    """
    text = str(name_or_path)
    if text in names():
        return _shipped(_FOLDER / f"{text}.toml")
    if text.endswith(".toml"):
        return _from_file(Path(text))
    raise UserError("workload", "name", repr(text), f"{', '.join(names())}, or a path that ends in .toml")


@cache  # a plan loads each many times, and its check creates the environment
def _shipped(path: Path) -> Workload:
    return _from_file(path)


def _from_file(path: Path) -> Workload:
    workload = from_tables(read_toml(path), path)
    check_environment(workload.environment, path)
    return workload


def from_tables(tables: Mapping[str, Any], source: object) -> Workload:
    """Create a workload from the contents of its file as nested dicts.

    Args:
        tables: the file's tables by name, such as "environment" and "algorithm".

    Raises:
        UserError: a field is wrong, missing or unknown; the message names the first one.
    """
    return check(Workload, tables, source)


def override(workload: Workload, field: str, value: object, source: object) -> Workload:
    """Return the workload with one field changed, validated as if it came from the file.

    Args:
        field: path of an existing field, such as `training.batch_size`.

    Raises:
        UserError: the value is not allowed.
        KeyError: there is no such field.
    """
    tables = workload.tables()
    *parents, last = field.split(".")
    table = tables
    for parent in parents:
        table = table[parent]
    if last not in table:
        raise KeyError(field)
    table[last] = value
    return from_tables(tables, source)


def with_batch_size(workload: Workload, batch_size: int, source: object) -> Workload:
    """Return the workload with another batch size.

    If the replay would hold less than a batch when learning starts, learning starts later, with a full batch.

    Raises:
        UserError: the batch size is out of range, or more than the replay can hold.
    """
    waiting = override(workload, "training.learning_starts", workload.replay.capacity, source)
    resized = override(waiting, "training.batch_size", batch_size, source)
    first = max(batch_size, workload.training.learning_starts)
    return override(resized, "training.learning_starts", first, source)
